"""Legal targets: accepted or not, how far a target is legal, and what may come next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nqg.errors import FormatError
from nqg.grammar.production import Category, TargetSymbol, Wildcard
from nqg.grammar.target_chart import (
    FIRST_CATEGORY,
    NONE,
    ONE_TOKEN,
    TOKENS,
    Chart,
    Tables,
    empty_chart,
    is_complete,
    legal_labels,
    read,
)
from nqg.grammar.target_grammar import TargetGrammar
from nqg.grammar.trie import Trie

_SHOWN_TOKENS = 8


@dataclass(frozen=True, slots=True)
class Expected:
    """What may follow a prefix: one of `tokens`, any token at all, the end of the target.

    >>> print(Expected((")", ","), any_token=False, end=False))
    ')' or ','
    """

    tokens: tuple[str, ...]
    any_token: bool
    end: bool

    def allows(self, token: str) -> bool:
        """Whether `token` may come next."""
        return self.any_token or token in self.tokens

    def __str__(self) -> str:
        named = ["any token"] if self.any_token else [f"'{token}'" for token in self.tokens]
        hidden = len(named) - _SHOWN_TOKENS
        choices = [*named[:_SHOWN_TOKENS], *(["the end"] if self.end else [])]
        if hidden > 0:
            choices.append(f"{hidden} more")
        return " or ".join(part for part in (", ".join(choices[:-1]), choices[-1]) if part)


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether `tokens` are legal, how many of them from the left are, and what may follow those."""

    tokens: tuple[str, ...]
    legal_tokens: int
    expected: Expected

    @property
    def accepted(self) -> bool:
        """Whether the whole target is legal."""
        return self.legal_tokens == len(self.tokens) and self.expected.end

    def __str__(self) -> str:
        if self.accepted:
            return "legal"
        if self.legal_tokens == len(self.tokens):
            return f"legal so far, but it ends too early: expected {self.expected}"
        found = self.tokens[self.legal_tokens]
        if self.legal_tokens == 0:
            return f"illegal from the first token: expected {self.expected}, found '{found}'"
        last = self.tokens[self.legal_tokens - 1]
        return f"legal up to token {self.legal_tokens} '{last}', expected {self.expected}, found '{found}'"


@dataclass(frozen=True, slots=True)
class Prefix:
    """The start of a legal target, for decoders that go from token to token; never changes, so beams may share it."""

    recogniser: Recogniser
    chart: Chart

    def then(self, token: str) -> Prefix | None:
        """This prefix and one more token; None where no legal target goes on so."""
        return self.recogniser.extended(self, [token])

    @property
    def length(self) -> int:
        """How many tokens have been read."""
        return self.chart.position

    @property
    def expected(self) -> Expected:
        """What may come next."""
        return self.recogniser.expected_after(self.chart)

    @property
    def may_end(self) -> bool:
        """Whether the prefix is a whole legal target."""
        return bool(is_complete(self.recogniser.tables, self.chart))


@dataclass(frozen=True, slots=True)
class Recogniser:
    """A target grammar made ready for the chart; use it through `TargetGrammar`."""

    terminals: tuple[str, ...]  # sorted; a terminal's label is its position
    labels: dict[str, int]
    tables: Tables
    begin: Chart

    @classmethod
    def of(cls, grammar: TargetGrammar) -> Recogniser:
        """The recogniser of `grammar`."""
        symbols = (symbol for production in grammar.productions for symbol in production.right)
        terminals = tuple(sorted({symbol for symbol in symbols if isinstance(symbol, str)}))
        labels = {terminal: label for label, terminal in enumerate(terminals)}
        tables = _tables(grammar, labels)
        return cls(terminals, labels, tables, empty_chart(tables))

    def accepts(self, tokens: Sequence[str]) -> bool:
        """Whether `tokens` are a legal target."""
        chart = self._read(self.begin, tokens)
        return chart.position == len(tokens) and bool(is_complete(self.tables, chart))

    def explain(self, tokens: Sequence[str]) -> Verdict:
        """How far `tokens` are legal, and what may follow there."""
        chart = self._read(self.begin, tokens)
        return Verdict(tuple(tokens), chart.position, self.expected_after(chart))

    def prefix(self, tokens: Sequence[str]) -> Prefix | None:
        """The prefix `tokens`; None where no legal target starts with them."""
        return self.extended(Prefix(self, self.begin), tokens)

    def extended(self, prefix: Prefix, tokens: Sequence[str]) -> Prefix | None:
        """`prefix` with more tokens; None where no legal target starts so."""
        chart = self._read(prefix.chart, tokens)
        return Prefix(self, chart) if chart.position == prefix.length + len(tokens) else None

    def expected_after(self, chart: Chart) -> Expected:
        """What may follow the tokens that `chart` has read."""
        legal = legal_labels(self.tables, chart.column, len(self.terminals))
        return Expected(
            tokens=tuple(self.terminals[label] for label in np.flatnonzero(legal[:-1])),
            any_token=bool(legal[-1]),
            end=bool(is_complete(self.tables, chart)),
        )

    def _read(self, chart: Chart, tokens: Sequence[str]) -> Chart:
        if isinstance(tokens, str):
            raise FormatError(f"expected a sequence of tokens, found the string {tokens!r}; split it first")
        unknown = len(self.terminals)  # no edge bears this label, so only wildcards match
        labels = [self.labels.get(token, unknown) for token in tokens]
        return read(self.tables, chart, np.array(labels, dtype=np.int32))


def _tables(grammar: TargetGrammar, labels: dict[str, int]) -> Tables:
    numbers = {category: number for number, category in enumerate(grammar.categories)}

    def label(symbol: TargetSymbol) -> int:
        if isinstance(symbol, Category):
            return FIRST_CATEGORY - numbers[symbol]
        if isinstance(symbol, Wildcard):
            return ONE_TOKEN if symbol is Wildcard.ONE_TOKEN else TOKENS
        return labels[symbol]

    trie = Trie.of([[label(each.left), *map(label, each.right)] for each in grammar.productions])
    arrays = trie.arrays
    lefts = np.array([numbers[each.left] for each in grammar.productions], dtype=np.int32)
    completes = np.full(len(trie), NONE, dtype=np.int32)
    completes[np.repeat(np.arange(len(trie)), np.diff(arrays.first_item))] = lefts[arrays.items]
    absorbs = np.zeros(len(trie), dtype=np.bool_)
    absorbs[arrays.successors[arrays.labels == TOKENS]] = True
    entries = np.array([trie.node([label(category)]) for category in numbers], dtype=np.int32)
    return Tables(arrays, entries, completes, absorbs)
