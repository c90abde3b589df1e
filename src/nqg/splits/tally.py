"""Features counted in train and in test, kept up to date while examples change sides.

The Chernoff coefficient of two normalised counts is `overlap / (train_total ** alpha * test_total ** (1 - alpha))`,
where `overlap` is the sum over k of `train_k ** alpha * test_k ** (1 - alpha)` over the raw counts. A swap of two
examples changes only the terms of features in which they differ, so it is weighed in the time it takes to read both.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nqg.grammar.compiled import kernel
from nqg.splits.bags import Bags, Integers

Reals = NDArray[np.float64]
NO_FEATURE = np.iinfo(np.int32).max


class Tally(NamedTuple):
    """Feature counts on both sides of a split, with every power that their divergence can need."""

    bags: Bags
    train: Integers  # (F,)
    test: Integers  # (F,)
    totals: Integers  # (2,): occurrences of all features in train, in test
    overlap: Reals  # (1,)
    train_powers: Reals  # count ** alpha
    test_powers: Reals  # count ** (1 - alpha)
    alpha: float


class Outcome(NamedTuple):
    """What a swap would lead to."""

    overlap: float
    divergence: float


def tally(bags: Bags, train: Integers, test: Integers, alpha: float) -> Tally:
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
    """One minus the Chernoff coefficient of what is counted now."""
    return divergence_of(tally.overlap[0], tally.totals[0], tally.totals[1], tally.alpha)


@kernel
def divergence_of(overlap: float, train_total: int, test_total: int, alpha: float) -> float:
    """The divergence for an overlap and totals; 0 where a side counts nothing."""
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
def outcome_of_swap(tally: Tally, leaving: int, entering: int) -> Outcome:
    """Overlap and divergence after a swap that is not made yet."""
    overlap = tally.overlap[0] + overlap_change(tally, leaving, entering)
    gain = tally.bags.sizes[entering] - tally.bags.sizes[leaving]
    return Outcome(overlap, divergence_of(overlap, tally.totals[0] + gain, tally.totals[1] - gain, tally.alpha))


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
