"""The examples that a search looks at, in numbers, and which of them a rule can touch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nqg.grammar.charts import Batch
from nqg.grammar.encoding import flat
from nqg.grammar.graph import ranges
from nqg.grammar.trie import Integers, firsts_of
from nqg.induction.labels import LabelRule

Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Corpus:
    """Pairs in numbers, end to end, and a table of which source holds which token."""

    pairs: tuple[LabelRule, ...]
    sources: Batch
    targets: Batch
    holds: Mask  # (terminals, examples)

    @classmethod
    def of(cls, pairs: Sequence[LabelRule], terminals: int) -> Corpus:
        """The corpus of `pairs` over a vocabulary of `terminals` tokens."""
        holds = np.zeros((terminals, len(pairs)), dtype=np.bool_)
        for number, pair in enumerate(pairs):
            holds[list(pair.source), number] = True
        return cls(tuple(pairs), _batch([p.source for p in pairs]), _batch([p.target for p in pairs]), holds)

    def __len__(self) -> int:
        return len(self.pairs)

    def touched_by(self, rules: Iterable[LabelRule]) -> Mask:
        """The examples in whose derivations one of `rules` could take part: they hold its source's terminals."""
        touched: Mask = np.logical_or.reduce([self._touched_by(rule) for rule in rules])
        return touched

    def _touched_by(self, rule: LabelRule) -> Mask:
        terminals = [label for label in rule.source if label >= 0]
        return np.logical_and.reduce(self.holds[terminals]) if terminals else np.ones(len(self), dtype=np.bool_)

    def selected(self, numbers: NDArray[np.int64]) -> tuple[Batch, Batch]:
        """The sources and the targets of some examples."""
        return _selected(self.sources, numbers), _selected(self.targets, numbers)


def _batch(sequences: Sequence[Sequence[int]]) -> Batch:
    return Batch(firsts_of(sequences), flat(sequences))


def _selected(batch: Batch, numbers: NDArray[np.int64]) -> Batch:
    sizes = np.diff(batch.first_token)[numbers]
    firsts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
    tokens: Integers = batch.tokens[ranges(batch.first_token[numbers].astype(np.int64), sizes.astype(np.int64))]
    return Batch(firsts, tokens)
