"""Which settings hold: what is typed, else the file, else the defaults."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import typer

from nqg.cli.settings import ProjectSettings, project_settings
from nqg.errors import SettingsError
from nqg.induction.settings import InductionSettings
from nqg.model.settings import TrainingSettings
from nqg.seq2seq.settings import FineTuningSettings, Seq2seqSettings

NOTHING = dict.fromkeys(
    ["settings", "system", "augment", "grammar", "like", "seq2seq", "seq2seq_steps", "seq2seq_batch_size", "seed"]
)


def chosen(**given: Any) -> ProjectSettings:
    return project_settings({**NOTHING, **given})


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "nqg.toml"
    path.write_text(
        "[induction]\nfactoring = true\n[model]\ndimension = 8\n[training]\nsteps = 5\nseed = 3\n"
        "[seq2seq]\nbeams = 2\n[fine_tuning]\nsteps = 7\nbatch_size = 9\n"
    )
    return path


def test_where_nothing_is_said_the_defaults_hold() -> None:
    assert chosen() == ProjectSettings()


def test_the_file_wins_over_the_defaults(file: Path) -> None:
    found = chosen(settings=file)
    assert found.induction == InductionSettings(factoring=True)
    assert found.model.dimension == 8
    assert found.training == TrainingSettings(steps=5, seed=3)
    assert found.seq2seq == Seq2seqSettings(beams=2)
    assert found.fine_tuning == FineTuningSettings(steps=7, batch_size=9)


def test_what_is_typed_wins_over_the_file_and_leaves_the_rest(file: Path) -> None:
    found = chosen(settings=file, steps=1, encoder="tiny", like="scan", seq2seq="t5", seq2seq_steps=2, seed=4)
    assert found.induction == InductionSettings.named("scan")
    assert (found.model.encoder, found.model.dimension) == ("tiny", 8)
    assert (found.training.steps, found.training.seed) == (1, 4)
    assert found.seq2seq == Seq2seqSettings(model="t5", beams=2)
    assert found.fine_tuning == FineTuningSettings(steps=2, batch_size=9, seed=4)


def test_a_fallback_that_is_typed_needs_no_file() -> None:
    assert chosen(seq2seq="embedded").seq2seq == Seq2seqSettings()


def test_a_value_that_makes_no_sense_is_refused_whoever_said_it(file: Path) -> None:
    with pytest.raises(SettingsError, match="clip is -1"):
        chosen(settings=file, clip=-1.0)


def test_settings_of_a_search_are_refused_where_there_is_a_grammar() -> None:
    with pytest.raises(typer.BadParameter, match="--like is for inducing a grammar"):
        chosen(grammar=Path("rules.txt"), like="scan")
