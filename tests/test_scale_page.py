"""The page on scale: its Python runs, and what it says of options and settings is so."""

from __future__ import annotations

import doctest
from pathlib import Path

import pytest
from typer.testing import CliRunner

from conftest import PROJECT
from nqg.cli.main import app
from nqg.data.examples import write_examples
from nqg.data.scan import scan_examples
from nqg.engines import AHEAD, ATTEMPTS
from nqg.grammar.grammar import Grammar
from nqg.inference.parser import WINDOW
from nqg.model.forests import PAIRS

PAGE = PROJECT / "docs" / "scale.md"


def test_its_python_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_examples("train.tsv", [example for example in scan_examples() if len(example.source_tokens) <= 4])
    assert doctest.testfile(str(PAGE), module_relative=False).failed == 0
    assert len(Grammar.read("grammar.txt")) < 30


@pytest.mark.parametrize("verb", ["parse", "reproduce"])
def test_both_verbs_have_the_options(verb: str) -> None:
    page = " ".join(CliRunner().invoke(app, [verb, "--help"]).stdout.split())
    assert "--engine local|ray|ray://…" in page
    assert "--workers N" in page


def test_its_numbers_are_those_of_the_code() -> None:
    text = " ".join(PAGE.read_text().split())
    assert f"one part, of {WINDOW:,} sentences" in text
    assert f"parts of {PAIRS:,} pairs" in text
    assert (AHEAD, ATTEMPTS) == (2, 3)
    assert "at most two a worker are read ahead" in text
    assert "a part that loses three workers" in text
