"""A division of a dataset into train, test and perhaps dev examples, by their positions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from nqg.data.example import Example
from nqg.errors import FormatError

Provenance = Mapping[str, str | int | float | bool | None]


@dataclass(frozen=True, slots=True)
class Parts:
    """The examples of a split."""

    train: list[Example]
    dev: list[Example]
    test: list[Example]


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

    def fitting(self, size: int) -> Split:
        """This split, or an error where it points past the end of a dataset of `size` examples.

        >>> Split(train=(0, 1), test=(7,)).fitting(3)
        Traceback (most recent call last):
        nqg.errors.FormatError: position 7 lies outside a dataset of 3 examples (positions 0 to 2)
        """
        last = max((*self.train, *self.test, *self.dev), default=-1)
        if last >= size:
            raise FormatError(f"position {last} lies outside a dataset of {size} examples (positions 0 to {size - 1})")
        return self

    def parts(self, examples: Sequence[Example]) -> Parts:
        """The examples at the positions of each part, in the order of the split."""
        self.fitting(len(examples))
        train, dev, test = ([examples[at] for at in positions] for positions in (self.train, self.dev, self.test))
        return Parts(train=train, dev=dev, test=test)
