"""`nqg train`, as a user types it, kills it and types it again."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console

from encoders import save_bert
from nqg import Grammar, Parser, induce
from nqg.answers import in_percent
from nqg.cli import terminal
from nqg.cli.terminal import STOPPED
from nqg.data.example import Example
from nqg.data.example_files import write_examples
from nqg.errors import FormatError, NqgError, SettingsError, UnknownName
from nqg.induction.settings import InductionSettings
from nqg.induction.tuning import chosen_settings
from nqg.inference.hybrid import has_fallback
from nqg.model.confidence import HeldOutSentence
from nqg.pipeline import confidence, grammar
from nqg.pipeline.advice import SECOND_READER
from nqg.training.records import TrainingStep
from nqg.training.trainer import Trainer
from nqg.types.inference import infer_target_grammar
from nqg.types.target_grammar import TargetGrammar
from training_command import BRIEF, EXAMPLES, TRIALS, files, nqg
from typed_commands import changed, typed

pytest_plugins = ("training_fixtures",)
pytestmark = pytest.mark.usefixtures("training_folder")
SIXTY_STEPS = ("--preset", "scan", "--steps", "60", *changed("training.batch_size=32"))


def test_a_model_is_trained_saved_and_named() -> None:
    words = (*SIXTY_STEPS, "--dev", "train.tsv", *changed("confidence.folds=2"))
    result = nqg("train.tsv", "-o", "models/mine", *words)
    parser = Parser.load("models/mine", "cpu")
    assert (
        parser.grammar.rules == induce(EXAMPLES, InductionSettings.named("scan")).rules
    )
    assert parser.parse("jump twice").target == "I_JUMP I_JUMP"
    first, second, third, *fourth = result.stdout.splitlines()
    assert first.startswith(
        f"60 examples, {len(parser.grammar)} rules, 60 steps, loss "
    )
    assert (
        second
        == "60 dev examples, best after step 60: accuracy 100.0 %, coverage 100.0 %, precision 100.0 %"
    )
    calibrator = parser.model.calibrator
    assert calibrator
    assert third == f"sentences like these: {calibrator.expected}"
    assert fourth == [f"programs of a new form: {calibrator.new_templates}"]
    # Two of the five folds are held out.
    assert calibrator.expected.sentences == 24
    first, heading, *steps, last = result.stderr.splitlines()
    assert first == f"{len(parser.grammar)} rules induced from 60 examples"
    assert (heading, last) == ("most useful next:", "wrote models/mine")
    assert any(SECOND_READER in step for step in steps)
    assert [path.name for path in Path("models").iterdir()] == ["mine"]


def test_a_learning_curve_is_measured_and_drawn() -> None:
    words = (*SIXTY_STEPS, *changed("confidence.folds=0"), "--plot", "curve.svg")
    result = nqg("train.tsv", "-o", "mine", *words)
    curve = re.findall(
        r"learned from (\d+) examples: accuracy ([\d.]+) %", result.stdout
    )
    # A fifth of the 60 examples is held out; quarters of the others are learned from.
    assert [int(count) for count, _ in curve] == [12, 24, 36, 48]
    assert float(curve[0][1]) < float(curve[-1][1])
    assert Path("curve.svg").read_text().startswith("<?xml")
    assert result.stderr.splitlines()[-2:] == ["wrote mine", "wrote curve.svg"]
    assert Parser.load("mine", "cpu").parse("jump twice").target == "I_JUMP I_JUMP"


def test_a_picture_of_another_format_is_refused_before_training() -> None:
    with pytest.raises(NqgError, match=r"a plot is written as \.png or \.svg"):
        nqg("train.tsv", "-o", "mine", "--plot", "curve.pdf")
    assert not Path("mine").exists()


def test_without_a_word_about_induction_trials_choose_its_settings() -> None:
    words = (
        "train.tsv",
        "-o",
        "mine",
        "--steps",
        "2",
        "--set",
        "training.batch_size=8",
        "--set",
        "confidence.folds=0",
    )
    types = infer_target_grammar(example.target_tokens for example in EXAMPLES)
    expected = induce(EXAMPLES, target_grammar=types)
    assert nqg(*words).exit_code == 0
    model = Parser.load("mine", "cpu").model
    assert model.grammar.rules == expected.rules
    assert model.provenance.induction == asdict(chosen_settings(EXAMPLES, types))


def interrupted(*_: object, **__: object) -> None:
    raise KeyboardInterrupt("the user")


def test_answers_to_combinations_of_training_are_sure_and_others_less() -> None:
    words = (*SIXTY_STEPS, *changed("confidence.folds=3"))
    assert nqg("train.tsv", "-o", "mine", *words).exit_code == 0
    known, new = Parser.load("mine", "cpu").answers(["jump twice", "jump twice thrice"])
    assert 0 < (new.confidence or 0) < (known.confidence or 0) < 1
    rows = typed("parse", "mine", "jump twice").stdout.splitlines()
    assert rows == ["I_JUMP I_JUMP", f"confidence {in_percent(known.confidence or 0)}"]


def test_a_killed_cross_validation_goes_on_with_the_fold_that_was_under_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    words = ("train.tsv", *BRIEF, "--set", "confidence.folds=3")
    tried: list[int] = []
    whole = confidence.trials

    def interrupted(*arguments: Any) -> list[HeldOutSentence]:
        if len(tried) == 2:
            raise KeyboardInterrupt
        tried.append(len(tried))
        return whole(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(confidence, "trials", interrupted)
        assert nqg(*words, "-o", "killed").exit_code == STOPPED
    assert sorted(
        path.name for path in Path("killed.training").glob("fold-*.json")
    ) == [
        "fold-1.json",
        "fold-2.json",
    ]
    assert nqg(*words, "-o", "killed").exit_code == 0
    assert nqg(*words, "-o", "whole").exit_code == 0
    assert files("killed") == files("whole")


def test_examples_too_much_alike_are_trained_on_without_confidence() -> None:
    Path("train.tsv").write_text("jump\tI_JUMP\njump now\tI_JUMP\n")
    words = (
        "--steps",
        "2",
        "--device",
        "cpu",
        *changed("confidence.hold_out=template"),
    )
    result = nqg("train.tsv", "-o", "mine", *words)
    assert result.exit_code == 0
    assert (
        "no confidence can be learned: 1 template cannot fill two folds"
        in result.stderr
    )
    assert Parser.load("mine", "cpu").parse("jump").confidence is None


def test_every_step_is_a_line_of_the_metrics_and_the_same_command_writes_the_same_bytes() -> (
    None
):
    facts = [
        json.loads(nqg("train.tsv", "-o", name, *BRIEF, "--json").stdout)
        for name in ("one", "two")
    ]
    lines = [
        json.loads(line) for line in Path("one/training.jsonl").read_text().splitlines()
    ]
    assert [line["step"] for line in lines] == list(range(1, 8))
    assert set(lines[0]) == {"step", "loss", "learning_rate"}
    assert [line["learning_rate"] for line in lines[:2]] == pytest.approx(
        [1e-3 / 16, 2e-3 / 16]
    )
    assert facts[0] == {**facts[1], "folder": "one"}
    assert (facts[0]["loss"], facts[0]["steps"], facts[0]["rules"]) == (
        lines[-1]["loss"],
        7,
        5,
    )
    assert facts[0]["dev"] is None
    assert files("one") == files("two")


def test_a_seed_and_a_learning_rate_make_another_model() -> None:
    nqg("train.tsv", "-o", "one", *BRIEF)
    for more in (("--seed", "1"), ("--set", "training.learning_rate=0.01")):
        nqg("train.tsv", "-o", "two", *BRIEF, *more)
        assert files("one")["model.safetensors"] != files("two")["model.safetensors"]
    assert '"learning_rate": 0.000625' in Path("two/training.jsonl").read_text()


def test_the_target_grammar_becomes_part_of_the_model() -> None:
    Path("legal.txt").write_text("<actions> ::= I_WALK\n")
    words = (
        *BRIEF,
        "--target-grammar",
        "legal.txt",
        "--set",
        "types.skip_illegal=true",
        "--dev",
        "dev.tsv",
    )
    write_examples(
        Path("dev.tsv"), [Example("walk", "I_WALK"), Example("run", "I_RUN")]
    )
    result = nqg("train.tsv", "-o", "mine", *words)
    assert Parser.load("mine", "cpu").model.target_grammar == TargetGrammar.read(
        "legal.txt"
    )
    assert (
        "2 dev examples, best after step 7: accuracy 50.0 %, coverage 50.0 %, precision 100.0 %"
        in result.stdout
    )


def test_an_encoder_can_be_a_folder() -> None:
    save_bert("tiny", [example.source_tokens for example in EXAMPLES])
    nqg("train.tsv", "-o", "mine", *BRIEF, "--encoder", "./tiny")
    parser = Parser.load("mine", "cpu")
    assert parser.model.settings.encoder == "./tiny"
    assert parser.model.scorer.encoder.hidden_size == 8
    assert parser.parse("walk twice").target == "I_WALK I_WALK"
    first = json.loads(Path("mine/training.jsonl").read_text().splitlines()[0])
    assert first["learning_rate"] == pytest.approx(1e-4 / 100)


KILLED = """
import os, signal, sys
import nqg.files
from nqg.cli.main import main
from nqg.training.trainer import Trainer
moment, count = sys.argv.pop(1), int(sys.argv.pop(1))
def die():
    os.kill(os.getpid(), signal.SIGKILL)
