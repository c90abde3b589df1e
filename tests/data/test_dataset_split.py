"""A split is a division: no position in two parts, none outside the dataset."""

from __future__ import annotations

import pytest

from nqg.data.dataset import Parts, Split
from nqg.data.example import Example
from nqg.errors import FormatError

EXAMPLES = [Example(word, word.upper()) for word in ("walk", "look", "run", "jump")]


def test_parts_follow_the_order_and_the_repetitions_of_the_split() -> None:
    walk, look, run, jump = EXAMPLES
    split = Split(train=(2, 0, 0), dev=(3,), test=(1,))
    assert split.parts(EXAMPLES) == Parts(
        train=[run, walk, walk], dev=[jump], test=[look]
    )


@pytest.mark.parametrize(
    "parts",
    [
        pytest.param({"train": (0, 5), "test": (5,)}, id="train and test"),
        pytest.param({"train": (5,), "test": (0,), "dev": (5, 6)}, id="train and dev"),
        pytest.param(
            {"train": (0,), "test": (9, 5), "dev": (5, 9)},
            id="dev and test: the first is named",
        ),
    ],
)
def test_a_position_in_two_parts_is_refused(parts: dict[str, tuple[int, ...]]) -> None:
    with pytest.raises(
        FormatError, match="position 5 stands in more than one part of the split"
    ):
        Split(**parts)  # type: ignore[arg-type]


def test_a_negative_position_is_refused() -> None:
    with pytest.raises(
        FormatError, match="position -3 is negative; positions count from 0"
    ):
        Split(train=(0, -1), test=(-3,))


@pytest.mark.parametrize(
    "split",
    [Split((4,), (0,)), Split((0,), (4,)), Split((0,), (1,), (4,))],
    ids=["train", "test", "dev"],
)
def test_a_position_outside_the_dataset_is_refused(split: Split) -> None:
    assert split.fitting(5) is split
    with pytest.raises(
        FormatError,
        match=r"position 4 lies outside a dataset of 4 examples \(positions 0 to 3\)",
    ):
        split.parts(EXAMPLES)
