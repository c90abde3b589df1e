"""The one way to report progress: work calls a function; its caller draws a bar or logs."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """Called with what is being done, how much of it is done, and of how much, if that is known."""

    def __call__(self, what: str, done: int, total: int | None) -> None: ...


def silent(what: str, done: int, total: int | None) -> None:
    """Progress that nobody watches."""
