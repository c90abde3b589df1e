"""A baseline without a grammar, in a folder that the commands read like any other model."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from nqg.answers import exact_match
from nqg.errors import NqgError
from nqg.inference.hybrid import TokenSystem, load, load_with_grammar
from nqg.paper.baselines import BASELINES
from nqg.preprocessing.preprocessor import TEXT_FILE, Preprocessor
from nqg.seq2seq.fine_tuning import FineTuning
from nqg.seq2seq.settings import Seq2seqSettings
from nqg.training.records import TrainingStep
from training_command import EXAMPLES, nqg
from typed_commands import typed

pytest_plugins = ("training_fixtures",)
pytestmark = pytest.mark.usefixtures("training_folder")

TRAIN = (
    "train.tsv",
    "-o",
    "both",
    "--grammar",
    "rules.txt",
    "--steps",
    "3",
    "--device",
    "cpu",
)


@pytest.fixture
def folder() -> Path:
    """A folder with a trained baseline and what reads raw text for it."""
    training = replace(BASELINES["cgps"].training, steps=30, batch_size=16)
    tuning = FineTuning(EXAMPLES, Seq2seqSettings.of("cgps"), training, device="cpu")
    list(tuning.steps(Path("state.safetensors")))
    path = Path("model")
    tuning.seq2seq.save(path, lambda made: Preprocessor().write(made / TEXT_FILE))
    return path


def test_a_trained_baseline_parses_is_evaluated_and_verified_like_other_models(
    folder: Path,
) -> None:
    parsed = typed("parse", str(folder), "train.tsv", "--json", "--device", "cpu")
    assert parsed.exit_code == 0, parsed.output
    lines = [json.loads(line) for line in parsed.stdout.splitlines()]
    system = load(folder, "cpu")
    assert isinstance(system, TokenSystem)
    answers = list(system.answers(example.source for example in EXAMPLES))
    assert [line["target"] for line in lines] == [answer.target for answer in answers]
    assert all(0 < line["probability"] <= 1 for line in lines)
    evaluated = typed("evaluate", str(folder), "train.tsv", "--json", "--device", "cpu")
    right = sum(
        exact_match(answer.target, each.target)
        for answer, each in zip(answers, EXAMPLES, strict=True)
    )
    (scores,) = json.loads(evaluated.stdout)["systems"].values()
    assert scores["accuracy"] == pytest.approx(right / len(EXAMPLES))
    verified = typed("check-model", str(folder), "--json")
    assert json.loads(verified.stdout)["system"] == "cgps"


def test_a_command_that_needs_rules_says_that_there_are_none(folder: Path) -> None:
    with pytest.raises(NqgError, match="holds a system without a grammar"):
        load_with_grammar(folder, "cpu")


def test_a_baseline_is_a_fallback_too() -> None:
    words = (*TRAIN, "--set", "confidence.folds=0")
    result = nqg(*words, "--seq2seq", "cgps", "--set", "fine_tuning.steps=3")
    assert result.exit_code == 0, result.output
    walk, swim = load_with_grammar("both", "cpu").answers(["walk twice", "walk thrice"])
    assert (walk.target, walk.system) == ("I_WALK I_WALK", "grammar")
    assert swim.answered_by in ("fallback", None)


def test_a_fallback_is_saved_as_often_as_its_parser(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    both = (*TRAIN, "--set", "confidence.folds=2")
    fallback = ("--seq2seq", "cgps", "--set", "fine_tuning.steps=3")
    intervals: list[int] = []
    steps = FineTuning.steps

    def watched(
        self: FineTuning, state: Path, save_every: int
    ) -> Iterator[TrainingStep]:
        intervals.append(save_every)
        return steps(self, state, save_every)

    monkeypatch.setattr(FineTuning, "steps", watched)
    result = nqg(*both, *fallback, "--set", "run.save_every=4")
    assert result.exit_code == 0, result.output
    assert intervals == [4, 4, 4]
