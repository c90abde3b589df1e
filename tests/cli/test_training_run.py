"""What `nqg train` does around the steps: trials, cached forests, curves, divergence, its help."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from dataclasses import fields
from math import nan
from pathlib import Path
from typing import Any

import pytest

from nqg import Grammar, Parser
from nqg.cli import training_run as command
from nqg.data.examples import Example, write_examples
from nqg.errors import MissingExtra
from nqg.model.forests import Forests, forest_parts
from nqg.model.settings import TrainingSettings
from nqg.training.records import TrainingStep
from nqg.training.trainer import Diverged, Trainer
from training_command import BRIEF, EXAMPLES, RULES, files, nqg

TRIALS = ("--dev", "dev.tsv", "--evaluate-every", "2", "--patience", "2", "--learning-rate", "0.001", "--warm-up", "2")


pytest_plugins = ("training_fixtures",)
pytestmark = pytest.mark.usefixtures("training_folder")


def test_dev_scores_are_in_the_metrics_and_the_best_weights_in_the_model() -> None:
    """The dev examples contradict the training examples, so that the first trial stays the best."""
    swapped = {"I_WALK": "I_RUN", "I_RUN": "I_WALK"}
    write_examples(Path("dev.tsv"), [Example(each.source, swapped.get(each.target, "I_X")) for each in EXAMPLES[:9]])
    Path("rules.txt").write_text(RULES + "walk ### I_RUN\nrun ### I_WALK\n")
    facts = json.loads(nqg("train.tsv", "-o", "mine", *BRIEF, "--steps", "40", *TRIALS, "--json").stdout)
    lines = [json.loads(line) for line in Path("mine/training.jsonl").read_text().splitlines()]
    tried = {line["step"]: (line["dev_exact_match"], -line["dev_loss"]) for line in lines if "dev_loss" in line}
    assert list(tried) == list(range(2, facts["steps"] + 1, 2))
    assert facts["steps"] == facts["best_step"] + 4 < 40
    assert max(tried, key=lambda step: tried[step]) == facts["best_step"]
    assert facts["dev"]["accuracy"] == tried[facts["best_step"]][0]


def test_forests_are_built_once_and_again_when_damaged_or_unwanted(monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[int] = []

    def watched(grammar: Grammar, examples: list[Example]) -> Iterator[Forests]:
        built.append(len(examples))
        return forest_parts(grammar, examples)

    monkeypatch.setattr(command, "forest_parts", watched)
    folder = Path(os.environ["NQG_DATA_CACHE"], "forests")
    for more, expected in (((), 1), ((), 1), (("--no-cache",), 2)):
        nqg("train.tsv", "-o", "mine", *BRIEF, *more)
        assert len(built) == expected
        assert len(list(folder.iterdir())) == 2
    before = files("mine")
    (entry,) = folder.glob("*.arrays")
    entry.write_bytes(entry.read_bytes()[:-1])
    nqg("train.tsv", "-o", "mine", *BRIEF)
    assert built == [len(EXAMPLES)] * 3
    assert len(list(folder.iterdir())) == 2
    assert files("mine") == before


def test_a_cache_that_cannot_be_written_stops_nobody() -> None:
    Path(os.environ["NQG_DATA_CACHE"], "forests").write_text("in the way")
    result = nqg("train.tsv", "-o", "mine", *BRIEF)
    assert "forests: forests cannot be kept there (File exists); continuing without it\n" in result.stderr


STEP = Trainer._make


def interrupted(self: Trainer, batches: Any) -> list[TrainingStep]:
    """A step, or Ctrl-C in the sixth."""
    if self.made == 5:
        raise KeyboardInterrupt
    return STEP(self, batches)


def curves(folder: str) -> dict[str, list[tuple[int, float]]]:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(folder)
    events.Reload()
    return {name: [(event.step, event.value) for event in events.Scalars(name)] for name in events.Tags()["scalars"]}


def test_tensorboard_gets_the_curves_also_of_a_training_that_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    words = (*BRIEF, "--dev", "train.tsv", "--evaluate-every", "3", "--tensorboard", "runs")
    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "_make", interrupted)
        nqg("train.tsv", "-o", "mine", *words, "--save-every", "2")
    nqg("train.tsv", "-o", "mine", *words, "--save-every", "2")
    lines = [json.loads(line) for line in Path("mine/training.jsonl").read_text().splitlines()]
    found = curves("runs")
    assert set(found) == {"loss", "learning_rate", "dev/exact_match", "dev/loss"}
    assert dict(found["loss"]) == pytest.approx({line["step"]: line["loss"] for line in lines})
    assert [step for step, _ in found["dev/exact_match"]] == [3, 6, 7]


def test_tensorboard_that_is_not_installed_is_said_before_any_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(
        MissingExtra,
        match=r"drawing curves with TensorBoard needs .* pip install -c constraints.txt -e '.\[tensorboard\]'",
    ):
        nqg("train.tsv", "-o", "mine", *BRIEF, "--tensorboard", "runs")
    assert not Path("mine.training").exists()


def test_a_loss_that_is_no_number_names_the_last_good_state_and_leaves_it(monkeypatch: pytest.MonkeyPatch) -> None:
    nqg("train.tsv", "-o", "mine", *BRIEF)
    before, backward = files("mine"), Trainer._backward
    monkeypatch.setattr(
        Trainer, "_backward", lambda self, step, share: backward(self, step, share) * (nan if step == 5 else 1)
    )
    with pytest.raises(Diverged) as caught:
        nqg("train.tsv", "-o", "mine", *BRIEF, "--save-every", "2")
    assert "the loss of step 6 is nan, at learning rate 0.000375 and for a batch of 8 examples ('" in str(caught.value)
    assert str(caught.value).endswith("; the last good state, after step 4, is in mine.training/state.safetensors")
    assert files("mine") == before


def test_every_setting_of_the_training_can_be_given() -> None:
    settings = {
        "--warm-up": 3,
        "--weight-decay": 0.5,
        "--clip": 0.25,
        "--seed": 7,
        "--evaluate-every": 9,
        "--patience": 4,
        "--precision": "float32",
        "--learning-rate": 0.02,
    }
    words = [word for flag, value in settings.items() for word in (flag, str(value))]
    nqg("train.tsv", "-o", "mine", *BRIEF, *words)
    kept = Parser.load("mine", "cpu").model.provenance.training
    assert {flag: kept[flag[2:].replace("-", "_")] for flag in settings} == settings
    assert (kept["steps"], kept["batch_size"]) == (7, 8)


def test_the_help_has_panels_and_fits_100_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    shown = nqg("--help").stdout
    for panel in ("Files", "Model", "Optimisation", "Early stopping", "Running"):
        assert f"\n╭─ {panel} ─" in shown
    assert max(map(len, shown.splitlines())) <= 100
    assert "…" not in shown.replace("Usage", "")
    settings = {f"--{each.name.replace('_', '-')}" for each in fields(TrainingSettings)}
    assert not [flag for flag in settings if flag not in shown]
