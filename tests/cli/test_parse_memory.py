"""Freed memory goes back, on systems where that can be asked for, and nothing happens on others."""

from __future__ import annotations

import ctypes
import subprocess
import sys

import pytest

from nqg.engines import keep_large_blocks_apart, release_holes

PROGRAM = """
import numpy
from pathlib import Path
from nqg.engines import keep_large_blocks_apart
keep_large_blocks_apart()
def own():
    return int(Path("/proc/self/status").read_text().split("RssAnon:")[1].split()[0])
numpy.ones(1 << 22)  # whose freeing would move glibc's limit up
first, kept = own(), []
for _ in range(4):
    large = numpy.ones(3 << 20)
    kept.append(numpy.ones(1000))  # above it in the heap, if it were there
    del large
print(own() - first)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc and glibc")
def test_large_blocks_leave_no_holes() -> None:
    shown = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True).stdout
    assert int(shown) < 8_000  # kB; a block has 24,000


HOLES = """
from pathlib import Path
from nqg.engines import release_holes
def own():
    return int(Path("/proc/self/status").read_text().split("RssAnon:")[1].split()[0])
blocks = [bytearray(100_000) for _ in range(800)]
del blocks[::2], blocks[1::4]  # the last block stays, above the holes
full = own()
release_holes()
print(full - own())
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc and glibc")
def test_holes_between_small_blocks_are_given_back() -> None:
    shown = subprocess.run([sys.executable, "-c", HOLES], capture_output=True, text=True, check=True).stdout
    assert int(shown) > 20_000  # kB, of about 45,000 that are free


def test_without_glibc_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> ctypes.CDLL:
        raise OSError(name)

    monkeypatch.setattr(ctypes, "CDLL", absent)
    keep_large_blocks_apart()
    release_holes()
