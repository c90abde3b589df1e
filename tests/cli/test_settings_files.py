"""Settings from one file: `nqg induce`, `nqg train`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import Result

from nqg.data.example_files import write_examples
from nqg.errors import FormatError
from nqg.paper import load_dataset
from typed_commands import typed as nqg

EXAMPLES = [
    example
    for example in load_dataset("scan").examples
    if len(example.source_tokens) <= 2
][:12]
SETTINGS = """
[induction]
terminal_bits = 32
repeated_targets = true
[model]
dimension = 8
[model.embedded]
hidden_size = 8
layers = 1
heads = 2
[training]
steps = 3
batch_size = 4
evaluate_every = 2
"""


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_examples(tmp_path / "train.tsv", EXAMPLES)
    (tmp_path / "nqg.toml").write_text(SETTINGS)


def trained(*more: str) -> Result:
    return nqg(
        "train",
        "train.tsv",
        "-o",
        "mine",
        "--settings",
        "nqg.toml",
        "--device",
        "cpu",
        *more,
    )


def test_a_training_follows_its_settings_file_and_options_win() -> None:
    facts = json.loads(trained("--json", "--set", "training.batch_size=5").stdout)
    assert facts["steps"] == 3
    index = json.loads(Path("mine/nqg.json").read_text())
    assert index["provenance"]["training"]["batch_size"] == 5
    assert index["settings"]["dimension"] == 8
    assert (
        "NT_1 twice ### NT_1 NT_1" in Path("mine/grammar.txt").read_text()
    )  # repeated targets


def test_an_option_of_a_search_wins_over_its_settings_file() -> None:
    words = (
        "train.tsv",
        "-o",
        "rules.txt",
        "--settings",
        "nqg.toml",
        "--set",
        "induction.terminal_bits=4",
        "--json",
    )
    settings = json.loads(nqg("induce", *words).stdout)["settings"]
    assert (settings["terminal_bits"], settings["repeated_targets"]) == (4.0, True)


def test_a_mistake_in_the_settings_file_is_named_before_the_work() -> None:
    Path("nqg.toml").write_text("[training]\nstep = 3\n")
    with pytest.raises(
        FormatError,
        match=r"nqg\.toml: no key of \[training\] 'step'; did you mean 'steps'\?",
    ):
        trained()
    assert not Path("mine.training").exists()
