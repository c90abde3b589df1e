"""A stored model of every version of the format: it loads and answers as it did, or says exactly what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from conftest import PROJECT
from nqg.errors import NqgError
from nqg.inference.hybrid import load_model
from nqg.inference.parser import Parser
from nqg.model.checkpoint import OLDEST, VERSION

MODELS = PROJECT / "tests" / "models"


# Version 4 has files that not every model has: slots and types, rules by hand, confidence, a fallback; SQL.
WITH_MORE = {
    "v4-whole": {
        "Please turn on the fan in the garden!": "on(fan, garden)",
        "set the fan in the cellar to 77 %": "set(fan, cellar, 77)",
        "illuminate the cellar": "on(lamp, cellar)",
        "fly": None,
    },
    "v4-sql": {"names of all dogs": "SELECT name FROM dogs", "fly": None},
}


def test_there_is_a_stored_model_of_every_version() -> None:
    """A new version needs one more: train the model of tests/models with it, before anything else changes."""
    versions = [f"v{number}" for number in range(1, VERSION + 1)]
    assert sorted(folder.name for folder in MODELS.iterdir()) == sorted([*versions, *WITH_MORE])


@pytest.mark.parametrize("number", range(OLDEST, VERSION + 1))
def test_a_model_of_a_version_that_is_read_answers(number: int, tmp_path: Path) -> None:
    parser = Parser.load(MODELS / f"v{number}", "cpu")
    assert [answer.target for answer in parser.answers(["run twice", "jump", "fly"])] == ["R R", "J", None]
    parser.save(tmp_path / "again")  # which writes the newest version
    assert Parser.load(tmp_path / "again", "cpu").parse("run twice").target == "R R"


@pytest.mark.parametrize("name", WITH_MORE)
def test_a_model_with_everything_that_its_version_knows_answers(name: str, tmp_path: Path) -> None:
    model, expected = load_model(MODELS / name, "cpu"), WITH_MORE[name]
    found = list(model.answers(expected))
    assert {answer.source: answer.target for answer in found} == expected
    assert found[0].confidence is not None
    model.save(tmp_path / "again")
    assert sorted(file_names(tmp_path / "again") - {"README.md"}) == sorted(file_names(MODELS / name))
    assert [answer.target for answer in load_model(tmp_path / "again", "cpu").answers(expected)] == [*expected.values()]


def file_names(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("number", range(1, OLDEST))
def test_an_older_model_says_what_to_do(number: int) -> None:
    words = (
        rf"v{number} was written in version {number} of the format; this nqg reads version {OLDEST} to {VERSION}: "
        "train again with this nqg, or use the version of nqg that wrote it"
    )
    with pytest.raises(NqgError, match=words):
        Parser.load(MODELS / f"v{number}", "cpu")
