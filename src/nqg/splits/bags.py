"""A dataset as bags of atoms and compounds, interned to integers: so splits are searched and measured."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nqg.data.example import Example
from nqg.errors import FormatError
from nqg.splits.compounds import Decomposition

Integers = NDArray[np.int64]


class Bags(NamedTuple):
    """The features of every example: those of `e` are `ids[starts[e]:starts[e + 1]]`, ascending, with their counts."""

    starts: Integers  # (E + 1,)
    ids: NDArray[np.int32]
    counts: NDArray[np.int32]
    sizes: Integers  # (E,): occurrences of all features in an example
    width: int  # F: different features

    def row(self, example: int) -> list[int]:
        """The features of one example."""
        return [int(feature) for feature in self.ids[self.starts[example] : self.starts[example + 1]]]

    def totals(self, positions: Integers) -> Integers:
        """How often each feature occurs in the examples at `positions`, which may repeat."""
        times = np.bincount(positions, minlength=len(self.sizes))
        weights = self.counts * np.repeat(times, np.diff(self.starts))
        return np.bincount(self.ids, weights, minlength=self.width).astype(np.int64)


@dataclass(frozen=True, slots=True)
class Decomposed:
    """The atoms and the compounds of every example of a dataset."""

    atoms: Bags
    compounds: Bags


def decomposed(examples: Sequence[Example], decomposition: Decomposition) -> Decomposed:
    """Every target taken apart, each different one once; a target that cannot be is named in the error."""
    return Decomposed(
        atoms=bags(_features(examples, decomposition.atoms)),
        compounds=bags(_features(examples, decomposition.compounds)),
    )


def _features(examples: Sequence[Example], features: Callable[[str], Counter[str]]) -> Iterable[Counter[str]]:
    known: dict[str, Counter[str]] = {}
    for number, example in enumerate(examples, start=1):
        if example.target not in known:
            try:
                known[example.target] = features(example.target)
            except FormatError as error:
                raise FormatError(f"the target of example {number}, '{example.target}': {error.reason}") from error
        yield known[example.target]


def bags(counters: Iterable[Counter[str]]) -> Bags:
    """Counted features with an integer for each, in the order of their first appearance."""
    vocabulary: dict[str, int] = {}
    starts, sizes = array("q", [0]), array("q")
    ids, counts = array("i"), array("i")
    for counter in counters:
        row = sorted((vocabulary.setdefault(feature, len(vocabulary)), count) for feature, count in counter.items())
        ids.extend(feature for feature, _ in row)
        counts.extend(count for _, count in row)
        starts.append(len(ids))
        sizes.append(counter.total())
    columns = np.array(ids, np.int32), np.array(counts, np.int32)
    return Bags(np.array(starts), *columns, np.array(sizes, np.int64), len(vocabulary))
