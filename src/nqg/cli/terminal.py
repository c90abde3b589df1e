"""What every verb shares on the terminal: the two consoles, errors, and progress bars on stderr only."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn, track

T = TypeVar("T")

WIDE = 200  # columns of tables where nobody's terminal has to hold them

out = Console(highlight=False, markup=False, soft_wrap=True, width=None if sys.stdout.isatty() else WIDE)
err = Console(stderr=True, highlight=False, markup=False, soft_wrap=True)


def complain(message: str) -> None:
    """Say what went wrong, on stderr."""
    err.print(f"error: {message}", style="red")


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
