"""The objective: bits to write the grammar down, and bits to tell which derivation yields each target.

L(R) = l_N C_N(R) + l_T C_T(R) - sum over (x, y) of log2 |Z_xy| / |Z_x*|   (section 4.1.1 of the paper)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nqg.data.example import Example
from nqg.grammar.charts import Batch, log_counts
from nqg.grammar.encoding import GrammarArrays
from nqg.grammar.grammar import Grammar
from nqg.grammar.inside import Floats
from nqg.grammar.rule import Rule
from nqg.grammar.symbols import NonTerminal
from nqg.induction.labels import LabelRule
from nqg.induction.settings import InductionSettings


@dataclass(frozen=True, slots=True)
class DescriptionLength:
    """The two parts of the objective, in bits."""

    grammar_bits: float
    data_bits: float

    @property
    def total(self) -> float:
        """What the search makes small."""
        return self.grammar_bits + self.data_bits


def rule_bits(rule: Rule, settings: InductionSettings) -> float:
    """Bits needed to write `rule` down.

    >>> rule_bits(Rule.parse("NT_1 twice ### NT_1 NT_1"), InductionSettings())
    11.0
    """
    symbols = (*rule.source, *rule.target)
    non_terminals = sum(isinstance(symbol, NonTerminal) for symbol in symbols)
    return settings.non_terminal_bits * non_terminals + settings.terminal_bits * (len(symbols) - non_terminals)


def label_bits(rule: LabelRule, settings: InductionSettings) -> float:
    """`rule_bits` of a rule in numbers."""
    terminals = sum(label >= 0 for side in rule for label in side)
    symbols = len(rule.source) + len(rule.target)
    return settings.non_terminal_bits * (symbols - terminals) + settings.terminal_bits * terminals


def description_length(grammar: Grammar, examples: Sequence[Example], settings: InductionSettings) -> DescriptionLength:
    """The objective for `grammar` on `examples`, repetitions counted once; infinite if one cannot be derived."""
    pairs = list(dict.fromkeys((example.source_tokens, example.target_tokens) for example in examples))
    sources, targets = (Batch(*grammar.encoded.laid_out([pair[side] for pair in pairs])) for side in (0, 1))
    bits = sum(rule_bits(rule, settings) for rule in grammar)
    return DescriptionLength(bits, float(data_bits(grammar.encoded.arrays, sources, targets).sum()))


def data_bits(grammar: GrammarArrays, sources: Batch, targets: Batch) -> Floats:
    """For each pair the bits that tell which of the source's derivations yield its target: log2 |Z_x*| / |Z_xy|."""
    everything, right = log_counts(grammar, sources, targets)
    some = np.isfinite(right)
    bits = np.full(len(right), np.inf)
    bits[some] = (everything[some] - right[some]) / np.log(2)
    return bits
