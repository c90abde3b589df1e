"""A dataset hands out its splits by name, and makes them only when asked."""

from __future__ import annotations

import hashlib

import pytest

from nqg.data.dataset import Dataset, Split
from nqg.data.example import Example
from nqg.errors import FormatError, UnknownName

EXAMPLES = tuple(
    Example(word, word.upper(), id=word) for word in ("walk", "look", "run", "jump")
)


def never() -> Split:
    raise AssertionError("nobody asked for this split")


TINY = Dataset(
    "tiny",
    EXAMPLES,
    {
        "halves": lambda: Split(train=(3, 0), test=(1,), dev=(2,)),
        "never": never,
        "far": lambda: Split((0,), (9,)),
    },
)


def test_a_split_gives_train_and_test_in_its_own_order() -> None:
    train, test = TINY.split("halves")
    assert [example.id for example in train] == ["jump", "walk"]
    assert [example.id for example in test] == ["look"]


def test_the_dev_part_and_the_positions_can_be_had_too() -> None:
    assert [example.id for example in TINY.parts("halves").dev] == ["run"]
    assert TINY.positions("halves") == Split(train=(3, 0), test=(1,), dev=(2,))


def test_the_names_of_splits_are_listed_without_making_any() -> None:
    assert TINY.splits == ("halves", "never", "far")


def test_an_unknown_split_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(
        UnknownName, match="no split of tiny 'halfs'; did you mean 'halves'"
    ):
        TINY.split("halfs")


def test_a_split_that_does_not_fit_is_refused() -> None:
    with pytest.raises(
        FormatError, match="position 9 lies outside a dataset of 4 examples"
    ):
        TINY.split("far")


def test_the_fingerprint_is_that_of_the_tsv_file() -> None:
    lines = b"walk\tWALK\nlook\tLOOK\nrun\tRUN\njump\tJUMP\n"
    assert TINY.fingerprint == hashlib.sha256(lines).hexdigest()
    assert Dataset("other", EXAMPLES[::-1]).fingerprint != TINY.fingerprint
