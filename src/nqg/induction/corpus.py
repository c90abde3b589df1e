"""The examples that a search looks at, in numbers, and which of them a rule can touch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nqg.grammar.charts import Batch
from nqg.grammar.compiled import inlined, unmanaged_kernel
from nqg.grammar.encoding import NT, flat
from nqg.grammar.graph import ranges
from nqg.grammar.trie import Integers, firsts_of
from nqg.induction.labels import LabelRule

Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Corpus:
    """Pairs in numbers, end to end."""

    sources: Batch
    targets: Batch

    @classmethod
    def of(cls, pairs: Sequence[LabelRule]) -> Corpus:
        """The corpus of `pairs`."""
        return cls(_batch([pair.source for pair in pairs]), _batch([pair.target for pair in pairs]))

    def __len__(self) -> int:
        return len(self.sources)

    def touched_by(self, rules: Iterable[LabelRule]) -> Mask:
        """The examples in whose derivations one of `rules` could take part: its words stand there in that order."""
        touched = np.zeros(len(self), dtype=np.bool_)
        for rule in rules:
            pattern = np.array(rule.source, dtype=np.int32)
            _mark_matches(pattern, self.sources.first_token, self.sources.tokens, touched)
        return touched

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


@unmanaged_kernel
def _mark_matches(pattern: Integers, first_token: Integers, tokens: Integers, touched: Mask) -> None:
    """Mark the sentences that hold the pattern, every non-terminal standing for at least one token."""
    for sentence in range(len(touched)):
        touched[sentence] |= _matches(pattern, tokens[first_token[sentence] : first_token[sentence + 1]])


@inlined
def _matches(pattern: Integers, sentence: Integers) -> bool:
    """Whether the runs of terminals occur in order; taking each run at its first place leaves most for the others."""
    at = position = 0
    while at < len(pattern):
        while at < len(pattern) and pattern[at] == NT:
            position += 1
            at += 1
        stop = at
        while stop < len(pattern) and pattern[stop] != NT:
            stop += 1
        if at < stop:
            position = _first_run(pattern[at:stop], sentence, position)
            at = stop
        if position > len(sentence) or position < 0:
            return False
    return True


@inlined
def _first_run(run: Integers, sentence: Integers, position: int) -> int:
    """The position behind the first occurrence of `run` from `position` on, or -1."""
    for start in range(position, len(sentence) - len(run) + 1):
        same = True
        for offset in range(len(run)):
            if sentence[start + offset] != run[offset]:
                same = False
                break
        if same:
            return start + len(run)
    return -1
