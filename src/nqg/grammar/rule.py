"""A rule of the quasi-synchronous grammar (section 4.1.1 of the paper): NT → ⟨source, target⟩, in that text form."""

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


Symbols = tuple[Symbol, ...]


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule: its source holds NT_1, NT_2, … once each and in order, its target the same ones, each at least once.

    >>> rule = Rule.parse("NT_1 twice ### NT_1 NT_1")
    >>> rule.arity, rule.target
    (1, (NonTerminal(index=1), NonTerminal(index=1)))
    >>> str(rule)
    'NT_1 twice ### NT_1 NT_1'
    """

    source: Symbols
    target: Symbols

    def __post_init__(self) -> None:
        check_terminals(self.source + self.target)
        if not self.source or not self.target:
            raise FormatError(f"the {'source' if not self.source else 'target'} of the rule is empty")
        indices = [symbol.index for symbol in self.source if isinstance(symbol, NonTerminal)]
        if len(self.source) == len(indices) == 1:
            raise FormatError("the source is a lone non-terminal; expected at least one more symbol")
        if indices != list(range(1, len(indices) + 1)):
            raise FormatError(f"the source has {_listed(indices)}; expected NT_1, NT_2, … once each and in order")
        used = sorted({symbol.index for symbol in self.target if isinstance(symbol, NonTerminal)})
        if used != indices:
            raise FormatError(f"the source has {_listed(indices)} but the target {_listed(used)}; expected the same")

    @property
    def arity(self) -> int:
        """How many non-terminals the source has."""
        return sum(isinstance(symbol, NonTerminal) for symbol in self.source)

    @classmethod
    def parse(cls, text: str) -> Rule:
        """The rule that `text` spells as `source ### target`."""
        tokens = text.split()
        count = tokens.count(SEPARATOR)
        if count != 1:
            raise FormatError(f"expected 'source {SEPARATOR} target', found '{SEPARATOR}' {count} times")
        middle = tokens.index(SEPARATOR)
        symbols = [read_symbol(token) for token in tokens]
        return cls(tuple(symbols[:middle]), tuple(symbols[middle + 1 :]))

    def __str__(self) -> str:
        source, target = (" ".join(map(spelled, side)) for side in (self.source, self.target))
        return f"{source} {SEPARATOR} {target}"


def _listed(indices: list[int]) -> str:
    return ", ".join(f"NT_{index}" for index in indices) or "no non-terminal"
