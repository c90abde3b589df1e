"""The length split, against the published ones."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nqg.data.dataset import read_split
from nqg.data.example import Example
from nqg.data.example_files import read_examples
from nqg.splits.partition import Side, Sizes, length_split, sizes_for, spaced_length

WORDS = st.lists(st.sampled_from("abc"), min_size=1, max_size=6).map(" ".join)


@pytest.mark.parametrize("name", ["geoquery", "spider"])
def test_the_published_length_splits_are_reproduced(real_data: Path, name: str) -> None:
    examples = read_examples(real_data / name / "expected_dataset.tsv")
    published = read_split(real_data / name / "splits" / "length_1.json")
    ours = length_split(examples, sizes_for(len(examples), train=len(published.train)))
    assert (set(ours.train), set(ours.test)) == (
        set(published.train),
        set(published.test),
    )
    rows, published_rows = (
        [examples[at] for at in split.train + split.test] for split in (ours, published)
    )
    assert rows == published_rows


def test_the_published_geoquery_file_is_reproduced_position_for_position(
    real_data: Path,
) -> None:
    examples = read_examples(real_data / "geoquery" / "expected_dataset.tsv")
    published = read_split(real_data / "geoquery" / "splits" / "length_1.json")
    ours = length_split(examples, Sizes(440, 440))
    assert (ours.train, ours.test) == (published.train, published.test)


@given(st.lists(st.builds(Example, WORDS, WORDS), min_size=3), st.sampled_from(Side))
def test_no_part_has_an_example_longer_than_the_next_part_s_shortest(
    examples: list[Example], side: Side
) -> None:
    split = length_split(examples, sizes_for(len(examples), test=1, dev=1), by=side)
    lengths = [
        [spaced_length(examples[at], side) for at in part]
        for part in (split.train, split.dev, split.test)
    ]
    assert max(lengths[0]) <= min(lengths[1]) <= max(lengths[1]) <= min(lengths[2])
    assert sorted(split.train + split.dev + split.test) == list(range(len(examples)))


def test_ties_keep_the_order_of_the_dataset() -> None:
    examples = [Example(source, "x") for source in ("b b", "c", "a a", "a")]
    assert length_split(examples, Sizes(3, 1)).train == (1, 3, 0)


def test_equal_examples_stand_last_one_first() -> None:
    examples = [Example(source, "x") for source in ("a", "b", "a", "a")]
    assert length_split(examples, Sizes(2, 2)).train == (3, 1)


def test_double_spaces_count() -> None:
    assert spaced_length(Example("a  b", "x y"), Side.SOURCE) == 3
    assert spaced_length(Example("a  b", "x y"), Side.TARGET) == 2


def test_it_says_which_side_counted() -> None:
    examples = [Example("a b", "x"), Example("a", "x y")]
    split = length_split(examples, Sizes(1, 1), by=Side.TARGET)
    assert split.train == (0,)
    assert split.made_by == {"method": "length", "by": "target"}
