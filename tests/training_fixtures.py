"""A fixture of the tests of `nqg train`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from nqg.data.example_files import write_examples
from training_command import EXAMPLES, RULES
from typed_commands import one_thread


@pytest.fixture
def training_folder(
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[None]:
    """A current folder with `train.tsv` and `rules.txt`, and a cache of its own."""
    monkeypatch.setenv("NQG_DATA_CACHE", str(tmp_path_factory.mktemp("cache")))
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(tmp_path)
    write_examples(tmp_path / "train.tsv", EXAMPLES)
    (tmp_path / "rules.txt").write_text(RULES)
    with one_thread():
        yield
