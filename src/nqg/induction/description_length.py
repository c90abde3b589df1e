"""The objective of appendix A.2: bits for the grammar, and bits to choose targets.

A target is chosen among the derivations of its source. A search handles rules as tuples of
integers, `LabelRule`; a `TerminalVocabulary` translates.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from typing import NamedTuple

from nqg.data.example import Example
from nqg.grammar.arrays import FloatArray
from nqg.grammar.chart import encoded_charts, encoded_goals
from nqg.grammar.encoding import LEAF, NT, GrammarArrays
from nqg.grammar.grammar import Grammar, NonTerminal, Rule, Symbol, Symbols
from nqg.grammar.ragged import Ragged
from nqg.grammar.semirings import log_derivation_counts
from nqg.induction.probabilities import fitted_data_bits, target_bits
from nqg.induction.settings import InductionSettings
from nqg.induction.work import CHART_UNITS, WorkMeter

Labels = tuple[int, ...]


class LabelRule(NamedTuple):
    """A rule in numbers: terminals are >= 0, source non-terminals NT, and NT_k of the target -k."""

    source: Labels
    target: Labels

    @property
    def arity(self) -> int:
        return self.source.count(NT)

    def numbered_source(self, first: int = -1) -> Labels:
        """The source with consecutive labels for its non-terminals: -1, -2, …"""
        labels = count(first, -1)
        return tuple(next(labels) if label == NT else label for label in self.source)

    def leaf_source(self) -> Labels:
        """The source with NT_k as the leaf k."""
        return self.numbered_source(LEAF - 1)

    def leaf_target(self) -> Labels:
        """The target with NT_k as the leaf k."""
        return tuple(label + LEAF if label < 0 else label for label in self.target)


def rule_of_leaves(source: Sequence[int], target: Sequence[int]) -> LabelRule | None:
    """The rule with these sides, its leaves numbered as in the source; None if they differ.

    >>> rule_of_leaves((LEAF - 2, 7), (5, LEAF - 2, LEAF - 2))
    LabelRule(source=(-1, 7), target=(5, -1, -1))
    """
    leaves = _leaves(source)
    if set(leaves) != set(_leaves(target)):
        return None
    numbers = dict(zip(leaves, count(-1, -1)))
    labels = tuple(NT if label <= LEAF else label for label in source)
    return LabelRule(labels, tuple(numbers.get(label, label) for label in target))


def _leaves(labels: Iterable[int]) -> list[int]:
    return [label for label in labels if label <= LEAF]


@dataclass(frozen=True)
class TerminalVocabulary:
    """The terminals of a corpus and their numbers."""

    terminals: tuple[str, ...]

    @classmethod
    def of(
        cls, examples: Iterable[Example], rules: Iterable[Rule] = ()
    ) -> TerminalVocabulary:
        """All tokens of the examples and all terminals of the rules, in the order of their text."""
        terminals: set[str] = set()
        for example in examples:
            terminals.update(example.source_tokens, example.target_tokens)
        for rule in rules:
            symbols = (*rule.source, *rule.target)
            terminals.update(symbol for symbol in symbols if isinstance(symbol, str))
        return cls(tuple(sorted(terminals)))

    @cached_property
    def numbers(self) -> dict[str, int]:
        return {terminal: number for number, terminal in enumerate(self.terminals)}

    def labels(self, symbols: Iterable[Symbol]) -> Labels:
        """Symbols in numbers, NT_k as -k; an unknown terminal is a KeyError."""
        labels: list[int] = []
        for symbol in symbols:
            if isinstance(symbol, NonTerminal):
                labels.append(-symbol.index)
            else:
                labels.append(self.numbers[symbol])
        return tuple(labels)

    def pair(self, example: Example) -> LabelRule:
        """An example as a rule of its own."""
        return LabelRule(
            self.labels(example.source_tokens), self.labels(example.target_tokens)
        )

    def label_rule(self, rule: Rule) -> LabelRule:
        source = tuple(max(NT, label) for label in self.labels(rule.source))
        return LabelRule(source, self.labels(rule.target))

    def rule(self, labels: LabelRule) -> Rule:
        return Rule(self.symbols(labels.numbered_source()), self.symbols(labels.target))

    def symbols(self, labels: Labels) -> Symbols:
        """The symbols of a side whose non-terminals are -1, -2, …"""
        return tuple(
            NonTerminal(-label) if label < 0 else self.terminals[label]
            for label in labels
        )


@dataclass(frozen=True, slots=True)
class DescriptionLength:
    """The two parts of the objective, in bits."""

    grammar_bits: float
    data_bits: float

    @property
    def total(self) -> float:
        """What the search minimises."""
        return self.grammar_bits + self.data_bits


def rule_bits(rule: Rule, settings: InductionSettings) -> float:
    """Bits needed to write `rule` down.

    >>> rule_bits(Rule.parse("NT_1 twice ### NT_1 NT_1"), InductionSettings())
    11.0
    """
    symbols = (*rule.source, *rule.target)
    terminals = sum(isinstance(symbol, str) for symbol in symbols)
    return _symbol_bits(terminals, len(symbols), settings)


def label_bits(rule: LabelRule, settings: InductionSettings) -> float:
    """`rule_bits` of a rule in numbers."""
    labels = rule.source + rule.target
    return _symbol_bits(sum(label >= 0 for label in labels), len(labels), settings)


def _symbol_bits(terminals: int, symbols: int, settings: InductionSettings) -> float:
    non_terminal_bits = settings.non_terminal_bits * (symbols - terminals)
    return non_terminal_bits + settings.terminal_bits * terminals


def grammar_bits(grammar: Grammar, settings: InductionSettings) -> float:
    return sum(rule_bits(rule, settings) for rule in grammar)


def description_length(
    grammar: Grammar, examples: Sequence[Example], settings: InductionSettings
) -> DescriptionLength:
    """The objective on distinct examples; infinite if one cannot be derived."""
    pairs = dict.fromkeys(
        (example.source_tokens, example.target_tokens) for example in examples
    )
    sources = grammar.encoded.encode([source for source, _ in pairs])
    targets = grammar.encoded.encode([target for _, target in pairs])
    data_term = fitted_data_bits if settings.fitted else data_bits
    bits = data_term(grammar.encoded.arrays, sources, targets)
    return DescriptionLength(grammar_bits(grammar, settings), float(bits.sum()))


def data_bits(
    grammar: GrammarArrays,
    sources: Ragged,
    targets: Ragged,
    meter: WorkMeter | None = None,
) -> FloatArray:
    """For each pair the bits that tell its target among the derivations: log2 |Z_x*| / |Z_xy|."""
    full = encoded_charts(grammar, sources)
    goal = encoded_goals(grammar, full, targets)
    if meter is not None:
        meter.add(CHART_UNITS + full.hyperedges + goal.hyperedges)
    return target_bits(log_derivation_counts(full), log_derivation_counts(goal))
