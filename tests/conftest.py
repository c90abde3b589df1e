"""Fixtures for all tests: where the real data lies, and golden files."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from nqg.files import CACHE_VARIABLE

PROJECT = Path(__file__).resolve().parent.parent
SHARED = PROJECT.parent / "shared"

# Before anything imports torch, also in processes that tests start: over tensors this small several threads wait for
# each other ten times longer than one computes, and `make test` has a process for every core anyway.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# The first call of a kernel compiles it, so no example may have a deadline. In CI the examples are always the same.
settings.register_profile("nqg", deadline=None, derandomize=bool(os.environ.get("CI")))
settings.load_profile("nqg")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what reads the published corpora as `corpus`, so that `pytest -m "not corpus"` leaves it out."""
    for item in items:
        # Doctests have no fixtures of ours; `fixturenames` also names those that other fixtures ask for.
        if "real_data" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.corpus)


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Downloads and forests of tests go to a folder of their own, never into the cache of whoever runs them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(CACHE_VARIABLE, str(tmp_path_factory.mktemp("nqg-cache")))
        patch.setenv(
            "NQG_FAST", "0"
        )  # models that learned nothing answer otherwise in eight bits
        yield


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder of real datasets; tests that need it are skipped with a reason where it is absent."""
    mirror = Path(os.environ.get("NQG_DATA_MIRROR", SHARED / "data"))
    if not mirror.is_dir():
        pytest.skip(
            f"real data not found: {mirror} is no folder (set NQG_DATA_MIRROR to a copy of it)"
        )
    return mirror


@pytest.fixture(scope="session")
def reference_grammars() -> Path:
    """Grammars that the published implementation induced; skipped with a reason where they are absent."""
    folder = SHARED / "reference"
    if not folder.is_dir():
        pytest.skip(f"reference grammars not found: {folder} is no folder")
    return folder
