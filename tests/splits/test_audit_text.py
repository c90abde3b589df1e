"""Audits as text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nqg.data.dataset import Split
from nqg.data.example import Example
from nqg.splits.audit import BARS, BINS, audit_text, audits, bars, mean_length
from nqg.splits.compounds import load_language

EXAMPLES = [
    Example("the longest river", "longest ( river )"),
    Example("rivers in m0", "river ( m0 )"),
    Example("rivers in m1", "river ( m1 )"),
    Example("the longest state of all", "longest ( state )"),
]
REPORT = """\
split  train  dev  test  unseen atoms  compound divergence  atom divergence  shared templates
first      2    0     2   2 (100.00%)               1.0000           0.3964            1 of 2
b          2    1     1   1 (100.00%)               1.0000           0.6464            0 of 1

first: source tokens, train  mean   3.0, at most   3  |  █  |
first: source tokens, test   mean   4.0, at most   5  |  █ █|
first: target tokens, train  mean   4.0, at most   4  |   █|
first: target tokens, test   mean   4.0, at most   4  |   █|
b: source tokens, train  mean   3.0, at most   3  |  █  |
b: source tokens, dev    mean   3.0, at most   3  |  █  |
b: source tokens, test   mean   5.0, at most   5  |    █|
b: target tokens, train  mean   4.0, at most   4  |   █|
b: target tokens, dev    mean   4.0, at most   4  |   █|
b: target tokens, test   mean   4.0, at most   4  |   █|"""


def test_a_table_with_a_row_for_each_split_and_lengths_below() -> None:
    splits = {"first": Split((0, 1), (2, 3)), "b": Split((0, 1), (3,), (2,))}
    assert audit_text(audits(EXAMPLES, splits, load_language("funql"))) == REPORT


HISTOGRAMS = st.dictionaries(st.integers(1, 200), st.integers(1, 1000), min_size=1)


@given(HISTOGRAMS, st.integers(0, 50))
def test_bars_fit_their_width_and_the_fullest_is_a_whole_block(
    histogram: dict[int, int], more: int
) -> None:
    longest = max(histogram) + more
    drawn = bars(histogram, longest)
    assert len(drawn) <= BINS
    assert "█" in drawn
    assert set(drawn) <= set(BARS)


@given(HISTOGRAMS)
def test_lengths_that_occur_are_seen_and_others_are_not(
    histogram: dict[int, int],
) -> None:
    short = {
        length: count for length, count in histogram.items() if length <= BINS
    } or {1: 1}
    drawn = bars(short, BINS)
    assert [
        length for length, bar in enumerate(drawn, start=1) if bar != " "
    ] == sorted(short)


@given(HISTOGRAMS)
def test_the_mean_is_that_of_the_lengths(histogram: dict[int, int]) -> None:
    lengths = [length for length, count in histogram.items() for _ in range(count)]
    assert mean_length(histogram) == pytest.approx(sum(lengths) / len(lengths))
