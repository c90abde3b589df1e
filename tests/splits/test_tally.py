"""Incremental divergence equals divergence from scratch, whatever is swapped."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nqg.splits.swap_search import (
    Tally,
    bags,
    outcome_of_swap,
    refresh,
    removes_last_atom,
    swap,
    tallied_divergence,
    tally,
)
from oracles import defined_divergence

COUNTERS = st.lists(
    st.dictionaries(st.sampled_from("abcdefgh"), st.integers(1, 5)).map(Counter),
    min_size=4,
    max_size=10,
)
ALPHAS = st.sampled_from([0.1, 0.5])


class Sides:
    """Train and test as plain lists beside the tally that is tested."""

    def __init__(self, counters: list[Counter[str]], alpha: float) -> None:
        self.counters, self.alpha = counters, alpha
        half = len(counters) // 2
        self.train, self.test = list(range(half)), list(range(half, len(counters)))
        self.tally: Tally = tally(
            bags(counters), np.array(self.train), np.array(self.test), alpha
        )

    def swapped(self, at: int, other: int) -> Sides:
        """The sides after a swap, without touching these."""
        after = Sides.__new__(Sides)
        after.counters, after.alpha = self.counters, self.alpha
        after.train = [*self.train[:at], self.test[other], *self.train[at + 1 :]]
        after.test = [*self.test[:other], self.train[at], *self.test[other + 1 :]]
        return after

    def expected(self) -> float:
        train, test = (
            [self.counters[position] for position in side]
            for side in (self.train, self.test)
        )
        return defined_divergence(train, test, self.alpha)


@given(COUNTERS, ALPHAS)
def test_a_fresh_tally_has_the_divergence_of_the_definition(
    counters: list[Counter[str]], alpha: float
) -> None:
    sides = Sides(counters, alpha)
    assert tallied_divergence(sides.tally) == pytest.approx(sides.expected(), abs=1e-12)


@given(COUNTERS, ALPHAS, st.data())
def test_after_any_swaps_the_tally_equals_a_recount(
    counters: list[Counter[str]], alpha: float, data: st.DataObject
) -> None:
    sides = Sides(counters, alpha)
    counted = sides.tally
    for _ in range(data.draw(st.integers(1, 12))):
        at, other = (
            data.draw(st.integers(0, len(side) - 1))
            for side in (sides.train, sides.test)
        )
        leaving, entering = sides.train[at], sides.test[other]
        weighed = outcome_of_swap(counted, leaving, entering)
        sides = sides.swapped(at, other)
        assert weighed.divergence == pytest.approx(sides.expected(), abs=1e-9)
        swap(counted, leaving, entering, weighed.overlap)
        assert tallied_divergence(counted) == pytest.approx(sides.expected(), abs=1e-9)
    recounted = tally(counted.bags, np.array(sides.train), np.array(sides.test), alpha)
    for name in ("train", "test", "totals"):
        assert getattr(counted, name).tolist() == getattr(recounted, name).tolist()
    assert counted.overlap[0] == pytest.approx(recounted.overlap[0])


@given(COUNTERS, st.data())
def test_weighing_a_swap_changes_nothing(
    counters: list[Counter[str]], data: st.DataObject
) -> None:
    sides = Sides(counters, 0.1)
    before = [column.tolist() for column in sides.tally[1:5]]
    leaving, entering = (
        data.draw(st.sampled_from(sides.train)),
        data.draw(st.sampled_from(sides.test)),
    )
    outcome_of_swap(sides.tally, leaving, entering)
    removes_last_atom(sides.tally, leaving, entering)
    assert [column.tolist() for column in sides.tally[1:5]] == before


@given(COUNTERS, st.data())
def test_a_swap_starves_train_exactly_if_a_feature_of_train_is_gone_afterwards(
    counters: list[Counter[str]], data: st.DataObject
) -> None:
    sides = Sides(counters, 0.5)
    at, other = (
        data.draw(st.integers(0, len(side) - 1)) for side in (sides.train, sides.test)
    )
    held = set().union(*(counters[position] for position in sides.train))
    left = set().union(
        *(counters[position] for position in sides.swapped(at, other).train)
    )
    assert removes_last_atom(sides.tally, sides.train[at], sides.test[other]) == (
        not held <= left
    )


@given(COUNTERS)
def test_refreshing_removes_an_error_from_the_overlap(
    counters: list[Counter[str]],
) -> None:
    sides = Sides(counters, 0.1)
    exact = sides.tally.overlap[0]
    sides.tally.overlap[0] += 0.25
    refresh(sides.tally)
    assert sides.tally.overlap[0] == exact


def test_a_side_without_features_does_not_diverge() -> None:
    sides = Sides([Counter(), Counter(), Counter("a"), Counter("b")], 0.1)
    assert tallied_divergence(sides.tally) == 0
    assert outcome_of_swap(sides.tally, 0, 2).divergence == 1
