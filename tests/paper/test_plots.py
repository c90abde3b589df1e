"""`nqg plot`: what a file holds decides what is drawn; the same contents are the same bytes."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import matplotlib
import pytest

from nqg.data.dataset import Split
from nqg.data.example import Example
from nqg.errors import FormatError, MissingExtra, NqgError
from nqg.evaluation.error_analysis import Cause
from nqg.induction.induce import Induction
from nqg.induction.search_log import StepRecord
from nqg.induction.settings import InductionSettings
from nqg.paper.plots import (
    CAUSE_COLOURS,
    SPLIT_MEASURES,
    Draw,
    drawing,
    drawn,
    running_means,
)
from nqg.paper.records import Cell, Record, write_record
from nqg.splits.audit import audits
from nqg.splits.compounds import load_language
from nqg.training.records import DevScores, TrainingStep
from typed_commands import typed

STEPS = [
    TrainingStep(1, 2.0, 1e-4),
    TrainingStep(2, 1.0, 2e-4, DevScores(0.25, 1.5)),
    TrainingStep(3, 0.5, 1e-4, DevScores(0.75, None)),
]
EVALUATION = {
    "metric": "exact",
    "systems": {},
    "asked": {"grammar": 3, "t5": 2},
    "causes": [
        {"by": "grammar", "cause": "unknown_word", "errors": 1, "holds_for": 1},
        {"by": "t5", "cause": "rare_atom", "errors": 2, "holds_for": 2},
    ],
}
RELIABILITY = [
    {"confidence": 0.25, "answers": 40, "precision": 0.5},
    {"confidence": 0.75, "answers": 60, "precision": 1.0},
]


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(
        matplotlib.rcParams, "svg.fonttype", "none"
    )  # so that words can be found


def svg(draw: Draw) -> str:
    return drawn(draw, "svg").decode()


def written(name: str, *records: object) -> Path:
    path = Path(name)
    path.write_text("".join(f"{json.dumps(record)}\n" for record in records))
    return path


def training(steps: list[TrainingStep]) -> Path:
    return written("training.jsonl", *(step.to_dict() for step in steps))


def search_log() -> tuple[Path, list[StepRecord]]:
    words = ("jump", "run", "walk", "look")
    examples = [Example(word, word.upper()) for word in words]
    examples += [
        Example(f"{word} twice", f"{word.upper()} {word.upper()}") for word in words
    ]
    induction = Induction(
        examples, InductionSettings(repeated_targets=True, factoring=True)
    )
    log = [StepRecord.of_beginning(induction)]
    log += [
        StepRecord.of_step(number, step, 0.5)
        for number, step in enumerate(induction.steps(), start=1)
    ]
    path = Path("steps.jsonl")
    path.write_text("".join(record.line() for record in log))
    return path, log


def splits() -> Path:
    examples = [
        Example("a " * number, f"f ( {number % 3} )") for number in range(1, 13)
    ]
    parts = {
        "halves": Split(tuple(range(6)), tuple(range(6, 12))),
        "thirds": Split((0, 3), (1, 4), (2, 5)),
    }
    measured = audits(examples, parts, load_language("brackets"))
    return written("splits.json", [each.to_dict() for each in measured])


def results() -> Path:
    for seed, accuracy in ((0, 0.43), (1, 0.45)):
        cell = Cell("geoquery-tmcd", "nqg", "mpnet", seed)
        write_record(
            Path("results"), Record(cell, {"accuracy": accuracy}, "bert", "f", "d")
        )
    return Path("results")


@pytest.mark.parametrize(
    ("name", "begin"), [("steps.png", b"\x89PNG"), ("steps.svg", b"<?xml")]
)
def test_the_name_of_the_picture_says_its_format(name: str, begin: bytes) -> None:
    done = typed("plot", str(training(STEPS)), "-o", name)
    assert done.stderr == f"wrote {name}\n"
    assert Path(name).read_bytes().startswith(begin)


@pytest.mark.parametrize(
    "make", [lambda: training(STEPS), lambda: search_log()[0], splits, results]
)
def test_the_same_file_is_the_same_picture(make: object) -> None:
    path = make()  # type: ignore[operator]
    assert svg(drawing(path)) == svg(drawing(path))


def test_a_training_has_a_panel_of_accuracy_only_where_dev_examples_were_tried() -> (
    None
):
    assert svg(drawing(training(STEPS))).count('id="axes_') == 2
    assert svg(drawing(training(STEPS[:1]))).count('id="axes_') == 1


def test_a_model_folder_draws_its_training() -> None:
    Path("model").mkdir()
    training(STEPS).rename("model/training.jsonl")
    assert (
        "3 steps, loss 0.5000 in the last; at best 75.0% of the dev examples right"
        in svg(drawing(Path("model")))
    )


@pytest.mark.parametrize("window", [1, 2, 3, 9])
def test_running_means_end_with_the_mean_of_the_last_values(window: int) -> None:
    values = [5.0, 1.0, 3.0, 7.0]
    last = values[-window:]
    assert running_means(values, window)[-1] == pytest.approx(sum(last) / len(last))
    assert running_means(values, window)[0] == 5.0


def test_a_search_names_the_parts_of_its_objective_and_its_end() -> None:
    path, log = search_log()
    text = svg(drawing(path))
    for label in ("total", "grammar", "data", "description length, bits", "rules"):
        assert f">{label}<" in text
    assert (
        f"{log[-1].rules} rules, {log[-1].length.total:,.0f} bits after {log[-1].step} steps"
        in text
    )


def test_splits_have_a_panel_for_every_measure_and_the_lengths_of_every_split() -> None:
    text = svg(drawing(splits()))
    assert all(title in text for title in SPLIT_MEASURES)
    for name in ("halves", "thirds"):
        assert f"{name}: source length, share of examples" in text
        assert f"{name}: target length, share of examples" in text
    assert (
        text.count(">dev<") == 2
    )  # in the legends of the one split that has a dev part


def test_an_evaluation_has_a_bar_for_every_system_and_names_the_causes_that_there_are() -> (
    None
):
    text = svg(drawing(written("evaluation.json", EVALUATION)))
    for label in ("grammar (3)", "t5 (2)"):
        assert f">{label}<" in text
    assert {cause for cause in Cause if f">{cause}<" in text} == {
        Cause.UNKNOWN_WORD,
        Cause.RARE_ATOM,
    }
    assert "confidence" not in text


def test_an_evaluation_with_confidence_shows_how_often_answers_are_right() -> None:
    text = svg(
        drawing(written("evaluation.json", EVALUATION | {"reliability": RELIABILITY}))
    )
    assert ">confidence<" in text
    assert ">60<" in text
    assert text.count('id="axes_') == 2


def test_every_cause_has_a_colour_of_its_own() -> None:
    assert list(CAUSE_COLOURS) == list(Cause)
    assert len(set(CAUSE_COLOURS.values())) == len(Cause)


def test_results_are_drawn_beside_the_papers() -> None:
    folder = results()
    text = svg(drawing(folder))
    assert ">NQG (mpnet)<" in text
    assert ">44.0<" in text
    assert svg(drawing(folder / "records.jsonl")) == text


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("a.json", {"cake": 1}),
        ("a.json", []),
        ("a.json", [3]),
        ("a.jsonl", {"cake": 1}),
        ("a.json", [{"compound_divergence": 0.5}]),
        ("a.json", EVALUATION | {"causes": [{"by": "nobody"}]}),
        ("a.json", {"reliability": [3]}),
    ],
)
def test_another_file_is_refused_with_what_is_expected(
    name: str, value: object
) -> None:
    with pytest.raises(
        FormatError,
        match=r"a\.jsonl?: expected a model folder or its training\.jsonl, a log",
    ):
        svg(drawing(written(name, value)))


def test_an_absent_file_is_named() -> None:
    with pytest.raises(NqgError, match=r"none\.json"):
        drawing(Path("none.json"))


def test_another_format_is_refused_before_anything_is_read() -> None:
    with pytest.raises(
        NqgError, match=r"a\.gif: a plot is written as \.png or \.svg, found '\.gif'"
    ):
        typed("plot", "none.json", "-o", "a.gif")


def test_without_matplotlib_the_error_says_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(
        MissingExtra,
        match=r"drawing a plot needs the extra 'paper'",
    ):
        typed("plot", str(training(STEPS)), "-o", "a.png")
    assert not Path("a.png").exists()
