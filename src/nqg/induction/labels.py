"""Rules as tuples of integers: the form in which the search compares, cuts and costs them by the thousand."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import NamedTuple

from nqg.data.example import Example
from nqg.grammar.encoding import LEAF, NT
from nqg.grammar.rule import Rule
from nqg.grammar.symbols import NonTerminal, Symbol

Labels = tuple[int, ...]


class LabelRule(NamedTuple):
    """A rule in numbers: terminals are >= 0, source non-terminals are all NT, and NT_k of the target is -k."""

    source: Labels
    target: Labels

    @property
    def arity(self) -> int:
        """How many non-terminals the source has."""
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
    return LabelRule(
        tuple(NT if label <= LEAF else label for label in source), tuple(index.get(label, label) for label in target)
    )


@dataclass(frozen=True)
class Vocabulary:
    """The terminals of a corpus and their numbers."""

    terminals: tuple[str, ...]

    @classmethod
    def of(cls, examples: Iterable[Example], rules: Iterable[Rule] = ()) -> Vocabulary:
        """All tokens of the examples and all terminals of the rules, in the order of their text."""
        tokens = {token for example in examples for token in (*example.source_tokens, *example.target_tokens)}
        symbols = chain.from_iterable((*rule.source, *rule.target) for rule in rules)
        return cls(tuple(sorted(tokens | {symbol for symbol in symbols if isinstance(symbol, str)})))

    @cached_property
    def numbers(self) -> dict[str, int]:
        """The number of each terminal."""
        return {terminal: number for number, terminal in enumerate(self.terminals)}

    def labels(self, tokens: Iterable[str]) -> Labels:
        """The numbers of a sentence's tokens."""
        return tuple(self.numbers[token] for token in tokens)

    def label_rule(self, rule: Rule) -> LabelRule:
        """`rule` in numbers."""
        source = tuple(NT if isinstance(symbol, NonTerminal) else self.numbers[symbol] for symbol in rule.source)
        return LabelRule(source, tuple(self._target_label(symbol) for symbol in rule.target))

    def _target_label(self, symbol: Symbol) -> int:
        return -symbol.index if isinstance(symbol, NonTerminal) else self.numbers[symbol]

    def rule(self, labels: LabelRule) -> Rule:
        """The rule that `labels` stand for."""
        indices = iter(range(1, labels.arity + 1))
        source = tuple(NonTerminal(next(indices)) if label == NT else self.terminals[label] for label in labels.source)
        target = tuple(NonTerminal(-label) if label < 0 else self.terminals[label] for label in labels.target)
        return Rule(source, target)
