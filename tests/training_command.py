"""What tests of `nqg train` begin with: a folder with short SCAN commands and rules for some of them."""

from __future__ import annotations

from pathlib import Path

from typer.testing import Result

from nqg.paper import load_dataset
from typed_commands import changed, typed

EXAMPLES = [
    example
    for example in load_dataset("scan").examples
    if len(example.source_tokens) <= 3
][:60]
RULES = "NT_1 twice ### NT_1 NT_1\nwalk ### I_WALK\nlook ### I_LOOK\nrun ### I_RUN\njump ### I_JUMP\n"
BRIEF = (
    "--grammar",
    "rules.txt",
    "--steps",
    "7",
    "--set",
    "training.batch_size=8",
    "--set",
    "confidence.folds=0",
    "--device",
    "cpu",
)

TRIALS = (
    *("--dev", "dev.tsv"),
    *changed(
        "training.evaluate_every=2",
        "training.patience=2",
        "training.learning_rate=0.001",
        "training.warm_up=2",
    ),
)


def nqg(*words: str) -> Result:
    return typed("train", *words)


def files(folder: str) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in Path(folder).iterdir()}
