"""The nouns are leaves: whoever needs an answer, a score or a split waits for neither PyTorch nor Numba."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = ("torch", "transformers", "numba")
NOUNS = (
    "Example",
    "Split",
    "Answer",
    "System",
    "exact_match",
    "Scores",
    "score",
    "split",
    "audit",
)
SPLIT_MODULES = ("tmcd", "audit", "compounds", "partition")


def loaded(*statements: str) -> set[str]:
    """The modules that a fresh interpreter has loaded after statements."""
    program = "\n".join(["import sys", *statements, "print(*sys.modules)"])
    return set(
        subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=True
        ).stdout.split()
    )


def test_nouns_load_neither_pytorch_nor_numba_nor_grammars() -> None:
    modules = loaded(*(f"from nqg import {name}" for name in NOUNS))
    assert not modules.intersection(HEAVY)
    assert not [module for module in modules if module.startswith("nqg.grammar")]


@pytest.mark.parametrize("command", ["check-model", "suggest", "parse", "evaluate"])
def test_commands_that_use_a_model_load_no_pytorch(command: str) -> None:
    modules = loaded(
        "from nqg.cli.main import load_command", f"load_command({command!r})"
    )
    assert not modules.intersection(("torch", "transformers"))


def test_splits_load_neither_pytorch_nor_numba_before_a_search() -> None:
    assert not loaded(
        *(f"import nqg.splits.{module}" for module in SPLIT_MODULES)
    ).intersection(HEAVY)


def test_a_check_of_data_loads_neither_pytorch_nor_numba() -> None:
    modules = loaded(
        "from nqg.cli.main import load_command", "load_command('check-data')"
    )
    assert not modules.intersection(HEAVY)
