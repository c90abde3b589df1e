"""`nqg.train`: one call in Python, the same model as the command's, whatever holds the examples."""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import Any

import pytest

import nqg
from nqg import ConfidenceSettings, Example, Grammar, TrainSettings, TypeSettings
from nqg.errors import FormatError, NqgError, SettingsError
from nqg.inference.hybrid import Hybrid, TokenSystem
from nqg.inference.parser import Parser
from nqg.model.settings import EncoderSettings, ModelSettings, TrainingSettings
from nqg.pipeline.events import (
    Event,
    Notice,
    Stage,
    StageStarted,
    TrainReport,
    WorkDone,
)
from nqg.pipeline.sources import read_source
from nqg.seq2seq.settings import (
    AugmentationSettings,
    FineTuningSettings,
    Seq2seqSettings,
    SmallT5Settings,
)
from nqg.settings_reader import changed_settings
from typed_commands import changed, typed

NAMES = ("lamp", "radio", "heater", "fan", "oven")
PAIRS = [
    (f"turn {state} the {name}", f"turn_{state}({name})")
    for state in ("on", "off")
    for name in NAMES
]
SMALL = ModelSettings(
    dimension=16, embedded=EncoderSettings(hidden_size=16, layers=1, heads=2)
)
BRIEF = TrainSettings(
    model=SMALL,
    training=TrainingSettings(steps=4, batch_size=4),
    confidence=ConfidenceSettings(folds=0),
)


