"""Patterns of strings that every regular-expression engine and GBNF can write.

Decoders elsewhere know few operators: sets of characters, sequences, choices and repetitions. A
pattern has these and no others, so that one description serves all formats. There are neither
classes such as `\\w`, whose meaning differs, nor lookarounds, which most decoders lack.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

# Letters, digits and marks as far as ranges of a few alphabets tell them: no expression of another
# engine agrees exactly with Python's `\w`.
_WORD_RANGES = (
    "09",
    "AZ",
    "__",
    "az",
    "ªª",
    "µµ",
    "ºº",
    "ÀÖ",
    "Øö",
    "ø῿",
    "Ⰰ⿿",
    "〱퟿",
)


@dataclass(frozen=True)
class Characters:
    """One character out of ranges of code points; with `is_negated`, one that is in none."""

    ranges: tuple[tuple[int, int], ...]
    is_negated: bool = False

    @classmethod
    def of(cls, characters: Iterable[str]) -> Characters:
        """The set of these characters."""
        points = sorted({ord(character) for character in characters})
        return cls(_joined((point, point) for point in points))

    @classmethod
    def other_than(cls, characters: str) -> Characters:
        return cls(cls.of(characters).ranges, is_negated=True)

    def spells(self, text: str) -> bool:
        """Whether a text has these characters and no others."""
        for character in text:
            point = ord(character)
            if not any(first <= point <= last for first, last in self.ranges):
                return False
        return bool(text)

    def without(self, characters: Collection[str]) -> Characters:
        """The set, less some characters.

        >>> regular_expression(DIGIT.without("05"))
        '[1-46-9]'
        """
        assert not self.is_negated, "a set has its ranges"
        ranges = []
        for first, last in self.ranges:
            for point in sorted(map(ord, characters)):
                if first <= point <= last:
                    if first < point:
                        ranges.append((first, point - 1))
                    first = point + 1
            if first <= last:
                ranges.append((first, last))
        return Characters(tuple(ranges))


@dataclass(frozen=True)
class Literal:
    """A string as it is."""

    text: str


@dataclass(frozen=True)
class Concatenation:
    """One pattern after the other."""

    items: tuple[Pattern, ...]


@dataclass(frozen=True)
class Choice:
    """Any one of several patterns."""

    options: tuple[Pattern, ...]


@dataclass(frozen=True)
class Repetition:
    """A pattern several times; `most` is None where there is no bound."""

    item: Pattern
    least: int = 0
    most: int | None = None


Pattern: TypeAlias = "Characters | Literal | Concatenation | Choice | Repetition"


def concatenation(*items: Pattern | str) -> Pattern:
    """Patterns and strings, one after the other."""
    patterns = [Literal(item) if isinstance(item, str) else item for item in items]
    if len(patterns) == 1:
        return patterns[0]
    return Concatenation(tuple(patterns))


def choice(options: Iterable[Pattern | str]) -> Pattern:
    """One of several patterns or strings."""
    patterns = [
        Literal(option) if isinstance(option, str) else option for option in options
    ]
    if len(patterns) == 1:
        return patterns[0]
    return Choice(tuple(patterns))


def optional(*items: Pattern | str) -> Pattern:
    return Repetition(concatenation(*items), 0, 1)


def repeated(item: Pattern, least: int = 0, most: int | None = None) -> Pattern:
    return Repetition(item, least, most)


def _joined(ranges: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Ranges in their order, neighbours as one."""
    joined: list[tuple[int, int]] = []
    for first, last in ranges:
        if joined and joined[-1][1] + 1 == first:
            joined[-1] = (joined[-1][0], last)
        else:
            joined.append((first, last))
    return tuple(joined)


WORD_CHARACTER = Characters(
    tuple((ord(ends[0]), ord(ends[1])) for ends in _WORD_RANGES)
)
LETTER = WORD_CHARACTER.without("0123456789_")
DIGIT = Characters.of("0123456789")
DIGIT_RUN = repeated(DIGIT, 1)
NUMBER = concatenation(optional("-"), DIGIT_RUN, optional(".", DIGIT_RUN))
APOSTROPHES = "'’"


def other_words(
    known: Collection[str], alphabet: Characters = WORD_CHARACTER
) -> Pattern:
    """Words of an alphabet other than those that are known.

    At every letter that leads to a known word, the pattern goes on with another letter, or
    follows the word and goes on from there.

    >>> import re
    >>> words = re.compile(regular_expression(other_words(["on", "off"])))
    >>> [word for word in ("on", "one", "o", "of", "off", "lamp") if words.fullmatch(word)]
    ['one', 'o', 'of', 'lamp']
    """
    words = frozenset(word for word in known if alphabet.spells(word))
    children: dict[str, set[str]] = {}
    for word in words:
        for end, character in enumerate(word):
            children.setdefault(word[:end], set()).add(character)

    def rest(prefix: str) -> Pattern:
        """What may follow a prefix of known words."""
        following = sorted(children.get(prefix, ()))
        remaining = alphabet.without(following)
        options: list[Pattern] = []
        if remaining.ranges:
            options.append(concatenation(remaining, repeated(alphabet)))
        for character in following:
            longer = prefix + character
            continued = rest(longer)
            if longer not in words:
                continued = Repetition(continued, 0, 1)
            options.append(concatenation(character, continued))
        return choice(options)

    if not words:
        return repeated(alphabet, 1)
    return rest("")


