"""Figures over seeds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nqg.errors import NqgError
from nqg.evaluation.metrics import spread


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
