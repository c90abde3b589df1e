r"""Productions of target grammars: their symbols, and how they are spelled in files.

A symbol is a terminal, which is any token (a string without white space), a category `<name>`, or a wildcard: `<.>`
stands for exactly one token, whichever, and `<...>` for one or more. A terminal that would be misread (`|`, `::=`,
anything of the form `<name>`, a token that starts with `#`) is written with a backslash before it, and such a token
that already starts with backslashes gets one more, so that every production survives a round trip.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from nqg.errors import FormatError
from nqg.grammar.symbols import check_terminals

DEFINES = "::="
OR = "|"
_BRACKETED = re.compile(r"<[^\s<>]+>")
_NAME = re.compile(r"[^\s<>]*\w[^\s<>]*")
_MISREAD = re.compile(r"\\*(<[^\s<>]+>|\||::=|#.*)", flags=re.DOTALL)


@dataclass(frozen=True, slots=True, order=True)
class Category:
    """A non-terminal of a target grammar: its name stands for all strings that its productions derive.

    >>> str(Category("set"))
    '<set>'
    """

    name: str

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise FormatError(f"'<{self.name}>' is no non-terminal: its name needs a letter or a digit, and no blanks")

    def __str__(self) -> str:
        return f"<{self.name}>"


class Wildcard(Enum):
    """A symbol that matches tokens that the grammar need not know."""

    ONE_TOKEN = "<.>"
    TOKENS = "<...>"

    def __str__(self) -> str:
        return self.value


TargetSymbol = str | Category | Wildcard


@dataclass(frozen=True, slots=True)
class Production:
    """One way to write a category: `left` may be replaced by the symbols of `right`.

    >>> str(Production(Category("choice"), (Category("set"), "|", Wildcard.ONE_TOKEN)))
    '<choice> ::= <set> \\\\| <.>'
    """

    left: Category
    right: tuple[TargetSymbol, ...]

    def __post_init__(self) -> None:
        if not self.right:
            raise FormatError(f"{self.left} has an empty alternative; expected at least one symbol")
        check_terminals(symbol for symbol in self.right if isinstance(symbol, str))

    def __str__(self) -> str:
        return f"{self.left} {DEFINES} {spelled_all(self.right)}"


def spelled(symbol: TargetSymbol) -> str:
    r"""`symbol` as it is written in a file.

    >>> [spelled(symbol) for symbol in (Category("set"), "<set>", "<", "|", Wildcard.TOKENS)]
    ['<set>', '\\<set>', '<', '\\|', '<...>']
    """
    if isinstance(symbol, str):
        return f"\\{symbol}" if _MISREAD.fullmatch(symbol) else symbol
    return str(symbol)


def read_symbol(text: str) -> TargetSymbol:
    r"""The symbol that `text` spells.

    >>> read_symbol("<set>"), read_symbol(r"\<set>"), read_symbol("<="), str(read_symbol("<.>"))
    (Category(name='set'), '<set>', '<=', '<.>')
    """
    if text in (wildcard.value for wildcard in Wildcard):
        return Wildcard(text)
    if text.startswith("#"):
        raise FormatError(f"comments stand on lines of their own; the token '{text}' is written '\\{text}'")
    if not _BRACKETED.fullmatch(text):
        return text[1:] if text.startswith("\\") and _MISREAD.fullmatch(text) else text
    if not _NAME.fullmatch(text[1:-1]):
        raise FormatError(f"'{text}' is neither <name> nor a wildcard (<.>, <...>); the token is written '\\{text}'")
    return Category(text[1:-1])


def spelled_all(symbols: Iterable[TargetSymbol]) -> str:
    """The symbols as they are written in a file, side by side."""
    return " ".join(map(spelled, symbols))
