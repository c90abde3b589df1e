"""The objective of appendix A.2: bits for the grammar, and bits to choose each target among a source's derivations.

A search handles rules as tuples of integers, `LabelRule`; a `TerminalVocabulary` translates.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import NamedTuple

import numpy as np

from nqg.data.example import Example
from nqg.grammar.arrays import FloatArray
from nqg.grammar.chart import encoded_charts, encoded_goals
from nqg.grammar.encoding import LEAF, NT, GrammarArrays
from nqg.grammar.grammar import Grammar, NonTerminal, Rule, Symbols
from nqg.grammar.ragged import Ragged
from nqg.grammar.semirings import log_derivation_counts
from nqg.induction.probabilities import fitted_data_bits
from nqg.induction.settings import InductionSettings

Labels = tuple[int, ...]


class LabelRule(NamedTuple):
    """A rule in numbers: terminals are >= 0, source non-terminals are all NT, and NT_k of the target is -k."""

    source: Labels
    target: Labels

    @property
    def arity(self) -> int:
        return self.source.count(NT)

    def leaf_source(self) -> Labels:
        """The source with NT_k as the leaf k."""
        numbered = iter(range(LEAF - 1, LEAF - 1 - self.arity, -1))
        return tuple(next(numbered) if label == NT else label for label in self.source)

    def leaf_target(self) -> Labels:
        """The target with NT_k as the leaf k."""
        return tuple(label + LEAF if label < 0 else label for label in self.target)


def rule_of_leaves(source: Sequence[int], target: Sequence[int]) -> LabelRule | None:
    """The rule with these sides, leaves renumbered in the order of the source; None if the sides' leaves differ.

    >>> rule_of_leaves((LEAF - 2, 7), (5, LEAF - 2, LEAF - 2))
    LabelRule(source=(-1, 7), target=(5, -1, -1))
    """
    leaves = [label for label in source if label <= LEAF]
    if set(leaves) != {label for label in target if label <= LEAF}:
        return None
    index = {leaf: -number for number, leaf in enumerate(leaves, start=1)}
    labels = tuple(NT if label <= LEAF else label for label in source)
    return LabelRule(labels, tuple(index.get(label, label) for label in target))


@dataclass(frozen=True)
class TerminalVocabulary:
    """The terminals of a corpus and their numbers."""

    terminals: tuple[str, ...]

    @classmethod
    def of(cls, examples: Iterable[Example], rules: Iterable[Rule] = ()) -> TerminalVocabulary:
        """All tokens of the examples and all terminals of the rules, in the order of their text."""
        tokens = {
            token
            for example in examples
            for token in (*example.source_tokens, *example.target_tokens)
        }
        symbols = chain.from_iterable((*rule.source, *rule.target) for rule in rules)
        return cls(
            tuple(sorted(tokens | {symbol for symbol in symbols if isinstance(symbol, str)}))
        )

    @cached_property
    def numbers(self) -> dict[str, int]:
        return {terminal: number for number, terminal in enumerate(self.terminals)}

    def labels(self, tokens: Iterable[str]) -> Labels:
        return tuple(self.numbers[token] for token in tokens)

    def pair(self, example: Example) -> LabelRule:
        """An example as a rule of its own."""
        return LabelRule(self.labels(example.source_tokens), self.labels(example.target_tokens))

    def label_rule(self, rule: Rule) -> LabelRule:
        """`rule` in numbers; a terminal that the vocabulary does not have is a KeyError."""
        numbers = self.numbers
        return LabelRule(
            tuple(
                NT if isinstance(symbol, NonTerminal) else numbers[symbol] for symbol in rule.source
            ),
            tuple(
                -symbol.index if isinstance(symbol, NonTerminal) else numbers[symbol]
                for symbol in rule.target
            ),
        )

    def rule(self, labels: LabelRule) -> Rule:
        indices = iter(range(1, labels.arity + 1))
        source = tuple(
            NonTerminal(next(indices)) if label == NT else self.terminals[label]
            for label in labels.source
        )
        return Rule(source, self.symbols(labels.target))

    def symbols(self, target: Labels) -> Symbols:
        """The target side of a rule with these labels."""
        return tuple(
            NonTerminal(-label) if label < 0 else self.terminals[label] for label in target
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
    non_terminals = sum(isinstance(symbol, NonTerminal) for symbol in symbols)
    return settings.non_terminal_bits * non_terminals + settings.terminal_bits * (
        len(symbols) - non_terminals
    )


def label_bits(rule: LabelRule, settings: InductionSettings) -> float:
    """`rule_bits` of a rule in numbers."""
    terminals = sum(label >= 0 for side in rule for label in side)
    symbols = len(rule.source) + len(rule.target)
    return settings.non_terminal_bits * (symbols - terminals) + settings.terminal_bits * terminals


def grammar_bits(grammar: Grammar, settings: InductionSettings) -> float:
    return sum(rule_bits(rule, settings) for rule in grammar)


def description_length(
    grammar: Grammar, examples: Sequence[Example], settings: InductionSettings
) -> DescriptionLength:
    """The objective for `grammar` on `examples`, repetitions counted once; infinite if one cannot be derived."""
    pairs = list(
        dict.fromkeys((example.source_tokens, example.target_tokens) for example in examples)
    )
    sources = grammar.encoded.encode([source for source, _ in pairs])
    targets = grammar.encoded.encode([target for _, target in pairs])
    data_term = fitted_data_bits if settings.fitted else data_bits
    bits = data_term(grammar.encoded.arrays, sources, targets)
    return DescriptionLength(grammar_bits(grammar, settings), float(bits.sum()))


def data_bits(grammar: GrammarArrays, sources: Ragged, targets: Ragged) -> FloatArray:
    """For each pair the bits that tell which of the source's derivations yield its target: log2 |Z_x*| / |Z_xy|."""
    full = encoded_charts(grammar, sources)
    log_full = log_derivation_counts(full)
    log_goal = log_derivation_counts(encoded_goals(grammar, full, targets))
    bits = np.full(len(log_goal), np.inf)
    is_derivable = np.isfinite(log_goal)
    bits[is_derivable] = (log_full[is_derivable] - log_goal[is_derivable]) / np.log(2)
    return bits
