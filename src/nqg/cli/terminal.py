"""What every verb shares on the terminal: the two consoles, errors, and progress bars on stderr only."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn, track

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

T = TypeVar("T")

WIDE = 200  # columns of tables where nobody's terminal has to hold them
STOPPED = 130  # what shells report for a command that Ctrl-C ended

out = Console(highlight=False, markup=False, soft_wrap=True, width=None if sys.stdout.isatty() else WIDE)
err = Console(stderr=True, highlight=False, markup=False, soft_wrap=True)
alarm = Console(stderr=True, highlight=False, markup=False, soft_wrap=True)  # which is never quiet


@dataclass(slots=True)
class Volume:
    """How much is said on stderr: `is_high` for those who want to know more."""

    is_high: bool = False


volume = Volume()


def set_volume(*, quiet: bool, verbose: bool) -> None:
    """Say nothing but errors, or more than usual."""
    err.quiet, volume.is_high = quiet, verbose and not quiet


def detail(message: str) -> None:
    """Say what only those want to know who asked for more."""
    if volume.is_high:
        err.print(message, style="dim")


def in_words(settings: DataclassInstance) -> str:
    """Settings on one line.

    >>> from nqg.induction.settings import InductionSettings
    >>> in_words(InductionSettings())[:46]
    'terminal_bits = 8.0, non_terminal_bits = 1.0, '
    """
    return ", ".join(f"{each.name} = {getattr(settings, each.name)}" for each in fields(settings))


def complain(message: str) -> None:
    """Say what went wrong, on stderr."""
    alarm.print(f"error: {message}", style="red")


def report_written(*paths: object) -> None:
    """Name the files that a command wrote, on stderr so that stdout stays data."""
    for path in paths:
        err.print(f"wrote {path}")


def tracked(items: Iterable[T], what: str, total: int | None = None) -> Iterable[T]:
    """`items`, with a bar on stderr while they are consumed; nothing is drawn where stderr is no terminal."""
    return track(items, what, total, console=err, disable=not err.is_terminal, transient=True)


@contextmanager
def progress_bar() -> Iterator[Progress]:
    """A bar for work that reports its own progress; invisible where stderr is no terminal."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=err, disable=not err.is_terminal, transient=True) as progress:
        yield progress


@dataclass(frozen=True, slots=True)
class Stopwatch:
    """Seconds since it was made, and those that had passed before."""

    before: float = 0.0
    _started: float = field(default_factory=time.monotonic)

    @property
    def seconds(self) -> float:
        """The time so far."""
        return self.before + time.monotonic() - self._started
