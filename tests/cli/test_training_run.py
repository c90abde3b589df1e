"""What `nqg train` does around the steps: trials, curves, divergence, its help."""

from __future__ import annotations

import json
from math import nan
from pathlib import Path
from typing import Any

import pytest

from nqg import Parser
from nqg.data.example import Example
from nqg.data.example_files import write_examples
from nqg.training.records import TrainingStep
from nqg.training.trainer import Diverged, Trainer
from training_command import BRIEF, EXAMPLES, RULES, TRIALS, files, nqg
from typed_commands import changed

pytest_plugins = ("training_fixtures",)
pytestmark = pytest.mark.usefixtures("training_folder")


def test_dev_scores_are_in_the_metrics_and_the_best_weights_in_the_model() -> None:
    """The dev examples contradict the training examples, so that the first trial stays the best."""
    swapped = {"I_WALK": "I_RUN", "I_RUN": "I_WALK"}
    write_examples(
        Path("dev.tsv"),
        [
            Example(each.source, swapped.get(each.target, "I_X"))
            for each in EXAMPLES[:9]
        ],
    )
    Path("rules.txt").write_text(RULES + "walk ### I_RUN\nrun ### I_WALK\n")
    facts = json.loads(
        nqg(
            "train.tsv", "-o", "mine", *BRIEF, "--steps", "40", *TRIALS, "--json"
        ).stdout
    )
    lines = [
        json.loads(line)
        for line in Path("mine/training.jsonl").read_text().splitlines()
    ]
    tried = {
        line["step"]: (line["dev_exact_match"], -line["dev_loss"])
        for line in lines
        if "dev_loss" in line
    }
    assert list(tried) == list(range(2, facts["steps"] + 1, 2))
    assert facts["steps"] == facts["best_step"] + 4 < 40
    assert max(tried, key=lambda step: tried[step]) == facts["best_step"]
    assert facts["dev"]["accuracy"] == tried[facts["best_step"]][0]


STEP = Trainer._make


def interrupted(self: Trainer, batches: Any) -> list[TrainingStep]:
    """A step, or Ctrl-C in the sixth."""
    if self.made == 5:
        raise KeyboardInterrupt
    return STEP(self, batches)


def test_a_loss_that_is_no_number_names_the_last_good_state_and_leaves_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    nqg("train.tsv", "-o", "mine", *BRIEF)
    before, backward = files("mine"), Trainer._backward
    monkeypatch.setattr(
        Trainer,
        "_backward",
        lambda self, step, share: (
            backward(self, step, share) * (nan if step == 5 else 1)
        ),
    )
    with pytest.raises(Diverged) as caught:
        nqg("train.tsv", "-o", "mine", *BRIEF, "--set", "run.save_every=2")
    assert (
        "the loss of step 6 is nan, at learning rate 0.000375 and for a batch of 8 examples ('"
        in str(caught.value)
    )
    assert str(caught.value).endswith(
        "; the last good state, after step 4, is in mine.training/state.safetensors"
    )
    assert files("mine") == before


def test_every_setting_of_the_training_can_be_given() -> None:
    settings = {
        "warm_up": 3,
        "weight_decay": 0.5,
        "clip": 0.25,
        "seed": 7,
        "evaluate_every": 9,
        "patience": 4,
        "precision": "float32",
        "learning_rate": 0.02,
    }
    words = changed(*(f"training.{name}={value}" for name, value in settings.items()))
    nqg("train.tsv", "-o", "mine", *BRIEF, *words)
    kept = Parser.load("mine", "cpu").model.provenance.training
    assert {name: kept[name] for name in settings} == settings
    assert (kept["steps"], kept["batch_size"]) == (7, 8)


def test_the_help_has_panels_and_fits_100_columns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    shown = nqg("--help").stdout
    for panel in ("Files", "Model", "Second reader, beside the grammar"):
        assert f"\n╭─ {panel}" in shown
    assert max(map(len, shown.splitlines())) <= 100
    assert "…" not in shown.replace("Usage", "")
