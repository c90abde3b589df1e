"""The commands that are killed: small, but with all that they write."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from faults.kills import Work, without
from nqg.data.example_files import write_examples
from nqg.paper.datasets import load_dataset

MIRROR = Path(
    os.environ.get("NQG_DATA_MIRROR")
    or Path(__file__).resolve().parents[3] / "shared" / "data"
)
RECIPE = """\
dataset = "geoquery"
split = "standard"
systems = ["nqg"]
random_train_size = 40
[induction]
shortest = 20
[nqg]
steps = 6
batch_size = 8
"""


def write_train(folder: Path) -> None:
    """Sixty short examples of SCAN."""
    short = [
        example
        for example in load_dataset("scan").examples
        if len(example.source_tokens) <= 3
    ]
    write_examples(folder / "train.tsv", short[:60])


def write_recipe(folder: Path) -> None:
    """A recipe that learns little from little."""
    (folder / "mine.toml").write_text(RECIPE)


def works(cache: Path) -> Mapping[str, Work]:
    """All commands by name; what they keep for later goes to `cache`."""
    os.environ["NQG_DATA_CACHE"] = str(cache)
    induce = ("induce", "train.tsv", "-o", "grammar.txt", "--preset", "scan")
    prepare = (
        "data",
        "prepare",
        "geoquery",
        "--split",
        "tmcd",
        "--mirror",
        str(MIRROR),
        "-o",
        "geo",
    )
    train = (
        "train",
        "train.tsv",
        "-o",
        "model",
        "--preset",
        "scan",
        "--device",
        "cpu",
        "--set",
        "training.batch_size=8",
    )
    reproduce = ("reproduce", "mine.toml", "--mirror", str(MIRROR), "--device", "cpu")
    split = (
        "split",
        "tmcd",
        "train.tsv",
        "-o",
        "parts",
        "--set",
        "moves=2000",
        "--dev-size",
        "5",
    )
    return {
        "induce": Work(induce, write_train),
        "split": Work(split, write_train),
        "prepare": Work(prepare, lambda folder: None),
        "train": Work(
            (
                *train,
                "--steps",
                "6",
                "--set",
                "run.save_every=1",
                "--set",
                "confidence.folds=2",
            ),
            write_train,
        ),
        "reproduce": Work(
            reproduce, write_recipe, compared=without("seconds", "date", "commit")
        ),
    }
