"""A division of a dataset into train, test and perhaps dev examples, by their positions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from nqg.errors import FormatError

Provenance = Mapping[str, str | int | float | bool | None]


@dataclass(frozen=True, slots=True)
class Split:
    """Zero-based positions in a dataset; `made_by` says how they were chosen (method, seed, settings).

    A position may repeat inside one part (SCAN's published jump split repeats one command), never across parts.
    """

    train: tuple[int, ...]
    test: tuple[int, ...]
    dev: tuple[int, ...] = ()
    made_by: Provenance = field(default_factory=dict)

    def __post_init__(self) -> None:
        train, test, dev = set(self.train), set(self.test), set(self.dev)
        shared = sorted((train & test) | (train & dev) | (test & dev))
        if shared:
            raise FormatError(f"position {shared[0]} stands in more than one part of the split")
        negative = [position for position in train | test | dev if position < 0]
        if negative:
            raise FormatError(f"position {min(negative)} is negative; positions count from 0")
