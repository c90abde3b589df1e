"""Patterns of strings that every regular-expression engine and GBNF can write.

Decoders elsewhere know few operators: sets of characters, sequences, choices and repetitions. A
pattern has these and no others, so that one description serves all formats. There are neither
classes such as `\\w`, whose meaning differs, nor lookarounds, which most decoders lack.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

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
    match pattern:
        case Literal(text):
            return "".join(map(_escaped, text))
        case Characters():
            special = {mark: f"\\{mark}" for mark in "\\]^-[&~|/\"'"}
            return _character_class(pattern, special)
        case Concatenation(items):
            return "".join(_grouped(item) for item in items)
        case Choice(options):
            return "|".join(map(regular_expression, options))
        case Repetition(item):
            written = regular_expression(item)
            is_single = isinstance(item, Characters) or (
                isinstance(item, Literal) and len(item.text) == 1
            )
            if not is_single:
                written = f"(?:{written})"
            return written + _count(pattern)


def _grouped(pattern: Pattern) -> str:
    written = regular_expression(pattern)
    return f"(?:{written})" if isinstance(pattern, Choice) else written


def _escaped(character: str) -> str:
    if character in "\\.^$|?*+()[]{}/":
        return f"\\{character}"
    return {"\n": "\\n", "\t": "\\t"}.get(character, character)


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


def gbnf_expression(pattern: Pattern) -> str:
    """The pattern as llama.cpp reads it.

    >>> gbnf_expression(NUMBER)
    '"-"? [0-9]+ ("." [0-9]+)?'
    """
    match pattern:
        case Literal(text):
            return gbnf_string(text)
        case Characters():
            special = {mark: f"\\{mark}" for mark in '\\]["'}
            return _character_class(pattern, special | {"-": "\\x2D", "^": "\\x5E"})
        case Concatenation(items):
            return " ".join(_gbnf_grouped(item) for item in items)
        case Choice(options):
            return " | ".join(map(gbnf_expression, options))
        case Repetition(item):
            written = gbnf_expression(item)
            if not isinstance(item, Characters | Literal):
                written = f"({written})"
            return written + _count(pattern)


def _gbnf_grouped(pattern: Pattern) -> str:
    written = gbnf_expression(pattern)
    return f"({written})" if isinstance(pattern, Choice) else written


def gbnf_string(text: str) -> str:
    escapes = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r"}
    return '"' + "".join(escapes.get(character, character) for character in text) + '"'


def joined_words(word: Pattern, separator: Pattern | str = " ") -> Pattern:
    """One or more words with a separator between them."""
    return concatenation(word, repeated(concatenation(separator, word)))


def alternatives(items: Sequence[str]) -> Pattern:
    """One of several strings, the longer before those that they begin with."""
    longest_first: list[str] = sorted(set(items), key=lambda item: (-len(item), item))
    return choice(longest_first)
