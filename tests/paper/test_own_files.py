"""`nqg reproduce` on files of one's own: the systems of the paper, and ours, on any data and any split."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from nqg.cli.main import app
from nqg.data.dataset import Split, write_split
from nqg.errors import FormatError, UnknownName
from nqg.paper.recipe import read_recipe
from nqg.paper.systems import RecipeData
from nqg.seq2seq.settings import FineTuningSettings
from typed_commands import one_thread

NAMES = ("lamp", "radio", "heater", "fan", "oven")
PAIRS = [
    (f"Turn {state} the {name}!", f"turn_{state}({name})")
    for state in ("on", "off")
    for name in NAMES
]
RECIPE = """
dataset = "all.tsv"
split = "split.json"
systems = ["nqg", "inferred", "cgps", "taught", "hybrid"]
[nqg]
steps = 20
[seq2seq]
steps = 2
batch_size = 4
[taught]
steps = 2
batch_size = 4
[teaching]
samples = 10
rounds = 1
reverse_steps = 2
programs = 4
"""


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    lines = [f"{sentence}\t{program}\n" for sentence, program in PAIRS]
    Path("all.tsv").write_text("".join(lines))
    Path("train.tsv").write_text("".join(lines[:-2]))
    Path("test.tsv").write_text("".join(lines[-2:]))
    write_split(Path("split.json"), Split(train=tuple(range(8)), test=(8, 9)))
    Path("mine.toml").write_text(RECIPE)


def test_every_system_runs_on_a_file_and_a_split_of_ones_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from nqg.paper import baselines, systems

    brief = baselines.Baseline(
        baselines.TwoStreamSettings(semantic=4, syntactic=4, units=4),
        FineTuningSettings(2, 4, optimizer="adamw", precision="float32"),
    )
    monkeypatch.setattr(systems, "BASELINES", {"cgps": brief})
    with one_thread():
        done = CliRunner().invoke(
            app, ["reproduce", "mine.toml", "--device", "cpu", "--json"]
        )
    assert done.exit_code == 0, done.output
    records = {record["cell"]["system"]: record for record in json.loads(done.stdout)}
    assert list(records) == ["nqg", "inferred", "cgps", "taught", "hybrid"]
    for record in records.values():
        assert record["figures"]["test_examples"] == 2
        assert record["cell"]["recipe"] == "mine"
    assert records["inferred"]["figures"]["accuracy"] == 1.0
    assert records["taught"]["figures"]["samples"] > 0


def test_a_file_of_test_examples_is_a_split_too() -> None:
    split = RecipeData.load(read_recipe("mine.toml"))
    tested = RecipeData.load(
        read_recipe("mine.toml", ["dataset=train.tsv", "split=test.tsv"])
    )
    assert (split.train, split.test) == (tested.train, tested.test)
    assert split.test[0].source_tokens == ("turn", "off", "the", "fan")
    assert split.fingerprint == tested.fingerprint


def test_a_grammar_of_legal_programs_makes_the_parser_typed() -> None:
    Path("mine.grammar").write_text(
        "<program> ::= turn_on ( <thing> )\n<thing> ::= lamp\n"
    )
    grammar = RecipeData.load(
        read_recipe("mine.toml", ["target_grammar=mine.grammar"])
    ).target_grammar
    assert grammar is not None
    assert grammar.accepts(("turn_on", "(", "lamp", ")"))
    assert not grammar.accepts(("turn_off", "(", "lamp", ")"))


def test_data_that_is_neither_known_nor_a_file_is_refused() -> None:
    with pytest.raises(UnknownName, match=r"no dataset 'none\.tsv'"):
        RecipeData.load(read_recipe("mine.toml", ["dataset=none.tsv"]))
    with pytest.raises(FormatError, match="position 9 lies outside"):
        RecipeData.load(read_recipe("mine.toml", ["dataset=train.tsv"]))
