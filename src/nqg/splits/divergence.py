"""The atoms and compounds of every example, as numbers; `nqg.splits.swap_search` counts them in train and test."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nqg.data.example import Example
from nqg.errors import FormatError
from nqg.grammar.arrays import Int64Array
from nqg.grammar.ragged import offsets_from_lengths
from nqg.splits.compounds import Decomposition


class Bags(NamedTuple):
    """The features of every example: those of `e` are `ids[starts[e]:starts[e + 1]]`, ascending, with their counts."""

    starts: Int64Array  # (E + 1,)
    ids: NDArray[np.int32]
    counts: NDArray[np.int32]
    sizes: Int64Array  # (E,): occurrences of all features in an example
    width: int  # F: different features

    def row(self, example: int) -> list[int]:
        return [
            int(feature) for feature in self.ids[self.starts[example] : self.starts[example + 1]]
        ]

    def totals(self, positions: Int64Array) -> Int64Array:
        """How often each feature occurs in the examples at `positions`, which may repeat."""
        times = np.bincount(positions, minlength=len(self.sizes))
        weights = self.counts * np.repeat(times, np.diff(self.starts))
        return np.bincount(self.ids, weights, minlength=self.width).astype(np.int64)


@dataclass(frozen=True, slots=True)
class Decomposed:
    atoms: Bags
    compounds: Bags


def decomposed(examples: Sequence[Example], decomposition: Decomposition) -> Decomposed:
    """Every target taken apart, each different one once; a target that cannot be is named in the error."""

    def counters(features: Callable[[str], Counter[str]]) -> Iterator[Counter[str]]:
        known: dict[str, Counter[str]] = {}
        for number, example in enumerate(examples, start=1):
            if example.target not in known:
                try:
                    known[example.target] = features(example.target)
                except FormatError as error:
                    raise FormatError(
                        f"the target of example {number}, '{example.target}': {error.reason}"
                    ) from error
            yield known[example.target]

    return Decomposed(bags(counters(decomposition.atoms)), bags(counters(decomposition.compounds)))


def bags(counters: Iterable[Counter[str]]) -> Bags:
    """Counted features with an integer for each, in the order of their first appearance."""
    vocabulary: dict[str, int] = {}
    lengths, sizes = array("q"), array("q")
    ids, counts = array("i"), array("i")
    for counter in counters:
        row = sorted(
            (vocabulary.setdefault(feature, len(vocabulary)), count)
            for feature, count in counter.items()
        )
        ids.extend(feature for feature, _ in row)
        counts.extend(count for _, count in row)
        lengths.append(len(row))
        sizes.append(counter.total())
    return Bags(
        starts=offsets_from_lengths(lengths),
        ids=np.array(ids, np.int32),
        counts=np.array(counts, np.int32),
        sizes=np.array(sizes, np.int64),
        width=len(vocabulary),
    )
