import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from nqg.answers import Answer
from nqg.cli.main import app
from nqg.errors import FormatError, NqgError, UnknownName
from nqg.paper import runner as reproduce
from nqg.paper.records import records
from nqg.paper.systems import RunResult, SystemTask

runner = CliRunner()


def right(task: SystemTask) -> RunResult:
    """A system that looks its answers up in the test set."""
    answers = tuple(
        Answer(example.source, example.target, 1.0, "grammar")
        for example in task.data.test
    )
    return RunResult(
        answers,
        {"rules": 20.0, "train_examples": float(len(task.data.train))},
        {},
        {"training": 0.1},
    )


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(reproduce, "RUNS", {"nqg": right, "seq2seq": right})
    monkeypatch.setattr("nqg.paper.recipe.is_available", lambda name: False)
    return tmp_path / "results"


def test_a_recipe_is_run_and_its_figures_stand_beside_the_papers(results: Path) -> None:
    done = runner.invoke(
        app, ["reproduce", "scan-length", "--results", str(results), "--seeds", "2"]
    )
    assert done.exit_code == 0, done.output
    assert "NQG (embedded)" in done.stdout
    assert "100.0 ± 0.0" in done.stdout
    assert "paper: T5-Base" in done.stdout
    assert "14.4" in done.stdout
    written = [record.cell.key for record in records(results)]
    assert written == [
        ("scan-length", "nqg-embedded-0"),
        ("scan-length", "nqg-embedded-1"),
    ]


def test_runs_that_were_stored_are_said_not_to_be_run_again(results: Path) -> None:
    command = ["reproduce", "scan-length", "--results", str(results)]
    first = runner.invoke(app, command)
    assert "not run again" not in first.stderr
    again = runner.invoke(app, command)
    words = " ".join(again.stderr.split())
    assert "scan-length: 1 run stored in" in words
    assert "not run again" in words


def test_runs_of_a_recipe_on_other_examples_are_warned_of(
    results: Path, tmp_path: Path
) -> None:
    pairs = [f"walk {number}\tWALK {number}\n" for number in range(8)]
    recipe = tmp_path / "mine.toml"
    (tmp_path / "test.tsv").write_text("".join(pairs[6:]))
    recipe.write_text(
        f'dataset = "{tmp_path}/train.tsv"\nsplit = "{tmp_path}/test.tsv"\n'
    )
    command = ["reproduce", str(recipe), "--results", str(results), "--systems"]
    (tmp_path / "train.tsv").write_text("".join(pairs[:6]))
    done = runner.invoke(app, [*command, "seq2seq"])
    assert done.exit_code == 0, done.output
    assert "warning" not in done.stderr
    # The same name, but other examples.
    (tmp_path / "train.tsv").write_text("".join(pairs[:5]))
    done = runner.invoke(app, [*command, "nqg"])
    words = " ".join(done.stderr.split())
    assert "has runs of mine on other examples (seq2seq)" in words
    report = runner.invoke(app, ["report", str(results), "--json"])
    assert "on 2 different sets of examples, and do not compare" in report.stdout


def test_a_stand_in_is_said_to_be_one(results: Path) -> None:
    done = runner.invoke(app, ["reproduce", "scan-length", "--results", str(results)])
    assert (
        "nqg: embedded stands in for google/bert_uncased_L-2_H-128_A-2"
        in done.stderr.replace("\n", " ")
    )


def test_records_are_printed_as_json_and_systems_can_be_chosen(results: Path) -> None:
    asked = [
        "reproduce",
        "scan-length",
        "--results",
        str(results),
        "--systems",
        "hybrid,nqg",
        "--json",
    ]
    done = runner.invoke(app, asked)
    records = json.loads(done.stdout)
    assert [record["cell"]["system"] for record in records] == ["nqg", "hybrid"]
    assert records[1]["figures"]["accuracy"] == 1.0


def test_the_recipes_are_listed() -> None:
    done = runner.invoke(app, ["reproduce"])
    assert done.stdout.splitlines()[0] == "cogs-gen"
    assert "spider-xsp" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["scan-lenght"], "did you mean 'scan-length'"),
        (["scan-length", "--systems", "t5"], "no system 't5'"),
    ],
)
def test_a_name_that_is_not_known_is_refused_with_the_nearest(
    arguments: list[str], complaint: str
) -> None:
    done = runner.invoke(app, ["reproduce", *arguments])
    assert isinstance(done.exception, UnknownName)
    assert complaint in str(done.exception)


def test_a_setting_that_does_not_exist_is_refused_before_anything_is_run(
    tmp_path: Path,
) -> None:
    recipe = tmp_path / "mine.toml"
    recipe.write_text('dataset = "scan"\nsplit = "length"\n[nqg]\nsteeps = 3\n')
    done = runner.invoke(
        app, ["reproduce", str(recipe), "--results", str(tmp_path), "--systems", "nqg"]
    )
    assert isinstance(done.exception, FormatError | NqgError)
    assert "steeps" in str(done.exception)


def test_records_become_the_papers_tables(results: Path, tmp_path: Path) -> None:
    runner.invoke(app, ["reproduce", "scan-length", "--results", str(results)])
    done = runner.invoke(app, ["report", str(results)])
    assert done.exit_code == 0, done.output
    assert "Table 2: Accuracy on SCAN and GeoQuery" in done.stdout
    assert "For google/bert_uncased_L-2_H-128_A-2: embedded." in done.stdout
    facts = json.loads(runner.invoke(app, ["report", str(results), "--json"]).stdout)
    assert facts[0]["title"].startswith("Accuracy on SCAN and GeoQuery")
    files = [tmp_path / name for name in ("t.md", "t.png")]
    options = ["-o", str(files[0]), "-o", str(files[1])]
    assert runner.invoke(app, ["report", str(results), *options]).exit_code == 0
    assert "| NQG (embedded) | 100.0 |" in files[0].read_text()
    assert files[1].read_bytes().startswith(b"\x89PNG")


def test_a_folder_without_records_is_an_error_with_the_next_step(
    tmp_path: Path,
) -> None:
    done = runner.invoke(app, ["report", str(tmp_path)])
    assert isinstance(done.exception, NqgError)
    assert "writes records there" in str(done.exception)
