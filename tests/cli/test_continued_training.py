"""`nqg train --from MODEL`: more examples than a model was trained on, from its rules and with its settings."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from nqg import Example, Parser
from nqg.data.example_files import write_examples
from nqg.errors import NqgError
from nqg.induction.induce import Induction, InductionStep
from nqg.paper import load_dataset
from training_command import files, nqg
from typed_commands import one_thread

BRIEF = ("--set", "confidence.folds=0", "--device", "cpu")
NEW = ("around", "jump")


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    with one_thread():
        yield


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> list[InductionStep]:
    """Every step of searches for rules from now on, those of trials included."""
    made: list[InductionStep] = []
    steps = Induction.steps

    def noted(induction: Induction) -> Iterator[InductionStep]:
        for step in steps(induction):
            made.append(step)
            yield step

    monkeypatch.setattr(Induction, "steps", noted)
    return made


def commands() -> tuple[list[Example], list[Example]]:
    """Fifty SCAN commands, and ten with words that none of them has."""
    short = [
        each for each in load_dataset("scan").examples if len(each.source_tokens) <= 4
    ]
    new = [each for each in short if {*NEW}.intersection(each.source_tokens)]
    old = [each for each in short if each not in new]
    return random.Random(1).sample(old, 50), random.Random(1).sample(new, 10)


def test_what_is_new_is_learned_and_nothing_forgotten_with_less_work(
    work: list[InductionStep],
) -> None:
    old, new = commands()
    write_examples(Path("old.tsv"), old)
    write_examples(Path("all.tsv"), [*old, *new])
    nqg("old.tsv", "-o", "old", *BRIEF, "--steps", "4")
    assert (
        sum(
            answer.target is None
            for answer in Parser.load("old", "cpu").answers(each.source for each in new)
        )
        > 5
    )
    before = len(work)
    again = nqg("all.tsv", "-o", "again", "--from", "old", *BRIEF, "--steps", "100")
    again_work, before = len(work) - before, len(work)
    assert "old: its rules derive 50 of 60 examples" in again.stderr
    nqg("all.tsv", "-o", "anew", *BRIEF, "--steps", "4")
    anew_work = len(work) - before
    answers = list(
        Parser.load("again", "cpu").answers(each.source for each in [*old, *new])
    )
    assert [answer.target for answer in answers] == [
        each.target for each in [*old, *new]
    ]
    assert 0 < 4 * again_work < anew_work
    settings = [
        json.loads(Path(name, "nqg.json").read_text())["provenance"]["induction"]
        for name in ("old", "again")
    ]
    assert settings[0] == settings[1]


RAW = """\
Wake me at 7:30!	alarm(time="7:30")
Wake me at six, please	alarm(time="6:00")
Dim the hall to 40 %	dim(room="hall", percent=40)
Dim the kitchen to 15 %	dim(room="kitchen", percent=15)
Dim the hall to 20 percent	dim(room="hall", percent=20)
Wake me at 8 pm	alarm(time="20:00")
"""
MORE = """\
Heat the hall to 21 degrees	heat(room="hall", degrees=21)
Heat the kitchen to 19 degrees	heat(room="kitchen", degrees=19)
"""


def test_slots_types_settings_and_rules_by_hand_are_those_of_the_model() -> None:
    Path("old.tsv").write_text(RAW)
    Path("all.tsv").write_text(RAW + MORE)
    Path("rules.txt").write_text('good night ### dim(room="hall", percent=0)\n')
    nqg(
        "old.tsv",
        "-o",
        "old",
        *BRIEF,
        "--rules",
        "rules.txt",
        "--steps",
        "60",
        "--set",
        "training.learning_rate=0.002",
    )
    nqg("all.tsv", "-o", "again", "--from", "old", *BRIEF, "--steps", "80")
    parser = Parser.load("again", "cpu")
    asked = [
        "heat the kitchen to 23 degrees",
        "wake me at 9:15",
        "dim the kitchen to 99 %",
        "good night",
    ]
    expected = [
        'heat(room="kitchen", degrees=23)',
        'alarm(time="9:15")',
        'dim(room="kitchen", percent=99)',
        'dim(room="hall", percent=0)',
    ]
    assert [parser.parse(sentence).target for sentence in asked] == expected
    made = parser.model.provenance.training
    assert (made["steps"], made["learning_rate"]) == (80, 0.002)
    assert files("again")["text.json"] == files("old")["text.json"]
    assert files("again")["rules.txt"] == files("old")["rules.txt"]
    same = nqg("old.tsv", "-o", "same", "--from", "old", *BRIEF)
    assert "old: its rules derive 6 of 6 examples" in same.stderr
    assert files("same")["target.grammar"] == files("old")["target.grammar"]


@pytest.fixture
def small() -> None:
    Path("old.tsv").write_text(
        "turn on\ton\nturn off\toff\nturn on twice\ton on\nturn off twice\toff off\n"
    )
    nqg("old.tsv", "-o", "old", *BRIEF, "--steps", "5", "--preset", "scan")


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("--from", "nowhere"), "nowhere: no such folder"),
        (
            ("--from", "old", "--preset", "scan"),
            "is for inducing a grammar, which is given here",
        ),
        (
            ("--from", "old", "--grammar", "old/grammar.txt"),
            "omit 'grammar' or 'start_from'",
        ),
        (
            ("--from", "old"),
            "old: its rules derive 0 of 1 example; expected a model of some of these to go on from",
        ),
    ],
    ids=["absent", "preset", "grammar", "other-data"],
)
def test_what_cannot_be_gone_on_from_is_refused(
    words: tuple[str, ...], expected: str
) -> None:
    Path("other.tsv").write_text("guten tag\thallo ( )\n")
    try:
        said = nqg("other.tsv", "-o", "new", "--device", "cpu", *words).stderr
    except NqgError as error:
        said = str(error)
    assert expected in " ".join(said.replace("│", " ").split())
    assert not Path("new").exists()


@pytest.mark.usefixtures("small")
def test_fewer_examples_than_before_are_warned_of() -> None:
    Path("some.tsv").write_text("turn on\ton\nturn off\toff\n")
    result = nqg("some.tsv", "-o", "new", "--from", "old", *BRIEF)
    assert (
        "old was trained on 4 examples, some.tsv has 2; what only the others show is forgotten"
        in result.stderr
    )
