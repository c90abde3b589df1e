"""How many examples each part gets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nqg.errors import SettingsError
from nqg.splits.partition import Sizes, sizes_for


@given(st.integers(2, 1000), st.data())
def test_a_size_that_is_not_given_takes_what_remains(
    total: int, data: st.DataObject
) -> None:
    test = data.draw(st.integers(1, total - 1))
    dev = data.draw(st.integers(0, total - test - 1))
    asked = sizes_for(total, test=test, dev=dev)
    assert (
        asked
        == sizes_for(total, train=total - test - dev, dev=dev)
        == Sizes(total - test - dev, test, dev)
    )
    assert asked.total == total


def test_a_quarter_is_test_where_nothing_is_asked() -> None:
    assert sizes_for(4376) == Sizes(3282, 1094)
    assert sizes_for(2) == Sizes(1, 1)


def test_shares_are_rounded_to_whole_examples() -> None:
    assert sizes_for(10, test=0.25, dev=0.1) == Sizes(train=7, test=2, dev=1)
    assert sizes_for(3, test=0.01) == Sizes(train=2, test=1)


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (
            {"test": 11},
            "test size 11: expected between 0 and 10, the number of examples",
        ),
        ({"train": -1}, "train size -1: expected between 0 and 10"),
        (
            {"test": 1.5},
            "test size 1.5: expected a share between 0 and 1, or a whole number",
        ),
        (
            {"test": 10},
            "train 0, dev 0, test 10; train and test need at least 1 example each",
        ),
        (
            {"train": 10},
            "train 10, dev 0, test 0; train and test need at least 1 example each",
        ),
        ({"test": 5, "dev": 5}, "train 0, dev 5, test 5"),
        (
            {"train": 4, "test": 4},
            "train 4, dev 0, test 4 add up to 8, the dataset has 10 examples; leave out",
        ),
    ],
    ids=str,
)
def test_sizes_that_do_not_fit_are_refused(
    asked: dict[str, int | float], words: str
) -> None:
    with pytest.raises(SettingsError) as caught:
        sizes_for(10, **asked)
    assert words in str(caught.value)


@pytest.mark.parametrize("total", [0, 1])
def test_a_dataset_too_small_to_split_is_refused(total: int) -> None:
    with pytest.raises(
        SettingsError,
        match=f"the dataset has {total} examples?; a split needs at least 2",
    ):
        sizes_for(total)
