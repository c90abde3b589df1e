"""A stored model of every version of the format: it loads and answers as it did, or says exactly what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from conftest import PROJECT
from nqg.errors import NqgError
from nqg.inference.parser import Parser
from nqg.model.checkpoint import OLDEST, VERSION

MODELS = PROJECT / "tests" / "models"


def test_there_is_a_stored_model_of_every_version() -> None:
    """A new version needs one more: train the model of tests/models with it, before anything else changes."""
    assert sorted(folder.name for folder in MODELS.iterdir()) == [f"v{number}" for number in range(1, VERSION + 1)]


@pytest.mark.parametrize("number", range(OLDEST, VERSION + 1))
def test_a_model_of_a_version_that_is_read_answers(number: int, tmp_path: Path) -> None:
    parser = Parser.load(MODELS / f"v{number}", "cpu")
    assert [answer.target for answer in parser.answers(["run twice", "jump", "fly"])] == ["R R", "J", None]
    parser.save(tmp_path / "again")  # which writes the newest version
    assert Parser.load(tmp_path / "again", "cpu").parse("run twice").target == "R R"


@pytest.mark.parametrize("number", range(1, OLDEST))
def test_an_older_model_says_what_to_do(number: int) -> None:
    words = (
        rf"v{number} was written in version {number} of the format; this nqg reads version {OLDEST} to {VERSION}: "
        "train again with this nqg, or use the version of nqg that wrote it"
    )
    with pytest.raises(NqgError, match=words):
        Parser.load(MODELS / f"v{number}", "cpu")
