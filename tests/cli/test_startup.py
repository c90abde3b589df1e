"""Start-up: a command imports what it needs and little else."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from training_command import BRIEF, EXAMPLES, RULES

COUNTED = """
import sys
from nqg.cli.main import main
try:
    main()
finally:
    with open("loaded.txt", "w") as file:
        print(*sys.modules, sep="\\n", file=file)
"""


def loaded(folder: Path, *words: str) -> set[str]:
    """The modules that a command has loaded when it ends."""
    run = subprocess.run(
        [sys.executable, "-c", COUNTED, *words],
        cwd=folder,
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr
    return set((folder / "loaded.txt").read_text().split())


def own(modules: set[str]) -> list[str]:
    return sorted(name for name in modules if name == "nqg" or name.startswith("nqg."))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Examples and rules to train with."""
    made = tmp_path_factory.mktemp("startup")
    (made / "train.tsv").write_text(
        "".join(f"{each.source}\t{each.target}\n" for each in EXAMPLES)
    )
    (made / "rules.txt").write_text(RULES)
    return made


@pytest.fixture(scope="module")
def trained(folder: Path) -> set[str]:
    """The modules that the training of `model` loaded."""
    return loaded(folder, "train", "train.tsv", "-o", "model", *BRIEF)


def test_help_loads_few_modules_and_nothing_heavy(tmp_path: Path) -> None:
    modules = loaded(tmp_path, "--help")
    assert len(own(modules)) <= 10, own(modules)
    heavy = {
        "numpy",
        "numba",
        "torch",
        "transformers",
        "pooch",
        "requests",
        "sqlglot",
        "matplotlib",
        "fastapi",
    }
    assert not heavy & modules


def test_training_loads_at_most_143_modules(trained: set[str]) -> None:
    assert len(own(trained)) <= 143, own(trained)


@pytest.mark.usefixtures("trained")
def test_parsing_loads_at_most_81_modules_and_nothing_that_it_does_not_need(
    folder: Path,
) -> None:
    modules = loaded(folder, "parse", "model", "walk twice", "--device", "cpu")
    assert len(own(modules)) <= 81, own(modules)
    assert (
        not {
            "torch",
            "transformers",
            "numba",
            "huggingface_hub",
            "accelerate",
            "requests",
            "pooch",
            "sqlglot",
            "matplotlib",
            "fastapi",
            "ray",
        }
        & modules
    )
    assert not [
        name for name in modules if name.startswith(("nqg.seq2seq", "nqg.induction"))
    ]
