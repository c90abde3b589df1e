"""Atoms and compounds counted in train and test, and how far the two lie apart (Keysers et al., 2020)."""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nqg.data.examples import Example
from nqg.errors import FormatError
from nqg.grammar.arrays import FloatArray, Int64Array, kernel
from nqg.splits.compounds import Decomposition

COMPOUND_ALPHA = 0.1  # little weight on train: what matters is whether a test compound occurs there at all
ATOM_ALPHA = 0.5  # equal weights: atoms should be about as frequent on both sides


class Bags(NamedTuple):
    """The features of every example: those of `e` are `ids[starts[e]:starts[e + 1]]`, ascending, with their counts."""

    starts: Int64Array  # (E + 1,)
    ids: NDArray[np.int32]
    counts: NDArray[np.int32]
    sizes: Int64Array  # (E,): occurrences of all features in an example
    width: int  # F: different features

    def row(self, example: int) -> list[int]:
        return [int(feature) for feature in self.ids[self.starts[example] : self.starts[example + 1]]]

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
                    raise FormatError(f"the target of example {number}, '{example.target}': {error.reason}") from error
            yield known[example.target]

    return Decomposed(bags(counters(decomposition.atoms)), bags(counters(decomposition.compounds)))


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


NO_FEATURE = np.iinfo(np.int32).max


class Tally(NamedTuple):
    """Feature counts on both sides of a split, with every power that their divergence can need."""

    bags: Bags
    train: Int64Array  # (F,)
    test: Int64Array  # (F,)
    totals: Int64Array  # (2,): occurrences of all features in train, in test
    overlap: FloatArray  # (1,)
    train_powers: FloatArray  # count ** alpha
    test_powers: FloatArray  # count ** (1 - alpha)
    alpha: float


class SwapOutcome(NamedTuple):
    overlap: float
    divergence: float


def tally(bags: Bags, train: Int64Array, test: Int64Array, alpha: float) -> Tally:
    """The features of the examples `train` and `test` counted, ready for swaps."""
    in_train, in_test = bags.totals(train), bags.totals(test)
    counts = np.arange((in_train + in_test).max(initial=0) + 1, dtype=np.float64)
    powers = counts**alpha, counts ** (1 - alpha)
    totals = np.array([in_train.sum(), in_test.sum()])
    result = Tally(bags, in_train, in_test, totals, np.zeros(1), *powers, alpha)
    refresh(result)
    return result


@kernel
def refresh(tally: Tally) -> None:
    """Add the overlap up anew, so that millions of swaps leave no rounding error in it."""
    overlap = 0.0
    for in_train, in_test in zip(tally.train, tally.test):  # noqa: B905 -- Numba knows no strict zip
        overlap += tally.train_powers[in_train] * tally.test_powers[in_test]
    tally.overlap[0] = overlap


@kernel
def tallied_divergence(tally: Tally) -> float:
    return divergence_of(tally.overlap[0], tally.totals[0], tally.totals[1], tally.alpha)


@kernel
def divergence_of(overlap: float, train_total: int, test_total: int, alpha: float) -> float:
    """One minus the Chernoff coefficient, the sum over k of p_k ** alpha * q_k ** (1 - alpha) of normalised counts.

    It is 0 where the counts are proportional or a side counts nothing, and 1 where they share nothing.
    """
    if train_total == 0 or test_total == 0:
        return 0.0
    scale = math.exp(alpha * math.log(train_total) + (1.0 - alpha) * math.log(test_total))
    return max(0.0, 1.0 - overlap / scale)  # rounding can carry equal counts below 0


@kernel
def overlap_change(tally: Tally, leaving: int, entering: int) -> float:
    """By how much the overlap grows if `leaving` goes from train to test and `entering` comes the other way."""
    ids, counts = tally.bags.ids, tally.bags.counts
    here, there = tally.bags.starts[leaving], tally.bags.starts[entering]
    end_here, end_there = tally.bags.starts[leaving + 1], tally.bags.starts[entering + 1]
    change = 0.0
    while here < end_here or there < end_there:
        feature_here = ids[here] if here < end_here else NO_FEATURE
        feature_there = ids[there] if there < end_there else NO_FEATURE
        feature, gain = min(feature_here, feature_there), 0
        if feature_here == feature:
            gain -= counts[here]
            here += 1
        if feature_there == feature:
            gain += counts[there]
            there += 1
        if gain != 0:
            in_train, in_test = tally.train[feature], tally.test[feature]
            before = tally.train_powers[in_train] * tally.test_powers[in_test]
            change += tally.train_powers[in_train + gain] * tally.test_powers[in_test - gain] - before
    return change


@kernel
def outcome_of_swap(tally: Tally, leaving: int, entering: int) -> SwapOutcome:
    """Overlap and divergence after a swap that is not made yet."""
    overlap = tally.overlap[0] + overlap_change(tally, leaving, entering)
    gain = tally.bags.sizes[entering] - tally.bags.sizes[leaving]
    return SwapOutcome(overlap, divergence_of(overlap, tally.totals[0] + gain, tally.totals[1] - gain, tally.alpha))


@kernel
def would_starve(tally: Tally, leaving: int, entering: int) -> bool:
    """Whether a swap would take the last occurrence of some feature out of train."""
    starts, ids, counts, _, _ = tally.bags
    there = starts[entering]
    for here in range(starts[leaving], starts[leaving + 1]):
        if tally.train[ids[here]] == counts[here]:
            while there < starts[entering + 1] and ids[there] < ids[here]:
                there += 1
            if there == starts[entering + 1] or ids[there] != ids[here]:
                return True
    return False


@kernel
def swap(tally: Tally, leaving: int, entering: int, overlap: float) -> None:
    """Make a swap, whose overlap was weighed before."""
    _, ids, counts, sizes, _ = tally.bags
    for example, direction in ((leaving, -1), (entering, 1)):
        for at in range(tally.bags.starts[example], tally.bags.starts[example + 1]):
            tally.train[ids[at]] += direction * counts[at]
            tally.test[ids[at]] -= direction * counts[at]
    gain = sizes[entering] - sizes[leaving]
    tally.totals[0] += gain
    tally.totals[1] -= gain
    tally.overlap[0] = overlap
