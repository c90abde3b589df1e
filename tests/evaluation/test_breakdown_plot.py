"""Causes of errors as a picture."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from nqg.answers import Answer
from nqg.data.examples import Example
from nqg.errors import MissingExtra, NqgError
from nqg.evaluation.breakdown import COLOURS, Breakdown, Cause, breakdown, write_plot
from nqg.grammar.grammar import Grammar
from nqg.inference.hybrid import combine


@pytest.fixture(scope="module")
def found() -> Breakdown:
    grammar = Grammar.parse("walk ### I_WALK")
    said = {"walk": "I_WALK", "swim": None, "walk walk": None}
    answers = [
        combine(Answer(source, target, 1.0, "grammar"), Answer(source, "x", system="t5"))
        for source, target in said.items()
    ]
    return breakdown(
        [Example(source, "I_WALK") for source in said], answers, train=[Example("walk", "I_WALK")], grammar=grammar
    )


def test_every_cause_has_a_colour_of_its_own() -> None:
    assert list(COLOURS) == list(Cause)
    assert len(set(COLOURS.values())) == len(Cause)


def test_a_png_is_a_png(tmp_path: Path, found: Breakdown) -> None:
    write_plot(tmp_path / "plot.png", {"scan": found})
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")


def test_an_svg_has_a_bar_for_every_system_and_names_the_causes_that_there_are(
    tmp_path: Path, found: Breakdown, monkeypatch: pytest.MonkeyPatch
) -> None:
    import matplotlib

    monkeypatch.setitem(matplotlib.rcParams, "svg.fonttype", "none")
    write_plot(tmp_path / "plot.svg", {"first": found, "second": found})
    text = (tmp_path / "plot.svg").read_text()
    for label in ("first: grammar (3)", "first: t5 (2)", "second: grammar (3)", "second: t5 (2)"):
        assert f">{label}<" in text
    shown = {cause for cause in Cause if f">{cause}<" in text}
    assert shown == {Cause.UNKNOWN_WORD, Cause.UNKNOWN_CONSTRUCTION, Cause.RARE_ATOM}


def test_an_evaluation_that_stands_alone_needs_no_name(
    tmp_path: Path, found: Breakdown, monkeypatch: pytest.MonkeyPatch
) -> None:
    import matplotlib

    monkeypatch.setitem(matplotlib.rcParams, "svg.fonttype", "none")
    write_plot(tmp_path / "plot.svg", {"": found})
    assert ">grammar (3)<" in (tmp_path / "plot.svg").read_text()


def test_the_same_breakdowns_give_the_same_bytes(tmp_path: Path, found: Breakdown) -> None:
    for name in ("first.svg", "again.svg"):
        write_plot(tmp_path / name, {"scan": found})
    assert (tmp_path / "first.svg").read_bytes() == (tmp_path / "again.svg").read_bytes()


def test_another_format_is_refused(tmp_path: Path, found: Breakdown) -> None:
    with pytest.raises(NqgError, match=r"plot\.pdf: a plot is written as \.png or \.svg, found '\.pdf'"):
        write_plot(tmp_path / "plot.pdf", {"scan": found})


def test_nothing_cannot_be_drawn(tmp_path: Path) -> None:
    with pytest.raises(NqgError, match=r"expected at least one evaluation to draw, found none"):
        write_plot(tmp_path / "plot.png", {})


def test_without_matplotlib_the_error_says_how_to_install_it(
    tmp_path: Path, found: Breakdown, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingExtra, match=r"drawing a plot needs .* pip install -c constraints.txt -e '.\[plots\]'"):
        write_plot(tmp_path / "plot.png", {"scan": found})
    assert not list(tmp_path.iterdir())
