"""The random split."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nqg.data.example import Example
from nqg.errors import SettingsError
from nqg.splits.partition import Sizes, random_split, sizes_for

EXAMPLES = [Example(f"sentence {number}", "program") for number in range(50)]


@given(st.integers(1, 48), st.integers(0, 1), st.integers())
def test_every_example_stands_in_exactly_one_part(
    test: int, dev: int, seed: int
) -> None:
    sizes = sizes_for(50, test=test, dev=dev)
    split = random_split(EXAMPLES, sizes, random.Random(seed))
    assert (len(split.train), len(split.test), len(split.dev)) == (
        sizes.train,
        sizes.test,
        sizes.dev,
    )
    assert sorted(split.train + split.dev + split.test) == list(range(50))


def test_the_seed_alone_decides() -> None:
    first, again, other = (
        random_split(EXAMPLES, Sizes(40, 10), random.Random(seed)) for seed in (1, 1, 2)
    )
    assert first == again
    assert first.test != other.test


def test_every_example_has_the_same_chance_to_be_held_out() -> None:
    rng = random.Random(7)
    held_out = [
        position
        for _ in range(2000)
        for position in random_split(EXAMPLES, Sizes(40, 10), rng).test
    ]
    counts = [held_out.count(position) for position in range(50)]
    assert min(counts) > 300
    assert max(counts) < 500


def test_it_says_how_it_was_made() -> None:
    assert random_split(EXAMPLES, Sizes(40, 10), random.Random(0)).made_by == {
        "method": "random"
    }


def test_sizes_of_another_dataset_are_refused() -> None:
    with pytest.raises(
        SettingsError, match="add up to 51, the dataset has 50 examples"
    ):
        random_split(EXAMPLES, Sizes(41, 10), random.Random(0))
