"""Datasets as bags of integers."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nqg.data.example import Example
from nqg.errors import FormatError
from nqg.splits.compounds import BRACKET_TREES
from nqg.splits.swap_search import bags, decomposed

COUNTERS = st.lists(
    st.dictionaries(st.sampled_from("abcdef"), st.integers(1, 4)).map(Counter),
    max_size=8,
)


@given(COUNTERS)
def test_rows_hold_what_was_counted_in_ascending_order(
    counters: list[Counter[str]],
) -> None:
    held = bags(counters)
    letters = list(dict.fromkeys(letter for counter in counters for letter in counter))
    assert held.width == len(letters)
    for example, counter in enumerate(counters):
        row = held.row(example)
        counts = held.counts[held.starts[example] : held.starts[example + 1]].tolist()
        assert row == sorted(row)
        assert {
            letters[feature]: count for feature, count in zip(row, counts, strict=True)
        } == counter
        assert held.sizes[example] == counter.total()


@given(COUNTERS.filter(bool), st.data())
def test_totals_count_repeated_positions_each_time(
    counters: list[Counter[str]], data: st.DataObject
) -> None:
    positions = data.draw(st.lists(st.integers(0, len(counters) - 1)))
    held = bags(counters)
    letters = list(dict.fromkeys(letter for counter in counters for letter in counter))
    expected = sum((counters[position] for position in positions), Counter[str]())
    totals = held.totals(np.array(positions, dtype=np.int64))
    assert totals.tolist() == [expected[letter] for letter in letters]


def test_a_target_is_taken_apart_once_however_often_it_occurs() -> None:
    asked = list[str]()

    def atoms(target: str) -> Counter[str]:
        asked.append(target)
        return BRACKET_TREES.atoms(target)

    examples = [Example("a", "f ( x )")] * 5 + [Example("b", "g ( x )")]
    data = decomposed(examples, BRACKET_TREES._replace(atoms=atoms))
    assert asked == ["f ( x )", "g ( x )"]
    assert data.atoms.sizes.tolist() == [2] * 6
    assert data.compounds.width == 2


def test_a_target_that_cannot_be_taken_apart_is_named() -> None:
    examples = [Example("a", "f ( x )"), Example("b", "f ( x")]
    with pytest.raises(FormatError) as caught:
        decomposed(examples, BRACKET_TREES)
    assert (
        str(caught.value)
        == "the target of example 2, 'f ( x': the target ends, expected ')' for 'f('"
    )
