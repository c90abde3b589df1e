"""Context-free grammars of legal targets, and their text format.

    # FunQL, much reduced
    <query> ::= answer ( <set> )
    <set>   ::= state ( all ) | capital ( <set> ) | cityid ( ' <...> ' , <.> )

The first left side is the start symbol. `<.>` stands for any one token, `<...>` for one or more,
`<#>` for a number, `<'>` for a token that is not a quotation mark, `<?>` for one that the grammar
names nowhere; a token that looks like one of the signs is written with a backslash before it.
Whether a target is legal is decided by `nqg.types.earley`, which is loaded on first use.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

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
_GRAMMAR_SIGNS = signs(r"<[^\s<>]+>|\||::=|#.*")


@dataclass(frozen=True, slots=True, order=True)
class Category:
    """A non-terminal of a target grammar: its name stands for all strings that its productions
    derive.

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
        """Whether the wildcard takes `token`, in a grammar with these terminals.

        All wildcards but `<...>` take exactly one token.

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


WILDCARD_OF_TEXT = {wildcard.value: wildcard for wildcard in Wildcard}
TargetSymbol = str | Category | Wildcard
Node = TypeVar("Node")


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
            raise FormatError(
                f"{self.left} has an empty alternative; expected at least one symbol"
            )
        check_terminals(symbol for symbol in self.right if isinstance(symbol, str))

    def __str__(self) -> str:
        return f"{self.left} {DEFINES} {format_symbols(self.right)}"


def format_target_symbol(symbol: TargetSymbol) -> str:
    r"""`symbol` as it is written in a file.

    >>> [format_target_symbol(symbol) for symbol in (Category("set"), "<set>", "|", Wildcard.TOKENS)]
    ['<set>', '\\<set>', '\\|', '<...>']
    """
    if isinstance(symbol, str):
        return escape(symbol, _GRAMMAR_SIGNS)
    return str(symbol)


def read_target_symbol(text: str) -> TargetSymbol:
    r"""The symbol that `text` spells.

    >>> [str(read_target_symbol(text)) for text in ("<set>", r"\<set>", "<=", "<.>")]
    ['<set>', '<set>', '<=', '<.>']
    """
    # Wildcards look like bracketed names, so they are told apart first.
    if text in WILDCARD_OF_TEXT:
        return WILDCARD_OF_TEXT[text]
    if text.startswith("#"):
        raise FormatError(
            f"comments stand on lines of their own; the token '{text}' is written '\\{text}'"
        )
    if not _BRACKETED.fullmatch(text):
        return unescape(text, _GRAMMAR_SIGNS)
    if not _NAME.fullmatch(text[1:-1]):
        reason = (
            f"'{text}' is neither <name> nor a wildcard ({', '.join(WILDCARD_OF_TEXT)})"
        )
        raise FormatError(f"{reason}; the token is written '\\{text}'")
    return Category(text[1:-1])


def format_symbols(symbols: Iterable[TargetSymbol]) -> str:
    return " ".join(map(format_target_symbol, symbols))


@dataclass(frozen=True)
class TargetGrammar:
    """Productions of all categories. The first one's left side is the start symbol.

    >>> grammar = TargetGrammar.parse(
    ...     "<query> ::= answer ( <set> )\\n<set> ::= state | next_to ( <set> )")
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
        for _, flaw in _flaws(self.productions):
            raise flaw

    @classmethod
    def parse(cls, text: str) -> TargetGrammar:
        """The grammar that `text` spells."""
        source = Path("<text>")
        lines = enumerate(text.split("\n"), start=1)
        return _grammar(
            source, ((Place(source, number), line) for number, line in lines)
        )

    @classmethod
    def read(cls, path: Path | str) -> TargetGrammar:
        """The grammar in the file at `path`."""
        return _grammar(Path(path), numbered_lines(Path(path)))

    def write(self, path: Path | str) -> None:
        """Write the grammar to `path`. `read` gives it back."""
        write_text(Path(path), str(self))

    def __str__(self) -> str:
        lines: list[str] = []
        # Neighbours with the same left side share a line as far as its width goes.
        left = None
        for production in self.productions:
            is_new = production.left != left
            if not is_new:
                longer = f"{lines[-1]} {OR} {format_symbols(production.right)}"
                is_new = len(longer) > _LINE_WIDTH
            if is_new:
                lines.append(str(production))
            else:
                lines[-1] = longer
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
        rights = chain.from_iterable(
            production.right for production in self.productions
        )
        return frozenset(symbol for symbol in rights if isinstance(symbol, str))

    @property
    def unreachable(self) -> tuple[Category, ...]:
        """Categories that occur in no target: allowed, but often a slip."""
        below = defaultdict[Category, set[Category]](set)
        for production in self.productions:
            below[production.left].update(_categories(production))
        reached = reachable(self.start, below)
        return tuple(
            category for category in self.categories if category not in reached
        )

    def accepts(self, tokens: Sequence[str]) -> bool:
        """Whether `tokens` are a legal target."""
        return self.recogniser.accepts(tokens)

    def explain(self, tokens: Sequence[str]) -> Verdict:
        """Whether `tokens` are a legal target, how far they are, and what was expected there."""
        return self.recogniser.explain(tokens)

    def prefix(self, tokens: Sequence[str] = ()) -> Prefix | None:
        """The start of a target, to be continued by tokens. None where no target starts so."""
        return self.recogniser.prefix(tokens)

    @cached_property
    def recogniser(self) -> Recogniser:
        # Loads Numba, like the next import.
        from nqg.types.earley import Recogniser

        return Recogniser.of(self)

    def typing(self, rules: Sequence[Rule]) -> Typing:
        """The types that derivations with these rules have."""
        from nqg.types.tree_automaton import Typing

        return Typing.of(rules, self)


