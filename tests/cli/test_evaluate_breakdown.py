"""`nqg evaluate --breakdown`, as a user types it: why predictions are wrong or missing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import Result

from nqg import Example, Grammar
from nqg.data.example_files import write_examples
from nqg.model.settings import EncoderSettings, ModelSettings, TrainingSettings
from nqg.pipeline.parser import fit_parser
from typed_commands import one_thread, typed

GRAMMAR = Grammar.parse("walk ### W\njump ### J\nNT_1 twice ### NT_1 NT_1")
TRAIN = [Example("walk twice", "W W"), Example("jump", "J")]
TEST = [
    Example("jump twice", "J J"),
    Example("swim", "S"),
    Example("walk jump", "W J"),
    Example("walk", "X"),
]
MODEL = ModelSettings(
    dimension=8, embedded=EncoderSettings(hidden_size=8, layers=1, heads=2, longest=16)
)


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("COLUMNS", "240")
    monkeypatch.chdir(tmp_path)
    write_examples("train.tsv", TRAIN)
    write_examples("test.tsv", TEST)
    write_examples("fallback.tsv", [Example(each.source, "W W") for each in TEST])
    with one_thread():
        yield


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    training = TrainingSettings(steps=2, batch_size=2, warm_up=1)
    folder = tmp_path_factory.mktemp("models") / "mine"
    fit_parser(GRAMMAR, TRAIN, model=MODEL, training=training, device="cpu").save(
        folder
    )
    return str(folder)


def nqg(*words: str) -> Result:
    return typed("evaluate", *words)


def test_the_causes_stand_below_the_scores(model: str) -> None:
    shown = nqg(model, "test.tsv", "--breakdown").stdout
    lines = [line.split("  ")[0].strip() for line in shown.splitlines()]
    assert lines[0] == "4 examples"
    assert "no derivation: a word that no rule knows" in shown
    assert "swim: no rule knows 'swim'" in shown
    assert "walk: symbol 1 is 'W', expected 'X'" in shown
    assert shown.endswith(
        "the grammar lacks most often (sentences): NT_1 NT_2 (1), swim (1)\n"
    )


def test_without_the_question_there_is_no_answer(model: str) -> None:
    assert "no rule knows" not in nqg(model, "test.tsv").stdout


def test_json_has_the_causes_too(model: str) -> None:
    found = json.loads(nqg(model, "test.tsv", "--breakdown", "--json").stdout)
    assert found["causes"] == [
        {"by": "grammar", "cause": "gold_not_derivable", "errors": 1, "holds_for": 1},
        {"by": "grammar", "cause": "unknown_construction", "errors": 1, "holds_for": 1},
        {"by": "grammar", "cause": "unknown_word", "errors": 1, "holds_for": 1},
    ]
    assert found["lacks"] == {"NT_1 NT_2": 1, "swim": 1}


def test_errors_are_written_and_the_file_is_named(model: str) -> None:
    result = nqg(
        model, "test.tsv", "--breakdown", "--write-predictions", "errors.jsonl"
    )
    assert result.stderr == "wrote errors.jsonl\n"
    records = [
        json.loads(line) for line in Path("errors.jsonl").read_text().splitlines()
    ]
    wrong = [record for record in records if not record["right"]]
    assert [record["source"] for record in wrong] == ["swim", "walk jump", "walk"]
    assert all("cause" in record for record in wrong)
    assert not any("cause" in record for record in records if record["right"])


def test_the_errors_of_a_fallback_are_explained_by_its_training(model: str) -> None:
    shown = nqg(
        model,
        "test.tsv",
        "--breakdown",
        "--fallback",
        "fallback.tsv",
        "--data",
        "train.tsv",
    ).stdout
    assert (
        "swim: symbol 1 is 'W', expected 'S'; training lacks S; training never has 'S' there"
        in shown
    )


def test_predictions_of_another_system_need_no_model() -> None:
    words = [
        "test.tsv",
        "--score",
        "fallback.tsv",
        "--data",
        "train.tsv",
        "--breakdown",
    ]
    shown = nqg(*words).stdout
    assert "fallback.tsv" in shown
    assert "no derivation" not in shown


def test_without_training_examples_a_fallback_cannot_be_explained(model: str) -> None:
    result = nqg(model, "test.tsv", "--fallback", "fallback.tsv", "--breakdown")
    assert result.exit_code == 2
    assert "name the training examples" in result.stderr


def test_a_faultless_system_has_no_causes(model: str) -> None:
    write_examples("easy.tsv", TEST[:1])
    assert nqg(model, "easy.tsv", "--breakdown").stdout.endswith(
        "no prediction is wrong or missing\n"
    )
