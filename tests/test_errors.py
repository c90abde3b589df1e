"""The words of errors: value, place, what was expected, the next step."""

from __future__ import annotations

from pathlib import Path

import pytest

from nqg import errors
from nqg.errors import FormatError, MissingExtra, NqgError, Place, UnknownName


def test_every_exception_of_the_tree_is_an_nqg_error() -> None:
    kinds = [
        kind
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, Exception)
    ]
    assert len(kinds) > 5
    assert all(issubclass(kind, NqgError) for kind in kinds)


def test_a_format_error_learns_its_place_later() -> None:
    bare = FormatError("expected a rule")
    placed = bare.at(Place(Path("grammar.txt"), 3))
    assert (str(bare), str(placed)) == (
        "expected a rule",
        "grammar.txt:3: expected a rule",
    )
    assert placed.reason == bare.reason


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        pytest.param("geo", "; did you mean 'geoquery'? ", id="the start of a name"),
        pytest.param("geoqeury", "; did you mean 'geoquery'? ", id="a typing error"),
        pytest.param("spider", "; did you mean 'spider-ssp'? ", id="the first of two"),
        pytest.param("cogs", ". ", id="nothing near"),
        pytest.param("", ". ", id="no name at all"),
    ],
)
def test_an_unknown_name_offers_the_nearest_and_lists_all(name: str, hint: str) -> None:
    message = str(
        UnknownName("dataset", name, ["spider-xsp", "spider-ssp", "scan", "geoquery"])
    )
    assert (
        message
        == f"no dataset '{name}'{hint}Known: geoquery, scan, spider-ssp, spider-xsp"
    )


def test_a_missing_extra_says_how_to_install_it() -> None:
    assert "'.[paper]'" in str(MissingExtra("drawing a plot", "paper"))
