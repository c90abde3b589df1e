"""The page on scale: its Python runs, and what it says of options and settings is so."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from conftest import PROJECT
from nqg.cli.main import app
from nqg.inference.parser import WINDOW
from nqg.parallel import CHUNKS_AHEAD

PAGE = PROJECT / "docs" / "scale.md"


@pytest.mark.parametrize("verb", ["parse", "reproduce"])
def test_both_verbs_have_the_options(verb: str) -> None:
    page = " ".join(CliRunner().invoke(app, [verb, "--help"]).stdout.split())
    assert "--engine local|ray|ray://…" in page
    assert "--workers N" in page


def test_its_numbers_are_those_of_the_code() -> None:
    text = " ".join(PAGE.read_text().split())
    assert f"one part, of {WINDOW:,} sentences" in text
    assert CHUNKS_AHEAD == 2
    assert "at most two a worker are read ahead" in text
