"""Context-free grammars of legal targets, and their text format.

    # FunQL, much reduced
    <query> ::= answer ( <set> )
    <set>   ::= state ( all ) | capital ( <set> ) | cityid ( ' <...> ' , <.> )

The first left side is the start symbol. `<.>` stands for any one token, `<...>` for one or more, `<#>` for a number,
`<'>` for a token that is not a quotation mark, `<?>` for one that the grammar names nowhere; a token that looks like
one of the signs is written with a backslash before it. Whether a target is legal is decided by `nqg.types.earley`,
which is loaded when first asked.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from nqg.errors import FormatError, Place, UnknownName
from nqg.files import numbered_lines, write_text
from nqg.grammar.grammar import check_terminals
from nqg.text.brackets import QUOTES
from nqg.text.escapes import escape, signs, unescape

if TYPE_CHECKING:
    from nqg.grammar.grammar import Rule
    from nqg.types.earley import Prefix, Recogniser, Verdict
    from nqg.types.tree_automaton import Typing


DEFINES = "::="
OR = "|"
_LINE_WIDTH = 100
_BRACKETED = re.compile(r"<[^\s<>]+>")
_NAME = re.compile(r"[^\s<>]*\w[^\s<>]*")
_NUMBER = re.compile(r"-?\d+(\.\d+)?")
_SIGNS = signs(r"<[^\s<>]+>|\||::=|#.*")


@dataclass(frozen=True, slots=True, order=True)
class Category:
    """A non-terminal of a target grammar: its name stands for all strings that its productions derive.

    >>> str(Category("set"))
    '<set>'
    """

    name: str

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            reason = "its name needs a letter or a digit, and no blanks"
            raise FormatError(f"'<{self.name}>' is not a non-terminal: {reason}")

    def __str__(self) -> str:
        return f"<{self.name}>"


class Wildcard(Enum):
    """A symbol that matches tokens that the grammar need not know."""

    ONE_TOKEN = "<.>"
    TOKENS = "<...>"
    NUMBER = "<#>"
    UNQUOTED = "<'>"
    NEW_TOKEN = "<?>"

    def matches(self, token: str, named: Container[str] = ()) -> bool:
        """Whether the wildcard takes `token`, in a grammar with these terminals; all but `<...>` take exactly one.

        >>> [token for token in ("-1.5", "limit", '"') if Wildcard.NUMBER.matches(token)]
        ['-1.5']
        """
        match self:
            case Wildcard.NUMBER:
                return _NUMBER.fullmatch(token) is not None
            case Wildcard.UNQUOTED:
                return token not in QUOTES
            case Wildcard.NEW_TOKEN:
                return token not in named
            case _:
                return True

    def __str__(self) -> str:
        return self.value


TargetSymbol = str | Category | Wildcard


@dataclass(frozen=True, slots=True)
class Production:
    """One way to write a category: `left` may be replaced by the symbols of `right`.

    >>> str(Production(Category("node"), (Category("set"), "|", Wildcard.ONE_TOKEN)))
    '<node> ::= <set> \\\\| <.>'
    """

    left: Category
    right: tuple[TargetSymbol, ...]

    def __post_init__(self) -> None:
        if not self.right:
            raise FormatError(f"{self.left} has an empty alternative; expected at least one symbol")
        check_terminals(symbol for symbol in self.right if isinstance(symbol, str))

    def __str__(self) -> str:
        return f"{self.left} {DEFINES} {format_symbols(self.right)}"


def format_target_symbol(symbol: TargetSymbol) -> str:
    r"""`symbol` as it is written in a file.

    >>> [format_target_symbol(symbol) for symbol in (Category("set"), "<set>", "<", "|", Wildcard.TOKENS)]
    ['<set>', '\\<set>', '<', '\\|', '<...>']
    """
    if isinstance(symbol, str):
        return escape(symbol, _SIGNS)
    return str(symbol)


def read_target_symbol(text: str) -> TargetSymbol:
    r"""The symbol that `text` spells.

    >>> [str(read_target_symbol(text)) for text in ("<set>", r"\<set>", "<=", "<.>")]
    ['<set>', '<set>', '<=', '<.>']
    """
    if text in (wildcard.value for wildcard in Wildcard):
        return Wildcard(text)
    if text.startswith("#"):
        raise FormatError(
            f"comments stand on lines of their own; the token '{text}' is written '\\{text}'"
        )
    if not _BRACKETED.fullmatch(text):
        return unescape(text, _SIGNS)
    if not _NAME.fullmatch(text[1:-1]):
        signs = ", ".join(wildcard.value for wildcard in Wildcard)
        raise FormatError(
            f"'{text}' is neither <name> nor a wildcard ({signs}); the token is written '\\{text}'"
        )
    return Category(text[1:-1])


def format_symbols(symbols: Iterable[TargetSymbol]) -> str:
    return " ".join(map(format_target_symbol, symbols))


@dataclass(frozen=True)
class TargetGrammar:
    """Productions of all categories; the first one's left side is the start symbol.

    >>> grammar = TargetGrammar.parse("<query> ::= answer ( <set> )\\n<set> ::= state | next_to ( <set> )")
    >>> grammar.accepts("answer ( next_to ( state ) )".split())
    True
    >>> print(grammar.explain("answer ( next_to state )".split()))
    legal up to token 3 'next_to', expected '(', found 'state'
    """

    productions: tuple[Production, ...]

    def __post_init__(self) -> None:
        if not self.productions:
            raise FormatError(
                f"expected at least one production '<name> {DEFINES} symbols', found none"
            )
        defined = set(self.categories)
        for number, production in enumerate(self.productions):
            for category in _categories(production.right):
                if category not in defined:
                    unknown = UnknownName(
                        "non-terminal", category.name, (other.name for other in defined)
                    )
                    raise _BadProduction(str(unknown), number)
        productive = _productive(self.productions)
        for number, production in enumerate(self.productions):
            if production.left not in productive:
                reason = f"{production.left} derives no target: each of its alternatives leads round in a circle"
                raise _BadProduction(reason, number)

    @classmethod
    def parse(cls, text: str) -> TargetGrammar:
        """The grammar that `text` spells."""
        source = Path("<text>")
        return _grammar(
            source, ((Place(source, at), line) for at, line in enumerate(text.split("\n"), start=1))
        )

    @classmethod
    def read(cls, path: Path | str) -> TargetGrammar:
        """The grammar in the file at `path`."""
        return _grammar(Path(path), numbered_lines(Path(path)))

    def write(self, path: Path | str) -> None:
        """Write the grammar to `path`; `read` gives it back."""
        write_text(Path(path), str(self))

    def __str__(self) -> str:
        lines: list[str] = []
        left = None
        for production in (
            self.productions
        ):  # neighbours with the same left side share a line as far as its width goes
            longer = (
                f"{lines[-1]} {OR} {format_symbols(production.right)}"
                if production.left == left
                else ""
            )
            if longer and len(longer) <= _LINE_WIDTH:
                lines[-1] = longer
            else:
                lines.append(str(production))
            left = production.left
        return "".join(f"{line}\n" for line in lines)

    @property
    def start(self) -> Category:
        """The category of whole targets."""
        return self.productions[0].left

    @property
    def categories(self) -> tuple[Category, ...]:
        """All categories, in the order of their first production."""
        return tuple(dict.fromkeys(production.left for production in self.productions))

    @cached_property
    def terminals(self) -> frozenset[str]:
        """All tokens that productions name."""
        return frozenset(
            symbol for each in self.productions for symbol in each.right if isinstance(symbol, str)
        )

    @property
    def unreachable(self) -> tuple[Category, ...]:
        """Categories that occur in no target: allowed, but often a slip."""
        parts: dict[Category, list[Category]] = {}
        for production in self.productions:
            parts.setdefault(production.left, []).extend(_categories(production.right))
        reached, frontier = {self.start}, [self.start]
        while frontier:
            fresh = set(parts[frontier.pop()]) - reached
            reached |= fresh
            frontier.extend(fresh)
        return tuple(category for category in self.categories if category not in reached)

    def accepts(self, tokens: Sequence[str]) -> bool:
        """Whether `tokens` are a legal target."""
        return self.recogniser.accepts(tokens)

    def explain(self, tokens: Sequence[str]) -> Verdict:
        """Whether `tokens` are a legal target and, where they are not, how far they are legal and what was expected."""
        return self.recogniser.explain(tokens)

    def prefix(self, tokens: Sequence[str] = ()) -> Prefix | None:
        """The start of a target, to be continued token by token; None where no legal target starts so."""
        return self.recogniser.prefix(tokens)

    @cached_property
    def recogniser(self) -> Recogniser:
        from nqg.types.earley import Recogniser  # loads Numba

        return Recogniser.of(self)

    def typing(self, rules: Sequence[Rule]) -> Typing:
        """The types that derivations with these rules have."""
        from nqg.types.tree_automaton import Typing  # loads Numba

        return Typing.of(rules, self)


def _grammar(source: Path, lines: Iterable[tuple[Place, str]]) -> TargetGrammar:
    productions: list[Production] = []
    places: list[Place] = []
    for place, line in lines:
        try:
            productions.extend(_productions(line))
        except FormatError as error:
            raise error.at(place) from None
        places.extend([place] * (len(productions) - len(places)))
    try:
        return TargetGrammar(tuple(productions))
    except _BadProduction as error:
        raise error.at(places[error.number]) from None
    except FormatError as error:
        raise error.at(source) from None


def _productions(line: str) -> Iterator[Production]:
    words = line.split()
    if not words or words[0].startswith("#"):
        return
    if DEFINES not in words:
        raise FormatError(
            f"expected '<name> {DEFINES} symbols', found no '{DEFINES}' in '{line.strip()}'"
        )
    middle = words.index(DEFINES)
    left = read_target_symbol(words[0]) if middle == 1 else None
    if not isinstance(left, Category):
        raise FormatError(
            f"expected one non-terminal <name> before '{DEFINES}', found '{' '.join(words[:middle])}'"
        )
    if DEFINES in words[middle + 1 :]:
        raise FormatError(
            f"expected one '{DEFINES}' a line, found more; the token is written '\\{DEFINES}'"
        )
    bars = [at for at, word in enumerate(words) if word == OR and at > middle]
    for begin, end in pairwise([middle, *bars, len(words)]):
        yield Production(left, tuple(map(read_target_symbol, words[begin + 1 : end])))


class _BadProduction(FormatError):
    """A production that does not go with the others, by its number."""

    def __init__(self, reason: str, number: int) -> None:
        super().__init__(reason)
        self.number = number


def _categories(symbols: Iterable[TargetSymbol]) -> Iterator[Category]:
    return (symbol for symbol in symbols if isinstance(symbol, Category))


def _productive(productions: Sequence[Production]) -> set[Category]:
    """The categories that derive at least one string of tokens."""
    missing = [set(_categories(production.right)) for production in productions]
    users: dict[Category, list[int]] = {}
    for number, categories in enumerate(missing):
        for category in categories:
            users.setdefault(category, []).append(number)
    ready = [number for number, categories in enumerate(missing) if not categories]
    productive: set[Category] = set()
    while ready:
        category = productions[ready.pop()].left
        productive.add(category)
        for number in users.pop(category, ()):
            missing[number].remove(category)
            if not missing[number]:
                ready.append(number)
    return productive