def any_case(text: str) -> Pattern:
    """A text in any casing."""
    items: list[Pattern] = []
    for character in text:
        cases = {character, character.lower(), character.upper()}
        single = [case for case in cases if len(case) == 1]
        items.append(Characters.of(single))
    return concatenation(*items)


def regular_expression(pattern: Pattern) -> str:
    r"""The pattern as Python, Rust and JavaScript read it.

    >>> regular_expression(NUMBER)
    '-?[0-9]+(?:\\.[0-9]+)?'
    """
    return _written(pattern, _REGULAR)


def gbnf_expression(pattern: Pattern) -> str:
    """The pattern as llama.cpp reads it.

    >>> gbnf_expression(NUMBER)
    '"-"? [0-9]+ ("." [0-9]+)?'
    """
    return _written(pattern, _GBNF)


def gbnf_string(text: str) -> str:
    escapes = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r"}
    return f'"{_replaced(text, escapes)}"'


def _escaped(text: str) -> str:
    escapes = {mark: f"\\{mark}" for mark in "\\.^$|?*+()[]{}/"}
    return _replaced(text, {**escapes, "\n": "\\n", "\t": "\\t"})


def _replaced(text: str, escapes: Mapping[str, str]) -> str:
    return "".join(escapes.get(character, character) for character in text)


class _Syntax(NamedTuple):
    """How a format writes literals, characters in classes, groups, and patterns in sequence."""

    literal: Callable[[str], str]
    escapes: Mapping[str, str]
    opening: str
    space: str
    has_quotes: bool

    def is_atom(self, pattern: Pattern) -> bool:
        """Whether a repetition of a pattern needs no group around it."""
        if isinstance(pattern, Literal):
            # A literal in quotes is an atom, whatever its length.
            return self.has_quotes or len(pattern.text) == 1
        return isinstance(pattern, Characters)


_CLASS_ESCAPES = {mark: f"\\{mark}" for mark in "\\]^-[&~|/\"'"}
_GBNF_ESCAPES = {mark: f"\\{mark}" for mark in '\\]["'}
_GBNF_ESCAPES |= {"-": "\\x2D", "^": "\\x5E"}
_REGULAR = _Syntax(_escaped, _CLASS_ESCAPES, "(?:", "", has_quotes=False)
_GBNF = _Syntax(gbnf_string, _GBNF_ESCAPES, "(", " ", has_quotes=True)


def _written(pattern: Pattern, syntax: _Syntax, *, is_grouped: bool = False) -> str:
    if is_grouped:
        return f"{syntax.opening}{_written(pattern, syntax)})"
    match pattern:
        case Literal(text):
            return syntax.literal(text)
        case Characters():
            return _character_class(pattern, syntax.escapes)
        case Concatenation(items):
            written = []
            for item in items:
                is_choice = isinstance(item, Choice)
                written.append(_written(item, syntax, is_grouped=is_choice))
            return syntax.space.join(written)
        case Choice(options):
            separator = f"{syntax.space}|{syntax.space}"
            return separator.join(_written(option, syntax) for option in options)
        case Repetition(item):
            is_compound = not syntax.is_atom(item)
            return _written(item, syntax, is_grouped=is_compound) + _count(pattern)


def _character_class(characters: Characters, special: Mapping[str, str]) -> str:
    written = "^" if characters.is_negated else ""
    escapes = {"\n": "\\n", "\t": "\\t", **special}
    for first, last in characters.ranges:
        written += escapes.get(chr(first), chr(first))
        if last > first + 1:
            written += "-"
        if last > first:
            written += escapes.get(chr(last), chr(last))
    return f"[{written}]"


def _count(pattern: Repetition) -> str:
    bounds = (pattern.least, pattern.most)
    short = {(0, None): "*", (1, None): "+", (0, 1): "?"}
    if bounds in short:
        return short[bounds]
    if pattern.least == pattern.most:
        return f"{{{pattern.least}}}"
    return f"{{{pattern.least},{'' if pattern.most is None else pattern.most}}}"


def joined_words(word: Pattern, separator: Pattern | str = " ") -> Pattern:
    """One or more words with a separator between them."""
    return concatenation(word, repeated(concatenation(separator, word)))


def alternatives(items: Sequence[str]) -> Pattern:
    """One of several strings, the longer before those that they begin with."""
    longest_first: list[str] = sorted(set(items), key=lambda item: (-len(item), item))
    return choice(longest_first)
