"""Jobs for engines, in a module that workers in other processes can import."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

from nqg.errors import UnknownName


def doubled() -> Callable[[int], int]:
    return lambda number: 2 * number


def counted(folder: Path) -> Callable[[int], int]:
    """Doubles, and leaves a file for every time it is loaded."""
    (folder / f"loaded-{os.getpid()}").touch()
    return lambda number: 2 * number


def killed_at(folder: Path, unlucky: int, times: int) -> Callable[[int], int]:
    """Doubles, but its process is killed at the first attempts at one number, of which each leaves a file."""

    def work(number: int) -> int:
        if (
            number == unlucky
            and (attempt := len(list(folder.glob("killed-*")))) < times
        ):
            (folder / f"killed-{attempt}").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return 2 * number

    return work


def refusing() -> Callable[[int], int]:
    def work(number: int) -> int:
        raise UnknownName("number", str(number), ["none"])

    return work


def dividing() -> Callable[[int], float]:
    return lambda number: 1 / (number - 2)


def unloadable() -> Callable[[int], int]:
    raise UnknownName("model", "mine", ["yours"])


def pickling_nothing() -> Callable[[int], object]:
    return lambda number: lambda: number


def threads() -> Callable[[int], str | None]:
    return lambda _: os.environ.get("OMP_NUM_THREADS")
