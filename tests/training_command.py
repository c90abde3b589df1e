"""What tests of `nqg train` begin with: a folder with short SCAN commands and rules for some of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from typer.testing import Result

from nqg import load_dataset
from nqg.data.examples import write_examples
from typed_commands import one_thread, typed

EXAMPLES = [example for example in load_dataset("scan").examples if len(example.source_tokens) <= 3][:60]
RULES = "NT_1 twice ### NT_1 NT_1\nwalk ### I_WALK\nlook ### I_LOOK\nrun ### I_RUN\njump ### I_JUMP\n"
BRIEF = ("--grammar", "rules.txt", "--steps", "7", "--batch-size", "8", "--folds", "0", "--device", "cpu")


@contextmanager
def training_folder(folder: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A block in a folder with `train.tsv` and `rules.txt`, and a cache of its own."""
    monkeypatch.setenv("NQG_DATA_CACHE", str(cache))
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(folder)
    write_examples(folder / "train.tsv", EXAMPLES)
    (folder / "rules.txt").write_text(RULES)
    with one_thread():
        yield


def nqg(*words: str) -> Result:
    return typed("train", *words)


def files(folder: str) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in Path(folder).iterdir()}
