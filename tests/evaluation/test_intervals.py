"""Intervals: against their definitions, and where a share is 0 or 1."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nqg.errors import NqgError
from nqg.evaluation.metrics import Interval, bootstrap_interval, wilson_interval
from oracles import bootstrap_means, wilson_bounds

SHARES = st.integers(1, 400).flatmap(
    lambda trials: st.tuples(st.integers(0, trials), st.just(trials))
)


@given(SHARES)
def test_wilsons_interval_solves_its_equation(counts: tuple[int, int]) -> None:
    interval = wilson_interval(*counts)
    assert [interval.low, interval.high] == pytest.approx(
        wilson_bounds(*counts), abs=1e-6
    )


@given(SHARES)
def test_an_interval_holds_its_own_share_and_stays_between_0_and_1(
    counts: tuple[int, int],
) -> None:
    interval = wilson_interval(*counts)
    assert counts[0] / counts[1] in interval
    assert 0 <= interval.low < interval.high <= 1


@given(SHARES)
def test_failures_mirror_successes(counts: tuple[int, int]) -> None:
    right, trials = counts
    interval, mirrored = (
        wilson_interval(right, trials),
        wilson_interval(trials - right, trials),
    )
    assert interval.low == pytest.approx(1 - mirrored.high)


def test_more_examples_narrow_the_interval() -> None:
    few, many = wilson_interval(5, 10), wilson_interval(500, 1000)
    assert many.high - many.low < few.high - few.low


@pytest.mark.parametrize(
    "values",
    [[0, 1] * 20, [1, 0, 0, 0] * 15, [-1, 0, 1, 1] * 10, [0.5, 2.25, 7, 1.5, 3] * 4],
    ids=str,
)
def test_the_bootstrap_agrees_with_drawing_every_sample_one_by_one(
    values: list[float],
) -> None:
    means = bootstrap_means(values, np.random.default_rng(1), 4000)
    interval = bootstrap_interval(values)
    spread = float(np.std(means))
    low, high = np.percentile(means, [2.5, 97.5])
    assert interval.low == pytest.approx(low, abs=0.3 * spread)
    assert interval.high == pytest.approx(high, abs=0.3 * spread)


@given(
    st.lists(st.sampled_from([-1.0, 0.0, 1.0]), min_size=1, max_size=30),
    st.integers(0, 3),
)
def test_the_bootstrap_depends_on_values_and_seed_alone(
    values: list[float], seed: int
) -> None:
    interval = bootstrap_interval(values, seed=seed, resamples=50)
    assert interval == bootstrap_interval(values[::-1], seed=seed, resamples=50)
    assert min(values) - 1e-9 <= interval.low <= interval.high <= max(values) + 1e-9


def test_another_seed_is_another_sample() -> None:
    values = [0.1 * number for number in range(40)]
    assert bootstrap_interval(values, seed=0, resamples=20) != bootstrap_interval(
        values, seed=1, resamples=20
    )


def test_the_bootstrap_covers_the_true_mean_about_as_often_as_it_says() -> None:
    rng = np.random.default_rng(0)
    samples = rng.random((300, 80)) < 0.7
    covered = sum(
        0.7 in bootstrap_interval(list(map(float, sample)), resamples=400)
        for sample in samples
    )
    assert 0.9 <= covered / 300 <= 0.98


@pytest.mark.parametrize(("values", "resamples"), [([], 10), ([1.0], 0)])
def test_there_must_be_something_to_draw(values: list[float], resamples: int) -> None:
    with pytest.raises(
        NqgError, match=f"found {len(values)} values and {resamples} samples"
    ):
        bootstrap_interval(values, resamples=resamples)


def test_an_interval_is_printed_in_per_cent() -> None:
    assert str(Interval(-0.0125, 0.5)) == "-1.2–50.0"
