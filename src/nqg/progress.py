"""The one way to report progress: whoever works calls a function, and the caller draws a bar, logs, or stays silent."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """Called now and then with what is being done, how much of it is done, and of how much, where that is known."""

    def __call__(self, what: str, done: int, total: int | None) -> None: ...


def silent(what: str, done: int, total: int | None) -> None:
    """Progress that nobody watches."""
