"""`nqg train --seq2seq`: one command, one folder with both readers and their confidence."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner, Result

from nqg.cli.main import app
from nqg.cli.terminal import STOPPED
from nqg.errors import SettingsError
from nqg.inference.hybrid import Hybrid, TokenSystem, has_fallback
from nqg.pipeline.run import Run
from nqg.seq2seq.legal_decoding import LegalSeq2seq
from training_command import EXAMPLES
from typed_commands import changed

pytest_plugins = ("training_fixtures",)
pytestmark = pytest.mark.usefixtures("training_folder")
BRIEF = (
    "train.tsv",
    "-o",
    "model",
    "--preset",
    "scan",
    "--steps",
    "3",
    "--set",
    "training.batch_size=8",
    "--device",
    "cpu",
    "--set",
    "confidence.folds=0",
)
FALLBACK = (
    "--seq2seq",
    "embedded",
    *changed(
        "fine_tuning.steps=2", "fine_tuning.batch_size=4", "seq2seq.longest_target=12"
    ),
    *changed(
        "seq2seq.embedded.width=16",
        "seq2seq.embedded.layers=1",
        "seq2seq.embedded.heads=2",
    ),
)


def nqg(*words: str) -> Result:
    return CliRunner().invoke(app, ["train", *words])


def test_one_command_trains_both_parts_into_one_folder() -> None:
    result = nqg(*BRIEF, *FALLBACK)
    assert result.exit_code == 0, result.output
    hybrid = Hybrid.load("model", "cpu")
    assert hybrid.calibrator is None
    walk, swim = hybrid.answers(["walk twice", "swim twice"])
    assert (walk.target, walk.system) == ("I_WALK I_WALK", "grammar")
    assert swim.answered_by in ("fallback", None)
    assert not Path("model.training").exists()


@pytest.mark.parametrize(("kind", "count"), [("random", 24), ("length", 12)])
def test_confidence_is_fitted_to_examples_that_neither_reader_saw(
    kind: str, count: int
) -> None:
    Path("legal.grammar").write_text("<s> ::= <...>\n")
    words = (
        *changed("confidence.folds=2", f"confidence.hold_out={kind}"),
        "--target-grammar",
        "legal.grammar",
    )
    result = nqg(*BRIEF, *FALLBACK, *words)
    assert result.exit_code == 0, result.output
    hybrid = Hybrid.load("model", "cpu")
    # Two of five random folds, or the longest fifth.
    assert hybrid.calibrator is not None
    assert hybrid.calibrator.expected.sentences == count
    assert f"sentences like these: {hybrid.calibrator.expected}" in result.stdout
    assert "a second reader often answers more" not in result.stderr
    assert isinstance(hybrid.fallback, TokenSystem)
    assert isinstance(hybrid.fallback.system, LegalSeq2seq)
    assert not Path("model.training").exists()


def test_on_a_cpu_one_fold_is_held_out_where_there_is_a_second_reader(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    words = [word for word in BRIEF if word != "confidence.folds=0"][:-1]
    result = nqg(*words, *FALLBACK)
    assert result.exit_code == 0, result.output
    calibrator = Hybrid.load("model", "cpu").calibrator
    assert calibrator is not None
    assert calibrator.expected.sentences == len(EXAMPLES) // 5


def test_the_grammar_teaches_the_second_reader() -> None:
    settings = (
        "[augmentation]\nreverse_steps = 2\nrounds = 1\nprograms = 3\nsentences = 1\n"
    )
    Path("nqg.toml").write_text(settings)
    result = nqg(*BRIEF, *FALLBACK, "--settings", "nqg.toml", "--augment", "30")
    assert result.exit_code == 0, result.output
    assert (
        "the second reader also learns from 30 pairs that the grammar knows"
        in result.stderr
    )
    assert has_fallback("model")


def test_without_seq2seq_there_is_one_reader() -> None:
    assert nqg(*BRIEF).exit_code == 0
    assert not has_fallback("model")


def test_an_interrupted_fine_tuning_leaves_no_half_a_model_and_the_same_command_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupted(self: Run, what: str, *_: object) -> None:
        if what.startswith("fine-tuning"):
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Run, "progress", interrupted)
        result = nqg(*BRIEF, *FALLBACK)
    assert result.exit_code == STOPPED
    assert (
        "run the same command again to continue with what is in model.training"
        in result.stderr
    )
    assert not Path("model").exists()
    again = nqg(*BRIEF, *FALLBACK)
    assert again.exit_code == 0
    assert "continuing after step 3" in again.stderr
    assert has_fallback("model")


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("--augment", "9"), "needs a second reader; name one with --seq2seq"),
        (
            (*FALLBACK, "--set", "confidence.hold_out=words"),
            "expected one of random, template, length, tmcd as",
        ),
        (("--set", "confidence.folds=6"), "folds is 6; expected 0 to 5"),
        (
            ("--set", "confidence.least_precision=95"),
            "least_precision is 95.0; expected 0 to 1",
        ),
        (("--gate",), "both readers are combined where --seq2seq names one"),
    ],
)
def test_misuse_is_told_before_any_work_is_done(
    words: tuple[str, ...], complaint: str
) -> None:
    result = nqg(*BRIEF, *words)
    assert result.exit_code == 2 or isinstance(result.exception, SettingsError)
    assert complaint in f"{result.stderr} {result.exception}"
    assert not Path("model.training").exists()
