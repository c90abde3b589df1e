"""Stored models load and answer as they did when they were saved."""

from __future__ import annotations

from pathlib import Path

import pytest

from conftest import PROJECT
from nqg.inference.hybrid import load_with_grammar
from nqg.inference.parser import Parser
from nqg.model.checkpoint import MODEL_VERSION

MODELS = PROJECT / "tests" / "models"


# Files that not every model has: slots and types, rules by hand, confidence, a second reader; SQL.
WITH_MORE = {
    "v4-whole": {
        "Please turn on the fan in the garden!": "on(fan, garden)",
        "set the fan in the cellar to 77 %": "set(fan, cellar, 77)",
        "illuminate the cellar": "on(lamp, cellar)",
        "fly": None,
    },
    "v4-sql": {"names of all dogs": "SELECT name FROM dogs", "fly": None},
}


def test_a_stored_model_answers(tmp_path: Path) -> None:
    """A new version of the format needs a new model there: train it before anything else changes."""
    parser = Parser.load(MODELS / f"v{MODEL_VERSION}", "cpu")
    assert [
        answer.target for answer in parser.answers(["run twice", "jump", "fly"])
    ] == [
        "R R",
        "J",
        None,
    ]
    parser.save(tmp_path / "again")
    assert Parser.load(tmp_path / "again", "cpu").parse("run twice").target == "R R"


@pytest.mark.parametrize("name", WITH_MORE)
def test_a_model_with_everything_that_its_version_knows_answers(
    name: str, tmp_path: Path
) -> None:
    model, expected = load_with_grammar(MODELS / name, "cpu"), WITH_MORE[name]
    found = list(model.answers(expected))
    assert {answer.source: answer.target for answer in found} == expected
    assert found[0].confidence is not None
    model.save(tmp_path / "again")
    assert sorted(file_names(tmp_path / "again") - {"README.md"}) == sorted(
        file_names(MODELS / name)
    )
    assert [
        answer.target
        for answer in load_with_grammar(tmp_path / "again", "cpu").answers(expected)
    ] == [*expected.values()]


def file_names(folder: Path) -> set[str]:
    return {
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*")
        if path.is_file()
    }
