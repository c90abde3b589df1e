"""Figures over seeds, and ranks over evaluations: the paper's own table is the oracle."""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nqg.errors import NqgError
from nqg.evaluation.metrics import spread
from nqg.evaluation.ranks import average_ranks
from oracles import sorted_ranks

TABLE_2 = {
    "Syntactic Attention": ([91.0, 99.9, 15.2, 2.9, 77.5, 70.6, 23.6, 0.0], "3.9"),
    "CGPS": ([98.8, 99.7, 20.3, 2.0, 62.1, 32.8, 9.3, 32.3], "4.4"),
    "T5-Base": ([99.5, 62.0, 14.4, 15.4, 92.9, 87.0, 39.1, 54.3], "2.9"),
    "NQG-T5-Base": ([100, 100, 100, 100, 92.9, 88.8, 52.2, 56.6], "1.0"),
    "NQG": ([100, 100, 100, 100, 76.8, 61.9, 37.4, 41.1], "2.3"),
}


def test_the_ranks_of_the_papers_table_come_out_as_printed() -> None:
    ranks = average_ranks({name: dict(zip("12345678", figures, strict=True)) for name, (figures, _) in TABLE_2.items()})
    printed = {name: str(Decimal(rank).quantize(Decimal("0.1"), ROUND_HALF_UP)) for name, rank in ranks.items()}
    assert printed == {name: rank for name, (_, rank) in TABLE_2.items()}


@given(
    st.integers(1, 4).flatmap(
        lambda size: st.lists(st.lists(st.integers(0, 3), min_size=size, max_size=size), min_size=1, max_size=5)
    )
)
def test_ranks_agree_with_sorting(table: list[list[int]]) -> None:
    named = {
        f"s{number}": {f"e{column}": float(value) for column, value in enumerate(row)}
        for number, row in enumerate(table)
    }
    by_sorting = [sorted_ranks([row[column] for row in table]) for column in range(len(table[0]))]
    means = [float(np.mean([ranks[number] for ranks in by_sorting])) for number in range(len(table))]
    assert list(average_ranks(named).values()) == pytest.approx(means)


def test_a_hole_in_the_table_is_named() -> None:
    with pytest.raises(NqgError, match="'LANE' has no result for 'turn left'; ranks need every system"):
        average_ranks({"NQG": {"jump": 1.0, "turn left": 1.0}, "LANE": {"jump": 1.0}})
    with pytest.raises(NqgError, match="at least one evaluation, found none"):
        average_ranks({"NQG": {}})


@given(st.lists(st.floats(0, 1), min_size=2, max_size=8))
def test_the_spread_is_that_of_a_sample(figures: list[float]) -> None:
    found = spread(figures)
    assert found.mean == pytest.approx(np.mean(figures))
    assert found.deviation == pytest.approx(np.std(figures, ddof=1), abs=1e-12)
    assert found.runs == len(figures)


def test_a_single_run_has_no_deviation() -> None:
    assert (spread([0.5]).deviation, str(spread([0.5]))) == (None, "50.0 % (1 run)")
    with pytest.raises(NqgError, match="at least one run, found none"):
        spread([])
