"""The Chernoff coefficient and the divergences made from it."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nqg.splits.swap_search import (
    ATOM_ALPHA,
    COMPOUND_ALPHA,
    bags,
    tallied_divergence,
    tally,
)
from oracles import defined_divergence

COUNTS = st.dictionaries(st.sampled_from("abcdef"), st.integers(1, 50), min_size=1)
ALPHAS = st.sampled_from([COMPOUND_ALPHA, ATOM_ALPHA])


def divergence(train: dict[str, int], test: dict[str, int], alpha: float) -> float:
    counted = bags([Counter(train), Counter(test)])
    return float(
        tallied_divergence(tally(counted, np.array([0]), np.array([1]), alpha))
    )


def test_a_coefficient_by_hand() -> None:
    train, test = {"a": 1, "b": 3}, {"b": 1, "c": 1}
    assert divergence(train, test, 0.5) == pytest.approx(1 - (3 / 4 * 1 / 2) ** 0.5)
    assert divergence(train, test, 0.1) == pytest.approx(
        1 - (3 / 4) ** 0.1 * (1 / 2) ** 0.9
    )


@given(COUNTS, COUNTS, ALPHAS)
def test_it_equals_the_definition(
    train: dict[str, int], test: dict[str, int], alpha: float
) -> None:
    expected = defined_divergence([Counter(train)], [Counter(test)], alpha)
    assert divergence(train, test, alpha) == pytest.approx(expected, abs=1e-12)


@given(COUNTS, COUNTS, ALPHAS)
def test_it_lies_between_0_and_1(
    train: dict[str, int], test: dict[str, int], alpha: float
) -> None:
    assert 0 <= divergence(train, test, alpha) <= 1


@given(COUNTS, st.integers(1, 9), ALPHAS)
def test_proportional_counts_do_not_diverge(
    counts: dict[str, int], factor: int, alpha: float
) -> None:
    larger = {feature: count * factor for feature, count in counts.items()}
    assert divergence(counts, larger, alpha) == pytest.approx(0, abs=1e-12)


def test_counts_that_share_nothing_diverge_fully() -> None:
    assert divergence({"a": 2}, {"b": 3}, COMPOUND_ALPHA) == 1


def test_one_occurrence_in_train_weighs_much_for_compounds() -> None:
    train, test = {"a": 1, "b": 99}, {"a": 1}
    assert divergence(train, test, COMPOUND_ALPHA) == pytest.approx(1 - 0.01**0.1)
    assert divergence(train, test, COMPOUND_ALPHA) < divergence(train, test, ATOM_ALPHA)


@pytest.mark.parametrize(("train", "test"), [({}, {"a": 1}), ({"a": 1}, {}), ({}, {})])
def test_where_a_side_has_nothing_there_is_nothing_to_compare(
    train: dict[str, int], test: dict[str, int]
) -> None:
    assert divergence(train, test, COMPOUND_ALPHA) == 0


def test_it_does_not_depend_on_the_order_of_the_counts() -> None:
    train = {f"compound {number}": number % 7 + 1 for number in range(500)}
    test = {f"compound {number}": number % 5 + 1 for number in range(250, 750)}
    backwards = dict(reversed(train.items()))
    assert divergence(train, test, COMPOUND_ALPHA) == pytest.approx(
        divergence(backwards, test, COMPOUND_ALPHA)
    )
