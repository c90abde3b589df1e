"""An install without an extra says what to install, in the library and on the command line."""

from __future__ import annotations

import subprocess
import sys

import pytest

WITHOUT = """
import sys
for package in ("torch", "transformers", "numba", "huggingface_hub", "accelerate"):
    sys.modules[package] = None
"""
NEEDS_TRAIN = "needs the extra 'train': in a checkout of nqg, pip install -c constraints.txt '.[train]'"


def run(program: str) -> subprocess.CompletedProcess[str]:
    """Run a program in an interpreter that lacks the packages of the extra "train"."""
    return subprocess.run(
        [sys.executable, "-c", WITHOUT + program], capture_output=True, text=True
    )


@pytest.mark.parametrize("name", ["train", "Seq2seq"])
def test_a_public_name_that_needs_an_extra_says_so(name: str) -> None:
    done = run(f"import nqg\nnqg.{name}")
    assert done.stderr.strip().endswith(f"MissingExtra: nqg.{name} {NEEDS_TRAIN}")


def test_a_command_that_needs_an_extra_says_so() -> None:
    done = run(
        "sys.argv = ['nqg', 'train', 'train.tsv']\n"
        "from nqg.cli.main import main\n"
        "main()"
    )
    assert done.returncode == 1
    assert done.stderr.strip() == f"error: nqg train {NEEDS_TRAIN}"


def test_a_model_on_the_hub_needs_an_extra() -> None:
    done = run("import nqg\nnqg.Parser.from_pretrained('owner/name')")
    assert NEEDS_TRAIN in done.stderr
