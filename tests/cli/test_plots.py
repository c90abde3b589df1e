"""Pictures by one flag, and settings from one file: `nqg induce`, `nqg train`, `nqg inspect`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import Result

from nqg import load_dataset
from nqg.data.examples import write_examples
from nqg.errors import FormatError, NqgError
from typed_commands import typed as nqg

EXAMPLES = [example for example in load_dataset("scan").examples if len(example.source_tokens) <= 2][:12]
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
    return nqg("train", "train.tsv", "-o", "mine", "--settings", "nqg.toml", "--device", "cpu", "--no-cache", *more)


def test_a_training_follows_its_settings_file_and_options_win() -> None:
    facts = json.loads(trained("--json", "--batch-size", "5").stdout)
    assert facts["steps"] == 3
    index = json.loads(Path("mine/nqg.json").read_text())
    assert index["provenance"]["training"]["batch_size"] == 5
    assert index["settings"]["dimension"] == 8
    assert "NT_1 twice ### NT_1 NT_1" in Path("mine/grammar.txt").read_text()  # repeated targets


def test_a_training_and_its_model_folder_draw_the_same_picture() -> None:
    result = trained("--dev", "train.tsv", "--plot", "one.svg")
    assert result.stderr.endswith("wrote mine\nwrote one.svg\n")
    shown = nqg("inspect", "mine", "--plot", "two.svg")
    assert shown.stderr == "wrote two.svg\n"
    assert Path("one.svg").read_bytes() == Path("two.svg").read_bytes()
    assert " rules: " in shown.stdout


def test_a_search_draws_itself_as_its_trace_does() -> None:
    words = ("train.tsv", "-o", "rules.txt", "--settings", "nqg.toml", "--trace", "steps.jsonl", "--plot", "one.svg")
    assert nqg("induce", *words).stderr == "wrote rules.txt\nwrote steps.jsonl\nwrote one.svg\n"
    assert '"terminal_bits": 32.0' in Path("steps.jsonl").read_text()
    nqg("inspect", "rules.txt", "--trace", "steps.jsonl", "--plot", "two.svg")
    assert Path("one.svg").read_bytes() == Path("two.svg").read_bytes()


def test_an_option_of_a_search_wins_over_its_settings_file() -> None:
    words = ("train.tsv", "-o", "rules.txt", "--settings", "nqg.toml", "--terminal-bits", "4", "--json")
    settings = json.loads(nqg("induce", *words).stdout)["settings"]
    assert (settings["terminal_bits"], settings["repeated_targets"]) == (4.0, True)


@pytest.mark.parametrize("words", [("train", "train.tsv", "-o", "mine"), ("induce", "train.tsv", "-o", "rules.txt")])
def test_a_picture_that_cannot_be_written_is_refused_before_the_work(words: tuple[str, ...]) -> None:
    with pytest.raises(NqgError, match=r"steps\.gif: a plot is written as \.png or \.svg"):
        nqg(*words, "--plot", "steps.gif")
    assert sorted(path.name for path in Path.cwd().iterdir()) == ["nqg.toml", "train.tsv"]


def test_a_mistake_in_the_settings_file_is_named_before_the_work() -> None:
    Path("nqg.toml").write_text("[training]\nstep = 3\n")
    with pytest.raises(FormatError, match=r"nqg\.toml: no key of \[training\] 'step'; did you mean 'steps'\?"):
        trained()
    assert not Path("mine.training").exists()
