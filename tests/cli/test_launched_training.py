"""`accelerate launch … nqg train …`: two processes make the model that one makes, to rounding."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from typer.testing import CliRunner

from nqg import load_dataset
from nqg.cli.main import app
from nqg.data.example_files import write_examples
from nqg.model.encoder import new_encoder
from nqg.model.settings import EncoderSettings, ModelSettings

RULES = "NT_1 twice ### NT_1 NT_1\nwalk ### I_WALK\nlook ### I_LOOK\nrun ### I_RUN\njump ### I_JUMP\nwalk ### I_RUN\n"
LAUNCH = "--multi_gpu --num_processes 2 --num_machines 1 --mixed_precision no --dynamo_backend no --main_process_port 0"
TRAIN = """
    train train.tsv --grammar rules.txt --encoder ./calm --steps 8 --batch-size 5 --learning-rate 0.003 --warm-up 2
    --dev train.tsv --evaluate-every 3 --save-every 3 --device cpu --json -o
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A tiny corpus, and an encoder without dropout, which every process would draw on its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NQG_DATA_CACHE", "cache")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    examples = [example for example in load_dataset("scan").examples if len(example.source_tokens) <= 2][:12]
    write_examples(tmp_path / "train.tsv", examples)
    (tmp_path / "rules.txt").write_text(RULES)
    torch.manual_seed(0)
    tiny = ModelSettings(embedded=EncoderSettings(hidden_size=8, layers=1, heads=2, longest=16))
    encoder, tokenizer = new_encoder(tiny, [example.source_tokens for example in examples])
    encoder.config.hidden_dropout_prob = encoder.config.attention_probs_dropout_prob = 0.0
    for part in (encoder, tokenizer):
        part.save_pretrained(tmp_path / "calm")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield tmp_path
    torch.set_num_threads(threads)


def launched(*words: str) -> str:
    """What two processes print together."""
    nqg = str(Path(sys.executable).with_name("nqg"))
    launch = (sys.executable, "-m", "accelerate.commands.launch", *LAUNCH.split(), "--no_python", nqg)
    done = subprocess.run((*launch, *words), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_two_processes_make_the_steps_and_the_weights_of_one(folder: Path) -> None:
    alone = json.loads(CliRunner().invoke(app, [*TRAIN.split(), "alone"]).stdout)
    together = json.loads(launched(*TRAIN.split(), "together"))  # which only one of the two may have printed
    assert together == {**alone, "loss": pytest.approx(alone["loss"], rel=1e-5), "folder": "together"}
    one, two = (
        [json.loads(line) for line in (folder / name / "training.jsonl").read_text().splitlines()]
        for name in ("alone", "together")
    )
    assert [line["step"] for line in two] == list(range(1, 9))
    assert [sorted(line) for line in two] == [sorted(line) for line in one]
    for ours, theirs in zip(two, one, strict=True):
        assert ours == pytest.approx(theirs, rel=1e-5)
    single, double = (load_file(folder / name / "model.safetensors") for name in ("alone", "together"))
    for name, tensor in single.items():
        torch.testing.assert_close(double[name], tensor, rtol=1e-4, atol=1e-5)
    assert not (folder / "together.training").exists()
