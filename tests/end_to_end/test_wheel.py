"""The wheel in an empty environment: a stored model answers with the packages of the base alone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from conftest import PROJECT

MODEL = PROJECT / "tests" / "models" / "v4"
# Packages that parsing must not need.
HEAVY = ("torch", "transformers", "numba", "llvmlite", "accelerate", "pydantic")


def run(*words: str | Path, check: bool = True) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True)
    if check:
        assert done.returncode == 0, done.stderr
    return done


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment into which the wheel, with its pinned packages, was just installed."""
    folder = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    pins = ["-c", str(PROJECT / "constraints.txt")]
    built = run(
        *pip, "wheel", "--quiet", "--no-deps", "-w", folder, PROJECT, check=False
    )
    if built.returncode:
        pytest.skip("the build backend cannot be downloaded: PyPI is out of reach")
    (wheel,) = folder.glob("nqg-*.whl")
    run(sys.executable, "-m", "venv", folder / "venv")
    inside = folder / "venv" / "bin"
    installed = run(
        inside / "python", "-m", "pip", "install", "--quiet", *pins, wheel, check=False
    )
    if installed.returncode:
        pytest.skip("packages cannot be downloaded: PyPI is out of reach")
    return inside


@pytest.mark.network
def test_a_stored_model_answers(environment: Path) -> None:
    answered = run(environment / "nqg", "parse", MODEL, "run twice")
    assert answered.stdout.startswith("R R\n")


@pytest.mark.network
def test_nothing_heavy_is_installed(environment: Path) -> None:
    listed = run(environment / "python", "-m", "pip", "list", "--format=freeze").stdout
    names = {line.partition("==")[0] for line in listed.splitlines()}
    assert not names.intersection(HEAVY)


@pytest.mark.network
def test_a_command_of_an_extra_says_what_to_install(environment: Path) -> None:
    refused = run(environment / "nqg", "train", "train.tsv", "-o", "model", check=False)
    assert refused.returncode == 1
    words = "nqg train needs the extra 'train': in a checkout of nqg, pip install -c constraints.txt '.[train]'"
    assert words in refused.stderr
