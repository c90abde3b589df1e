r"""Symbols of rules, and how they are spelled in files.

A symbol is a terminal, which is any token (a string without white space), or a non-terminal with its index. In text
`NT_1` is the non-terminal 1. A terminal that would be misread (`NT_1`, `###`, a token that starts with `#`) is written
with a backslash before it, and such a token that already starts with backslashes gets one more, so that every sequence
of symbols survives a round trip.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from nqg.errors import FormatError

SEPARATOR = "###"
_NON_TERMINAL = re.compile(r"NT_([1-9][0-9]{0,3})")
_MISREAD = re.compile(r"\\*(NT_[1-9][0-9]{0,3}|#.*)", flags=re.DOTALL)


@dataclass(frozen=True, slots=True, order=True)
class NonTerminal:
    """The non-terminal NT with an index that links source and target.

    >>> str(NonTerminal(1))
    'NT_1'
    """

    index: int

    def __str__(self) -> str:
        return f"NT_{self.index}"


Symbol = str | NonTerminal


def spelled(symbol: Symbol) -> str:
    r"""`symbol` as it is written in a file.

    >>> [spelled(symbol) for symbol in (NonTerminal(1), "NT_1", "jump", "###")]
    ['NT_1', '\\NT_1', 'jump', '\\###']
    """
    if isinstance(symbol, NonTerminal):
        return str(symbol)
    return f"\\{symbol}" if _MISREAD.fullmatch(symbol) else symbol


@lru_cache(maxsize=1 << 16)  # files repeat their tokens; the cache also makes equal tokens one object
def read_symbol(text: str) -> Symbol:
    r"""The symbol that `text` spells.

    >>> read_symbol("NT_2"), read_symbol(r"\NT_2"), read_symbol("NT_0"), read_symbol("\\")
    (NonTerminal(index=2), 'NT_2', 'NT_0', '\\')
    """
    if match := _NON_TERMINAL.fullmatch(text):
        return NonTerminal(int(match[1]))
    return text[1:] if text.startswith("\\") and _MISREAD.fullmatch(text) else text


@lru_cache(maxsize=1 << 16)
def is_token(text: str) -> bool:
    """Whether a sentence can hold `text` as one token: it is not empty and has no white space.

    >>> is_token("loc_2"), is_token("new york"), is_token("")
    (True, False, False)
    """
    return text.split() == [text]


def check_terminals(symbols: Iterable[Symbol]) -> None:
    """Refuse terminals that could not be told apart in a sentence."""
    for symbol in symbols:
        if isinstance(symbol, str) and not is_token(symbol):
            raise FormatError(f"terminal {symbol!r} is empty or holds white space; a token has neither")