step, replace, replaced = Trainer._make, os.replace, []
def dying_step(self, batch):
    return die() if self.made == count else step(self, batch)
def dying_replace(temporary, path):
    if path.name == "state.safetensors":
        replaced.append(path)
        if len(replaced) == count:
            die()
    replace(temporary, path)
if moment == "step":
    Trainer._make = dying_step
else:
    os.replace = dying_replace
main()
"""


def killed(moment: str, count: int, *words: str) -> None:
    """`nqg train` in a process of its own, which dies before it makes a step or puts a state in its place."""
    program = [sys.executable, "-c", KILLED, moment, str(count), "train", *words]
    process = subprocess.run(
        program,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        check=False,
    )
    assert process.returncode == -signal.SIGKILL, process.stderr


def test_a_training_that_is_killed_twice_ends_with_the_same_bytes() -> None:
    write_examples(Path("dev.tsv"), EXAMPLES[:5])
    nqg("train.tsv", "-o", "whole", *BRIEF, *TRIALS)
    words = ("train.tsv", "-o", "killed", *BRIEF, *TRIALS, "--set", "run.save_every=2")
    killed("step", 3, *words)
    assert [path.name for path in Path("killed.training").iterdir()] == [
        "state.safetensors"
    ]
    killed(
        "replace", 2, *words
    )  # it has saved step 4, and is about to put step 6 in its place
    assert not Path("killed").exists()
    result = nqg(*words)
    first, *_, last = result.stderr.splitlines()
    assert (first, last) == (
        "killed.training/state.safetensors: continuing after step 4",
        "wrote killed",
    )
    assert (
        "nothing was learned from 52 examples" in result.stderr
    )  # the rules that were given do not derive them
    assert files("killed") == files("whole")
    assert not Path("killed.training").exists()


def stop_after(steps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let Ctrl-C be pressed in the step that comes then."""
    step = Trainer._make

    def interrupted(self: Trainer, batches: Any) -> list[TrainingStep]:
        if self.made == steps:
            monkeypatch.setattr(Trainer, "_make", step)
            raise KeyboardInterrupt
        return step(self, batches)

    monkeypatch.setattr(Trainer, "_make", interrupted)


