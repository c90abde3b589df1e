"""`accelerate launch … nqg train …`: two processes make the model that one makes, to rounding."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from typer.testing import CliRunner

from encoders import save_bert
from launched_processes import launched
from nqg.cli.main import app
from nqg.data.example_files import write_examples
from nqg.paper import load_dataset
from typed_commands import one_thread

RULES = "NT_1 twice ### NT_1 NT_1\nwalk ### I_WALK\nlook ### I_LOOK\nrun ### I_RUN\njump ### I_JUMP\nwalk ### I_RUN\n"
TRAIN = """
    train train.tsv --grammar rules.txt --encoder ./calm --steps 8 --dev train.tsv
    --set training.batch_size=5 --set training.learning_rate=0.003 --set training.warm_up=2
    --set training.evaluate_every=3 --set run.save_every=3 --device cpu --json -o
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A tiny corpus, and an encoder without dropout, which every process would draw on its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NQG_DATA_CACHE", "cache")
    examples = [
        example
        for example in load_dataset("scan").examples
        if len(example.source_tokens) <= 2
    ][:12]
    write_examples(tmp_path / "train.tsv", examples)
    (tmp_path / "rules.txt").write_text(RULES)
    torch.manual_seed(0)
    sources = [example.source_tokens for example in examples]
    save_bert(
        tmp_path / "calm",
        sources,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    with one_thread():
        yield tmp_path


def launched_nqg(*words: str) -> str:
    """What two processes print together."""
    done = launched("--no_python", str(Path(sys.executable).with_name("nqg")), *words)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_two_processes_make_the_steps_and_the_weights_of_one(folder: Path) -> None:
    alone = json.loads(CliRunner().invoke(app, [*TRAIN.split(), "alone"]).stdout)
    together = json.loads(
        launched_nqg(*TRAIN.split(), "together")
    )  # which only one of the two may have printed
    assert together == {
        **alone,
        "loss": pytest.approx(alone["loss"], rel=1e-5),
        "folder": "together",
    }
    one, two = (
        [
            json.loads(line)
            for line in (folder / name / "training.jsonl").read_text().splitlines()
        ]
        for name in ("alone", "together")
    )
    assert [line["step"] for line in two] == list(range(1, 9))
    assert [sorted(line) for line in two] == [sorted(line) for line in one]
    for ours, theirs in zip(two, one, strict=True):
        assert ours == pytest.approx(theirs, rel=1e-5)
    single, double = (
        load_file(folder / name / "model.safetensors") for name in ("alone", "together")
    )
    for name, tensor in single.items():
        torch.testing.assert_close(double[name], tensor, rtol=1e-4, atol=1e-5)
    assert not (folder / "together.training").exists()