def reachable(start: Node, below: Mapping[Node, set[Node]]) -> set[Node]:
    """`start` and all nodes below it.

    >>> sorted(reachable(1, {1: {2}, 2: {1, 3}, 3: set(), 4: {1}}))
    [1, 2, 3]
    """
    reached, waiting = {start}, [start]
    while waiting:
        new = below[waiting.pop()] - reached
        reached |= new
        waiting.extend(new)
    return reached


def _grammar(source: Path, lines: Iterable[tuple[Place, str]]) -> TargetGrammar:
    """The grammar of numbered lines; an error names the line."""
    productions: list[Production] = []
    line_of: list[Place] = []
    # Remember the line of each production for flaws that only show later.
    for line_place, line in lines:
        try:
            productions += _productions(line)
        except FormatError as error:
            raise error.at(line_place) from None
        line_of += [line_place] * (len(productions) - len(line_of))
    # The constructor finds these flaws, too, but cannot name their lines.
    for number, flaw in _flaws(productions):
        raise flaw.at(line_of[number])
    try:
        return TargetGrammar(tuple(productions))
    except FormatError as error:
        raise error.at(source) from None


def _productions(line: str) -> list[Production]:
    """The productions of a line; a blank line or a comment has none."""
    words = line.split()
    if not words or words[0].startswith("#"):
        return []
    if DEFINES not in words:
        raise FormatError(
            f"expected '<name> {DEFINES} symbols', found no '{DEFINES}' in '{line.strip()}'"
        )
    middle = words.index(DEFINES)
    before, behind = words[:middle], words[middle + 1 :]
    left = read_target_symbol(words[0]) if middle == 1 else None
    if not isinstance(left, Category):
        raise FormatError(
            f"expected one non-terminal <name> before '{DEFINES}', found '{' '.join(before)}'"
        )
    if DEFINES in behind:
        raise FormatError(
            f"expected one '{DEFINES}' a line, found more; the token is written '\\{DEFINES}'"
        )
    # The sign that is added at the end closes the last alternative.
    productions = []
    right: list[TargetSymbol] = []
    for word in (*behind, OR):
        if word == OR:
            productions.append(Production(left, tuple(right)))
            right = []
        else:
            right.append(read_target_symbol(word))
    return productions


def _categories(production: Production) -> list[Category]:
    return [symbol for symbol in production.right if isinstance(symbol, Category)]


def _flaws(productions: Sequence[Production]) -> Iterator[tuple[int, FormatError]]:
    """Numbers of productions that do not go with the others, with the reason."""
    defined = {production.left for production in productions}
    for number, production in enumerate(productions):
        for category in _categories(production):
            if category not in defined:
                names = [category.name for category in defined]
                unknown = UnknownName("non-terminal", category.name, names)
                yield number, FormatError(str(unknown))
    # The categories that derive at least one string. Most grammars name a category before they
    # define it, so that two passes from the end suffice.
    productive: set[Category] = set()
    count = -1
    while count < len(productive):
        count = len(productive)
        for production in reversed(productions):
            if productive.issuperset(_categories(production)):
                productive.add(production.left)
    for number, production in enumerate(productions):
        if production.left not in productive:
            reason = "each of its alternatives leads round in a circle"
            yield number, FormatError(f"{production.left} derives no target: {reason}")