def files(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_a_script_and_the_command_make_the_same_model_byte_for_byte(
    tmp_path: Path,
) -> None:
    starter = resources.files("nqg.data").joinpath("starter")
    for name in ("train.tsv", "nqg.toml"):
        (tmp_path / name).write_text(starter.joinpath(name).read_text())
    train, file = tmp_path / "train.tsv", tmp_path / "nqg.toml"
    brief = ("training.steps=40", "confidence.folds=2")
    nqg.train(train, settings=changed_settings(TrainSettings.read(file), brief)).save(
        tmp_path / "script"
    )
    typed(
        "train",
        str(train),
        "--settings",
        str(file),
        "-o",
        str(tmp_path / "command"),
        *changed(*brief),
    )
    assert files(tmp_path / "script") == files(tmp_path / "command")
    assert nqg.load(tmp_path / "script").parse("switch on the lamp in the attic").target


@pytest.mark.parametrize(
    "source",
    [
        PAIRS,
        [Example(*pair) for pair in PAIRS],
        [{"source": source, "target": target} for source, target in PAIRS],
        [
            {"question": source, "query": target, "db": "home"}
            for source, target in PAIRS
        ],
        (list(pair) for pair in PAIRS),
    ],
    ids=[
        "pairs",
        "examples",
        "dictionaries",
        "rows of another dataset",
        "a generator of lists",
    ],
)
def test_examples_come_from_whatever_holds_them(source: list[tuple[str, str]]) -> None:
    parser = nqg.train(source, settings=BRIEF, device="cpu")
    assert isinstance(parser, Parser)
    assert parser.parse("turn off the fan").target == "turn_off(fan)"
    assert parser.model.provenance.data
    assert parser.model.provenance.data.examples == len(PAIRS)


def test_calls_may_be_objects_which_are_written_as_json() -> None:
    call = {"name": "play", "arguments": {"song": "Déjà vu"}}
    rows: list[Any] = [("play", call), {"sentence": "play", "program": call}]
    programs = {example.target for example in read_source(rows).examples}
    assert programs == {'{"name": "play", "arguments": {"song": "Déjà vu"}}'}


CONTRADICTION = [*PAIRS, ("turn on the lamp", "turn_off(lamp)")]


def test_without_a_listener_the_warnings_of_a_training_are_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    nqg.train(CONTRADICTION, settings=BRIEF, device="cpu")
    (logger, _, text), *_ = caplog.record_tuples
    assert logger == "nqg"
    assert "data:11: contradiction: 'turn on the lamp'" in text


def test_a_listener_gets_the_warnings_instead(caplog: pytest.LogCaptureFixture) -> None:
    events: list[Event] = []
    nqg.train(CONTRADICTION, settings=BRIEF, device="cpu", listener=events.append)
    notices = [event for event in events if isinstance(event, Notice)]
    assert [notice.text for notice in notices if notice.level == "warning"]
    assert not caplog.records
    assert str(events[-1]).startswith("11 examples, ")


@pytest.mark.parametrize(
    ("source", "complaint"),
    [
        ([], "data: expected at least one example, found none"),
        (
            [("walk", "W"), "run"],
            "data:2: expected an Example, a pair of strings, or a dictionary",
        ),
        (
            [{"source": "walk"}],
            "data:1: expected 'target' .or program, output, query, label., found source",
        ),
        ([("walk", "W"), (" ", "R")], "data:2: the source is empty"),
        (
            [("walk", ""), ("run", " ")],
            "data: expected at least one example, found sentences that are out of scope",
        ),
        ("none.tsv", "none.tsv: no such file"),
    ],
    ids=[
        "nothing",
        "a string",
        "no program",
        "an empty sentence",
        "only sentences out of scope",
        "no file",
    ],
)
def test_what_is_not_an_example_is_refused_with_its_place(
    source: list[tuple[str, str]], complaint: str
) -> None:
    with pytest.raises((NqgError, FormatError), match=complaint):
        nqg.train(source, settings=BRIEF)


def test_progress_is_events_and_the_last_is_a_report() -> None:
    events: list[Event] = []
    nqg.train(PAIRS, settings=BRIEF, device="cpu", listener=events.append)
    stages = [event.stage for event in events if isinstance(event, StageStarted)]
    assert stages == [
        Stage.TEXT,
        Stage.TYPES,
        Stage.GRAMMAR,
        Stage.PARSER,
    ]
    steps = [
        event
        for event in events
        if isinstance(event, WorkDone) and event.what.startswith("training")
    ]
    assert [(step.done, step.total) for step in steps] == [
        (number, 4) for number in range(1, 5)
    ]
    assert any(
        isinstance(event, Notice) and "induced from 10 examples" in event.text
        for event in events
    )
    report = events[-1]
    assert isinstance(report, TrainReport)
    assert (report.examples, report.steps, report.left_out) == (10, 4, 0)


def test_a_grammar_that_is_given_is_not_searched_for() -> None:
    grammar = Grammar.parse("walk ### W\nNT_1 twice ### NT_1 NT_1")
    untyped = changed_settings(BRIEF, ["types.target_grammar=none"])
    parser = nqg.train(
        [("walk twice", "W W"), ("walk", "W")],
        grammar=grammar,
        settings=untyped,
        device="cpu",
    )
    assert isinstance(parser, Parser)
    assert parser.model.grammar.rules == grammar.rules
    assert parser.parse("walk twice twice").target == "W W W W"


def test_a_training_that_was_interrupted_continues_from_its_folder(
    tmp_path: Path,
) -> None:
    def interrupt(event: Event) -> None:
        if (
            isinstance(event, WorkDone)
            and event.what.startswith("training")
            and event.done == 3
        ):
            raise KeyboardInterrupt

    settings = changed_settings(BRIEF, ["run.save_every=1"])
    notes: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        nqg.train(
            PAIRS,
            settings=settings,
            run_folder=tmp_path / "run",
            device="cpu",
            listener=interrupt,
        )
    again = nqg.train(
        PAIRS,
        settings=settings,
        run_folder=tmp_path / "run",
        device="cpu",
        listener=lambda event: (
            notes.append(event.text) if isinstance(event, Notice) else None
        ),
    )
    assert any(
        note.endswith("state.safetensors: continuing after step 3") for note in notes
    )
    nqg.train(PAIRS, settings=settings, device="cpu").save(tmp_path / "whole")
    again.save(tmp_path / "again")
    assert files(tmp_path / "again") == files(tmp_path / "whole")


FINE_TUNING = FineTuningSettings(steps=3, batch_size=4)
TINY_T5 = Seq2seqSettings(
    longest_target=8, embedded=SmallT5Settings(width=16, layers=1, heads=2)
)


def test_one_call_trains_a_fallback_that_the_grammar_teaches_with_round_trips(
    tmp_path: Path,
) -> None:
    train = tmp_path / "mine.tsv"
    train.write_text("".join(f"{source}\t{target}\n" for source, target in PAIRS))
    teaching = AugmentationSettings(
        samples=12, kept=0.5, reverse_steps=2, rounds=1, programs=4, sentences=2
    )
    settings = TrainSettings(
        model=SMALL,
        training=TrainingSettings(steps=4, batch_size=4),
        seq2seq=TINY_T5,
        fine_tuning=FINE_TUNING,
        augmentation=teaching,
        confidence=ConfidenceSettings(folds=0),
    )
    events: list[Event] = []
    hybrid = nqg.train(
        train,
        settings=settings,
        seq2seq="embedded",
        device="cpu",
        listener=events.append,
    )
    assert isinstance(hybrid, Hybrid)
    taught = [
        event
        for event in events
        if isinstance(event, WorkDone) and event.what == "teaching"
    ]
    assert (
        taught[-1].done == taught[-1].total == 2 + 2 + 3
    )  # filter, reverse model and forward model of the round
    hybrid.save(tmp_path / "model")
    again = nqg.load(tmp_path / "model", "cpu")
    assert isinstance(again, Hybrid)
    sentences = ["turn on the fan", "do something else"]
    assert [answer.target for answer in again.answers(sentences)] == [
        answer.target for answer in hybrid.answers(sentences)
    ]


def test_without_a_model_a_sequence_to_sequence_model_is_all_that_is_trained(
    tmp_path: Path,
) -> None:
    settings = TrainSettings(model=None, seq2seq=TINY_T5, fine_tuning=FINE_TUNING)
    system = nqg.train(PAIRS, settings=settings, device="cpu")
    assert isinstance(system, TokenSystem)
    system.save(tmp_path / "model")
    sentences = [source for source, _ in PAIRS]
    loaded = nqg.load(tmp_path / "model", "cpu")
    assert [each.target for each in loaded.answers(sentences)] == [
        each.target for each in system.answers(sentences)
    ]


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        (
            TrainSettings(augmentation=AugmentationSettings()),
            "samples teach a fallback; name one as 'seq2seq'",
        ),
        (TrainSettings(model=None), "neither 'model' nor 'seq2seq' is set"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(
    settings: TrainSettings, complaint: str
) -> None:
    with pytest.raises(SettingsError, match=complaint):
        nqg.train(PAIRS, settings=settings)


def test_a_model_is_gone_on_from_and_its_rules_are_known(tmp_path: Path) -> None:
    nqg.train(PAIRS[:8], settings=BRIEF, device="cpu").save(tmp_path / "old")
    notes: list[str] = []
    parser = nqg.train(
        PAIRS,
        start_from=tmp_path / "old",
        device="cpu",
        listener=lambda event: (
            notes.append(event.text) if isinstance(event, Notice) else None
        ),
    )
    assert any(
        "its rules derive 8 of 10 examples" in note or "its rules derive" in note
        for note in notes
    )
    assert parser.parse("turn off the oven").target == "turn_off(oven)"
    with pytest.raises(NqgError, match="omit 'grammar' or 'start_from'"):
        nqg.train(
            PAIRS, start_from=tmp_path / "old", grammar=Grammar.parse("walk ### W")
        )


def test_types_that_are_given_keep_illegal_programs_out(tmp_path: Path) -> None:
    (tmp_path / "mine.grammar").write_text(
        "<program> ::= turn_on ( <name> )\n<name> ::= <.>\n"
    )
    strict = changed_settings(BRIEF, [f"types.target_grammar={tmp_path}/mine.grammar"])
    with pytest.raises(NqgError, match="5 of 10 programs are rejected"):
        nqg.train(PAIRS, settings=strict)
    lenient = changed_settings(strict, ["types.skip_illegal=true"])
    parser = nqg.train(PAIRS, settings=lenient, device="cpu")
    assert not parser.parse("turn off the fan")
    assert TypeSettings().target_grammar == "auto"
