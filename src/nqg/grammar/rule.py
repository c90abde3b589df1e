"""A rule of the quasi-synchronous grammar (section 4.1.1 of the paper): NT → ⟨source, target⟩, in that text form."""

from __future__ import annotations

from dataclasses import dataclass

from nqg.errors import FormatError
from nqg.grammar.symbols import SEPARATOR, NonTerminal, Symbol, check_terminals, read_symbol, spelled

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
        _check_sides(self.source, self.target)

    @property
    def arity(self) -> int:
        """How many non-terminals the source has."""
        return sum(isinstance(symbol, NonTerminal) for symbol in self.source)

    @classmethod
    def parse(cls, text: str) -> Rule:
        """The rule that `text` spells as `source ### target`."""
        return cls(*parsed_sides(text))

    def __str__(self) -> str:
        source, target = (" ".join(map(spelled, side)) for side in (self.source, self.target))
        return f"{source} {SEPARATOR} {target}"


def parsed_sides(text: str) -> tuple[Symbols, Symbols]:
    """Source and target symbols of `source ### target`, not yet checked against each other."""
    tokens = text.split()
    if tokens.count(SEPARATOR) != 1:
        raise FormatError(f"expected 'source {SEPARATOR} target', found {tokens.count(SEPARATOR)} times '{SEPARATOR}'")
    middle = tokens.index(SEPARATOR)
    symbols = [read_symbol(token) for token in tokens]
    return tuple(symbols[:middle]), tuple(symbols[middle + 1 :])


def _check_sides(source: Symbols, target: Symbols) -> None:
    if not source or not target:
        raise FormatError(f"the {'source' if not source else 'target'} of the rule is empty")
    indices = [symbol.index for symbol in source if isinstance(symbol, NonTerminal)]
    if len(source) == len(indices) == 1:
        raise FormatError("the source is a lone non-terminal; expected at least one more symbol")
    if indices != list(range(1, len(indices) + 1)):
        raise FormatError(f"the source has {_listed(indices)}; expected NT_1, NT_2, … once each and in order")
    used = sorted({symbol.index for symbol in target if isinstance(symbol, NonTerminal)})
    if used != indices:
        raise FormatError(f"the source has {_listed(indices)} but the target {_listed(used)}; expected the same")


def _listed(indices: list[int]) -> str:
    return ", ".join(f"NT_{index}" for index in indices) or "no non-terminal"