def test_ctrl_c_keeps_the_state_and_the_induced_grammar(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    words = (
        "train.tsv",
        "-o",
        "mine",
        "--preset",
        "scan",
        "--set",
        "run.save_every=1",
        *BRIEF[2:],
    )
    stop_after(2, monkeypatch)
    result = nqg(*words)
    assert result.exit_code == STOPPED
    assert (
        "error: interrupted; run the same command again to continue with what is in mine.training"
        in result.stderr
    )
    assert sorted(path.name for path in Path("mine.training").iterdir()) == [
        "grammar.json",
        "state.safetensors",
    ]
    with monkeypatch.context() as patch:
        patch.setattr(grammar, "search_grammar", interrupted)  # not again
        again = nqg(*words)
    continuing = "mine.training/state.safetensors: continuing after step 2"
    lines = again.stderr.splitlines()
    assert (lines[0], lines[-1]) == (continuing, "wrote mine")
    nqg(*words[:2], "whole", *words[3:])
    assert files("mine") == files("whole")


def test_an_unfinished_training_with_other_settings_is_refused_and_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stop_after(2, monkeypatch)
    nqg("train.tsv", "-o", "mine", *BRIEF, "--set", "run.save_every=1")
    before = files("mine.training")
    with pytest.raises(
        NqgError,
        match=r"cannot be continued, seed was 0 there and is 1 here; .* delete mine\.training",
    ):
        nqg("train.tsv", "-o", "mine", *BRIEF, "--seed", "1")
    assert files("mine.training") == before


def test_examples_that_are_not_learned_from_are_counted() -> None:
    Path("train.tsv").write_text(
        "walk\tI_WALK\nwalk\tI_WALK\njump twice\tI_JUMP I_JUMP\nhop\tI_HOP\n"
    )
    result = nqg("train.tsv", "-o", "mine", *BRIEF)
    assert result.stdout.startswith("2 examples (without 1 repeated), 5 rules, ")
    assert "nothing was learned from 1 example: " in result.stderr
    Path("train.tsv").write_text("walk\tI_WALK\n")
    assert nqg("train.tsv", "-o", "mine", *BRIEF).stdout.startswith(
        "1 example, 5 rules, "
    )


@pytest.mark.parametrize("verb", ["train", "induce", "check-data"])
def test_a_file_without_examples_is_named(verb: str) -> None:
    Path("empty.tsv").write_text("")
    with pytest.raises(
        NqgError, match=r"empty\.tsv: expected at least one example, found none"
    ):
        typed(verb, "empty.tsv", *(() if verb == "check-data" else ("-o", "mine")))


def test_a_grammar_that_was_induced_from_other_examples_is_not_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stop_after(0, monkeypatch)
    nqg("train.tsv", "-o", "mine", "--preset", "scan", *BRIEF[2:])
    write_examples(Path("train.tsv"), EXAMPLES[:8])
    result = nqg("train.tsv", "-o", "mine", "--preset", "scan", *BRIEF[2:])
    assert " rules induced from 8 examples\n" in result.stderr
    assert Grammar.read("mine/grammar.txt") == induce(
        EXAMPLES[:8], InductionSettings.named("scan")
    )


def test_a_model_is_replaced_but_nothing_else_is() -> None:
    nqg("train.tsv", "-o", "mine", *BRIEF)
    before = files("mine")
    assert nqg("train.tsv", "-o", "mine", *BRIEF, "--seed", "1").exit_code == 0
    assert files("mine") != before
    Path("letters").mkdir()
    Path("letters/mother.txt").write_text("dear mother")
    with pytest.raises(
        NqgError,
        match="letters: the folder is not empty and not a model folder; choose",
    ):
        nqg("train.tsv", "-o", "letters", *BRIEF)
    assert Path("letters/mother.txt").read_text() == "dear mother"


def test_a_terminal_sees_a_bar_with_loss_speed_and_dev_score(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    screen = Console(file=io.StringIO(), force_terminal=True, width=150)
    monkeypatch.setattr(terminal, "err", screen)
    nqg(
        "train.tsv",
        "-o",
        "mine",
        *BRIEF,
        "--dev",
        "train.tsv",
        "--set",
        "training.evaluate_every=2",
    )
    assert isinstance(screen.file, io.StringIO)
    shown = screen.file.getvalue()
    assert "training" in shown
    assert "7/7" in shown
    assert "loss 1." in shown or "loss 0." in shown
    assert "examples/s" in shown
    assert re.search(r"dev \d+\.\d%", shown)
    assert "0:00:0" in shown  # time left


def test_an_unknown_encoder_is_refused_before_rules_are_looked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("nqg.pipeline.train.prepared_text", None)
    with pytest.raises(NqgError, match=r"the encoder './none' could not be loaded"):
        nqg("train.tsv", "-o", "m", "--encoder", "./none")


def test_a_second_reader_that_cannot_be_downloaded_is_refused_before_any_work(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("nqg.pipeline.train.prepared_text", None)
    with pytest.raises(NqgError) as caught:
        nqg("train.tsv", "-o", "m", "--seq2seq", "no-such-owner/no-such-model")
    message = str(caught.value)
    assert "cannot load the sequence-to-sequence model 'no-such-owner/no" in message
    assert "name the folder of its weights, or 'embedded'" in message


@pytest.mark.parametrize(
    ("words", "error", "message"),
    [
        (("none.tsv", "-o", "m"), NqgError, "none.tsv: no such file"),
        (
            ("train.tsv", "-o", "m", "--steps", "0"),
            SettingsError,
            "steps is 0; expected 1 or more",
        ),
        (
            ("train.tsv", "-o", "train.tsv"),
            NqgError,
            "train.tsv: expected a folder to write the model to, found a file",
        ),
        (
            ("train.tsv", "-o", "."),
            NqgError,
            "expected a folder of the model's own, found the current one",
        ),
        (
            ("train.tsv", "-o", "m", "--grammar", "train.tsv"),
            FormatError,
            "train.tsv:1: expected 'source ### target'",
        ),
        (
            ("train.tsv", "-o", "m", "--preset", "scam"),
            UnknownName,
            "did you mean 'scan'?",
        ),
        (
            ("train.tsv", "-o", "m", *BRIEF, "--set", "training.learning_rate=0"),
            NqgError,
            "learning_rate is 0.0; expected more",
        ),
        (
            ("train.tsv", "-o", "m", *BRIEF, "--encoder", "./none"),
            NqgError,
            "the encoder './none' could not be loaded",
        ),
        (
            ("train.tsv", "-o", "m", "--grammar", "hop.txt"),
            NqgError,
            "the grammar derives none of the training pairs",
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_mistakes_are_said_in_words_and_leave_nothing_behind(
    words: tuple[str, ...], error: type[NqgError], message: str, tmp_path: Path
) -> None:
    (tmp_path / "hop.txt").write_text("hop ### HOP\n")
    before = sorted(tmp_path.iterdir())
    with pytest.raises(error) as caught:
        nqg(*words)
    assert message in str(caught.value)
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_that_is_not_there_is_said_to_be_missing() -> None:
    with pytest.raises(NqgError, match="torch finds no GPU; omit --device"):
        nqg("train.tsv", "-o", "m", "--device", "cuda")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("train.tsv",), "Missing option"),
        (
            ("train.tsv", "-o", "m", "--device", "tpu"),
            "'tpu' is neither 'cpu' nor 'cuda'",
        ),
        (
            ("train.tsv", "-o", "m", "--grammar", "rules.txt", "--preset", "scan"),
            "is for inducing a grammar",
        ),
        (
            ("train.tsv", "-o", "m", "--grammar", "rules.txt", "--plot", "a.svg"),
            "holds sentences out",
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_misuse_has_exit_code_2(words: tuple[str, ...], message: str) -> None:
    result = nqg(*words)
    assert result.exit_code == 2
    assert message in result.stderr
    assert not Path("m.training").exists()


def test_the_scores_on_dev_examples_are_kept_in_the_model_with_their_data() -> None:
    write_examples(
        Path("dev.tsv"),
        [Example("walk", "I_WALK"), Example("walk", "I_RUN"), Example("hop", "I_HOP")],
    )
    nqg("train.tsv", "-o", "mine", *BRIEF, "--dev", "dev.tsv")
    (measured,) = Parser.load("mine", "cpu").model.provenance.measurements
    assert (measured.data.name, measured.data.examples) == ("dev.tsv", 3)
    assert measured.scores == pytest.approx(
        {"accuracy": 1 / 3, "coverage": 2 / 3, "precision": 1 / 2}
    )
    assert "on `dev.tsv`, 3 examples" in Path("mine/README.md").read_text()


def test_where_no_threshold_is_precise_enough_it_is_said() -> None:
    words = ("--preset", "scan", "--steps", "2", *changed("confidence.folds=2"))
    modest = changed("confidence.least_precision=0.5")
    result = nqg("train.tsv", "-o", "mine", *words, *modest)
    assert "no confidence makes" not in result.stdout
    # Every sentence has two programs, so that a fold answers with the one that is not held out.
    others = zip(EXAMPLES, [*EXAMPLES[1:], EXAMPLES[0]])
    contradictions = [Example(first.source, second.target) for first, second in others]
    write_examples(Path("unclear.tsv"), [*EXAMPLES, *contradictions])
    perfect = changed("confidence.least_precision=1")
    result = nqg("unclear.tsv", "-o", "mine", *words, *perfect)
    assert (
        "no confidence makes 100 % of the answers right, so the model answers where it is at least 50 % sure"
        in result.stdout.splitlines()
    )
    calibrator = Parser.load("mine", "cpu").model.calibrator
    assert calibrator
    assert (calibrator.is_imprecise, calibrator.threshold) == (True, 0.5)


def test_a_lower_precision_lets_more_sentences_be_answered() -> None:
    words = ("--preset", "scan", "--steps", "2", *changed("confidence.folds=2"))
    thresholds = []
    for precision in (0.5, 0.9):
        least = changed(f"confidence.least_precision={precision}")
        result = nqg("train.tsv", "-o", "mine", *words, *least, "--json")
        figures = json.loads(result.stdout)
        assert figures["expected"]["sentences"] == 24
        thresholds.append(figures["threshold"])
    assert thresholds[0] <= thresholds[1]


def test_the_environment_may_name_a_second_reader(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("NQG_SEQ2SEQ", "embedded")
    tiny = changed("fine_tuning.steps=2", "fine_tuning.batch_size=4")
    result = nqg("train.tsv", "-o", "mine", *BRIEF, *tiny)
    assert result.exit_code == 0
    assert has_fallback("mine")
    assert SECOND_READER not in result.stderr
