"""docs/evaluation.md: its Python does what it says."""

from __future__ import annotations

import doctest
from pathlib import Path

import pytest

from conftest import PROJECT


def test_the_pages_examples_run(real_data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NQG_DATA_MIRROR", str(real_data))
    result = doctest.testfile(str(PROJECT / "docs" / "evaluation.md"), module_relative=False)
    assert result.attempted > 0
    assert result.failed == 0
