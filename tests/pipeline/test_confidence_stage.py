"""The confidence stage: what readers of folds make of the sentences that they have not seen."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import nqg
from nqg import ConfidenceSettings, Example, Grammar, TrainSettings
from nqg.errors import SettingsError
from nqg.inference.hybrid import Hybrid, TokenSystem
from nqg.inference.parser import Parser
from nqg.model.confidence import PRIORS
from nqg.model.settings import EncoderSettings, ModelSettings, TrainingSettings
from nqg.pipeline import confidence as stage
from nqg.pipeline.confidence import (
    ENOUGH_SENTENCES,
    default_folds,
    held_out_sentences,
    trials,
)
from nqg.pipeline.events import (
    Event,
    Notice,
    Stage,
    StageStarted,
    TrainReport,
    WorkDone,
)
from nqg.pipeline.parser import fit_parser
from nqg.pipeline.run import Run
from nqg.pipeline.second_reader import FoldModel
from nqg.pipeline.settings import RunSettings
from nqg.seq2seq.legal_decoding import LegalSeq2seq
from nqg.seq2seq.seq2seq import Seq2seq
from nqg.seq2seq.settings import (
    AugmentationSettings,
    FineTuningSettings,
    LoraSettings,
    Seq2seqSettings,
    SmallT5Settings,
)

NAMES = ("lamp", "radio", "heater", "fan", "oven")
EXAMPLES = [
    Example(f"turn {state} the {name}", f"turn_{state} ( {name} )")
    for state in ("on", "off")
    for name in NAMES
]
GRAMMAR = Grammar.parse(
    "turn on the NT_1 ### turn_on ( NT_1 )\nturn off the NT_1 ### turn_off ( NT_1 )\n"
    + "\n".join(f"{name} ### {name}" for name in NAMES)
)
SMALL = ModelSettings(
    dimension=16, embedded=EncoderSettings(hidden_size=16, layers=1, heads=2)
)
SETTINGS = TrainSettings(model=SMALL, training=TrainingSettings(steps=2, batch_size=4))


@pytest.fixture(scope="module")
def parser() -> Parser:
    return fit_parser(
        GRAMMAR, EXAMPLES, model=SMALL, training=SETTINGS.training, device="cpu"
    )


def run_in(folder: Path | None, events: list[Event]) -> Run:
    return Run(folder=folder, device="cpu", listener=events.append)


def test_trials_say_which_candidates_are_right_and_none_is_out_of_scope(
    parser: Parser,
) -> None:
    wrong = Example("turn on the oven", "explode ( oven )")
    found = trials(parser, EXAMPLES[:8], [EXAMPLES[0], wrong], random.Random(0))
    in_scope = [each for each in found if each.is_in_scope]
    verdicts = [trial.is_right for each in in_scope for trial in each.candidates]
    assert sorted(verdicts) == [False, True]
    # `explode` is in no program of training.
    assert sorted(each.is_new_template for each in in_scope) == [False, True]
    for sentence in found:
        if not sentence.is_in_scope:
            assert not any(trial.is_right for trial in sentence.candidates)


def test_what_only_the_held_out_examples_have_counts_as_unseen(parser: Parser) -> None:
    train = [each for each in EXAMPLES if "oven" not in each.source]
    (found, *_) = trials(parser, train, EXAMPLES[4:5], random.Random(0))
    (trial,) = found.candidates
    assert (trial.evidence.unseen, trial.evidence.unknown) == (1, 1)
    (known, *_) = trials(parser, EXAMPLES, EXAMPLES[4:5], random.Random(0))
    (trial,) = known.candidates
    assert (trial.evidence.unseen, trial.evidence.unknown) == (0, 0)


def test_a_held_out_sentence_is_not_taken_for_one_out_of_scope(
    parser: Parser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        stage, "made_out_of_scope", lambda *_: [EXAMPLES[9].source, "oven the on"]
    )
    found = trials(parser, EXAMPLES[:8], EXAMPLES[8:], random.Random(0))
    assert [each.is_in_scope for each in found] == [True, True, False]


def test_each_fold_is_held_out_from_its_readers_and_finished_ones_are_kept(
    parser: Parser, tmp_path: Path
) -> None:
    learned: list[Sequence[Example]] = []

    def train_readers(examples: Sequence[Example], run: Run) -> Parser:
        learned.append(examples)
        return parser

    settings = replace(SETTINGS, confidence=ConfidenceSettings(folds=2))
    (tmp_path / "run").mkdir()
    run = run_in(tmp_path / "run", [])
    first = held_out_sentences(EXAMPLES, settings, train_readers, run, "data")
    assert [len(examples) for examples in learned] == [8, 8]
    assert {*learned[0]} != {*learned[1]}
    assert sum(each.is_in_scope for each in first) == 4
    again = held_out_sentences(EXAMPLES, settings, train_readers, run, "data")
    assert again == first
    assert len(learned) == 2  # nothing was trained again
    held_out_sentences(EXAMPLES, settings, train_readers, run, "other data")
    assert len(learned) == 4


@given(st.integers(min_value=1, max_value=20_000))
def test_as_many_folds_are_held_out_as_come_closest_to_enough_sentences(
    examples: int,
) -> None:
    count = default_folds(examples, 5, TrainSettings(), Run(device="cpu"))

    def distance(folds: int) -> float:
        return abs(folds * examples / 5 - ENOUGH_SENTENCES)

    # The obvious twin tries all numbers of folds; of two that are as close, more are held out.
    assert count == min(range(5, 0, -1), key=distance)
    # Two thirds of the wanted sentences are held out, or all that there are.
    held_out = count * examples / 5
    assert held_out >= min(2 * ENOUGH_SENTENCES / 3, examples)


def test_a_single_example_teaches_no_confidence(parser: Parser) -> None:
    events: list[Event] = []
    found = held_out_sentences(
        EXAMPLES[:1], SETTINGS, lambda *_: parser, run_in(None, events), "data"
    )
    assert found == []
    assert [event.text for event in events if isinstance(event, Notice)] == [
        "no confidence can be learned: 1 example cannot fill two folds"
    ]


TINY_T5 = Seq2seqSettings(
    longest_target=8, embedded=SmallT5Settings(width=16, layers=1, heads=2)
)


@pytest.mark.parametrize("has_seq2seq", [False, True], ids=["grammar", "both"])
def test_training_ends_with_a_confidence_that_was_fitted_to_its_readers(
    has_seq2seq: bool, tmp_path: Path
) -> None:
    settings = replace(SETTINGS, confidence=ConfidenceSettings(folds=1))
    if has_seq2seq:
        fine_tuning = FineTuningSettings(steps=2, batch_size=4)
        settings = replace(settings, seq2seq=TINY_T5, fine_tuning=fine_tuning)
    reports: list[Event] = []
    system = nqg.train(
        EXAMPLES, settings=settings, device="cpu", listener=reports.append
    )
    report = reports[-1]
    assert isinstance(report, TrainReport)
    calibrator = report.calibrator
    assert calibrator is not None
    assert calibrator.has_seq2seq == has_seq2seq == isinstance(system, Hybrid)
    assert calibrator.least_precision == 0.95
    assert calibrator.expected.sentences == 2  # a fifth
    assert calibrator.weights != PRIORS[has_seq2seq]
    system.save(tmp_path / "model")
    loaded = nqg.load(tmp_path / "model", "cpu")
    again = loaded.parser if isinstance(loaded, Hybrid) else loaded
    assert isinstance(again, Parser)
    assert again.model.calibrator == calibrator


def test_without_folds_there_is_no_confidence() -> None:
    settings = replace(SETTINGS, confidence=ConfidenceSettings(folds=0))
    parser = nqg.train(EXAMPLES, settings=settings, device="cpu")
    assert isinstance(parser, Parser)
    assert parser.model.calibrator is None


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"folds": -1}, "folds"),
        ({"folds": 6}, "folds is 6; expected 0 to 5"),
        ({"least_precision": 1.5}, "least_precision is 1.5; expected 0 to 1"),
    ],
)
def test_settings_that_make_no_sense_are_refused(
    values: dict[str, float], reason: str
) -> None:
    with pytest.raises(SettingsError, match=reason):
        ConfidenceSettings(**values)  # type: ignore[arg-type]


def pretrained_settings(folder: Path) -> TrainSettings:
    """Settings of a training whose second reader begins with the weights in a folder."""
    brief = FineTuningSettings(steps=1, batch_size=4)
    Seq2seq.train(EXAMPLES, TINY_T5, brief, device="cpu").save(folder)
    return replace(
        SETTINGS,
        seq2seq=Seq2seqSettings(model=str(folder), longest_target=8),
        fine_tuning=FineTuningSettings(steps=8, batch_size=4),
        confidence=ConfidenceSettings(folds=1),
        run=RunSettings(save_every=1),
    )


def second_reader_weights(system: object) -> dict[str, torch.Tensor]:
    assert isinstance(system, Hybrid)
    assert isinstance(system.fallback, TokenSystem)
    reader: object = system.fallback.system
    if isinstance(reader, LegalSeq2seq):
        reader = reader.seq2seq
    assert isinstance(reader, Seq2seq)
    weights: dict[str, torch.Tensor] = reader.model.state_dict()
    return weights


def test_the_second_reader_of_a_fold_learns_the_other_examples(tmp_path: Path) -> None:
    settings = pretrained_settings(tmp_path / "t5")
    events: list[Event] = []
    system = nqg.train(
        EXAMPLES, settings=settings, device="cpu", listener=events.append
    )
    # The fold is trained first, with all steps; then the same model makes a quarter of them.
    stages = [event.stage for event in events if isinstance(event, StageStarted)]
    assert stages[-2:] == [Stage.CONFIDENCE, Stage.SEQ2SEQ]
    steps = [event for event in events if isinstance(event, WorkDone)]
    tuning = [event for event in steps if "fine-tuning" in event.what]
    assert [event.what.startswith("fold") for event in tuning] == [True] * 8 + [
        False
    ] * 2
    assert [event.total for event in tuning] == [8] * 8 + [2] * 2
    assert isinstance(system, Hybrid)
    assert system.calibrator is not None
    # Elsewhere, another one is trained from the start.
    anew = replace(
        settings, confidence=ConfidenceSettings(folds=1, continue_fold=False)
    )
    other = nqg.train(EXAMPLES, settings=anew, device="cpu")
    assert isinstance(other, Hybrid)
    assert other.calibrator == system.calibrator
    before, after = second_reader_weights(other), second_reader_weights(system)
    name = "decoder.block.0.layer.0.SelfAttention.q.weight"
    assert not torch.equal(before[name], after[name])


@pytest.mark.parametrize("step", [1, 2])
def test_a_fold_that_learns_the_rest_is_kept_for_an_interrupted_run(
    step: int, tmp_path: Path
) -> None:
    settings = pretrained_settings(tmp_path / "t5")

    def interrupt(event: Event) -> None:
        if not isinstance(event, WorkDone) or event.done != step:
            return
        if event.what.startswith("fine-tuning"):
            raise KeyboardInterrupt

    run = tmp_path / "run"
    with pytest.raises(KeyboardInterrupt):
        nqg.train(
            EXAMPLES,
            settings=settings,
            device="cpu",
            run_folder=run,
            listener=interrupt,
        )
    assert (run / "fold-seq2seq").is_dir()
    again = nqg.train(EXAMPLES, settings=settings, device="cpu", run_folder=run)
    assert not (run / "fold-seq2seq").exists()
    whole = nqg.train(EXAMPLES, settings=settings, device="cpu")
    found, expected = second_reader_weights(again), second_reader_weights(whole)
    assert found.keys() == expected.keys()
    for name, weight in expected.items():
        assert torch.equal(found[name], weight)


@pytest.mark.parametrize(
    ("model", "change"),
    [
        ("embedded", {}),
        ("t5", {"lora": LoraSettings()}),
        ("t5", {"folds": 0}),
        ("t5", {"continue_fold": False}),
        ("t5", {"augmentation": AugmentationSettings()}),
    ],
)
def test_other_second_readers_are_trained_anew(
    model: str, change: dict[str, Any]
) -> None:
    settings = replace(SETTINGS, seq2seq=Seq2seqSettings(model="t5"))
    run = run_in(None, [])
    assert FoldModel.of(settings, run) is not None
    seq2seq = Seq2seqSettings(model=model, lora=change.pop("lora", None))
    augmentation = change.pop("augmentation", None)
    changed = replace(
        settings,
        seq2seq=seq2seq,
        augmentation=augmentation,
        confidence=ConfidenceSettings(**change),
    )
    assert FoldModel.of(changed, run) is None
