"""The progress of a download, as data: the caller draws a bar or ignores it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Received:
    """How much of a file has come in; `total` is unknown where the server does not say."""

    name: str
    bytes: int
    total: int | None


Report = Callable[[Received], None]


def silent(received: Received) -> None:
    """Progress that nobody watches."""
