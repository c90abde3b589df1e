"""The commands that are killed: small, but with all that they write."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from faults.kills import Words, Work, without
from nqg.data.catalogue import load_dataset
from nqg.data.examples import write_examples

MIRROR = Path(os.environ.get("NQG_DATA_MIRROR") or Path(__file__).resolve().parents[3] / "shared" / "data")
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
    short = [example for example in load_dataset("scan").examples if len(example.source_tokens) <= 3]
    write_examples(folder / "train.tsv", short[:60])


def write_recipe(folder: Path) -> None:
    """A recipe that learns little from little."""
    (folder / "mine.toml").write_text(RECIPE)


INDUCE: Words = ("induce", "train.tsv", "-o", "grammar.txt", "--like", "scan")


def resumed_induction(folder: Path) -> Words:
    """What goes on with a trace, if the search came so far as to begin one."""
    trace = folder / "trace.jsonl"
    has_begun = trace.exists() and b"\n" in trace.read_bytes()
    return (*INDUCE, "--resume" if has_begun else "--trace", "trace.jsonl")


def works(cache: Path) -> Mapping[str, Work]:
    """All commands by name; what they keep for later goes to `cache`."""
    os.environ["NQG_DATA_CACHE"] = str(cache)
    prepare = ("data", "prepare", "geoquery", "--split", "tmcd", "--mirror", str(MIRROR), "-o", "geo")
    train = ("train", "train.tsv", "-o", "model", "--like", "scan", "--device", "cpu", "--batch-size", "8")
    reproduce = ("reproduce", "mine.toml", "--mirror", str(MIRROR), "--device", "cpu")
    split = ("split", "tmcd", "train.tsv", "-o", "parts", "--moves", "2000", "--dev-size", "5")
    return {
        "induce": Work((*INDUCE, "--trace", "trace.jsonl"), write_train, resumed_induction, without("seconds")),
        "split": Work(split, write_train),
        "prepare": Work(prepare, lambda folder: None),
        "train": Work((*train, "--steps", "6", "--save-every", "1", "--folds", "2"), write_train),
        "reproduce": Work(reproduce, write_recipe, compared=without("seconds", "date", "commit")),
    }
