"""The length split: train on the short, test on the long; dev lies between them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from enum import StrEnum

from nqg.data.example import Example
from nqg.data.split import Split
from nqg.splits.shuffled import cut
from nqg.splits.sizes import Sizes


class Side(StrEnum):
    """One string of an example."""

    SOURCE = "source"
    TARGET = "target"


def length_split(examples: Sequence[Example], sizes: Sizes, *, by: Side = Side.SOURCE) -> Split:
    """The examples in order of length, ties in the order of the dataset, then cut.

    Length counts the pieces between single spaces, so a double space adds one: the published Spider split counts so.
    """
    sizes.check(len(examples))
    order = sorted(range(len(examples)), key=lambda position: spaced_length(examples[position], by))
    return cut(_twins_from_the_last(order, examples), sizes, {"method": "length", "by": str(by)})


def spaced_length(example: Example, side: Side) -> int:
    """How many pieces single spaces cut a side of `example` into.

    >>> spaced_length(Example("give me  the rivers", "river"), Side.SOURCE)
    5
    """
    return (example.source if side is Side.SOURCE else example.target).count(" ") + 1


def _twins_from_the_last(order: Sequence[int], examples: Sequence[Example]) -> list[int]:
    """`order`, with equal examples standing last one first.

    Nobody can tell twins apart by their text, but split files name positions: this order is that of the published ones.
    """
    twins: dict[tuple[str, str], list[int]] = defaultdict(list)
    for position, example in enumerate(examples):
        twins[example.source, example.target].append(position)
    return [twins[examples[position].source, examples[position].target].pop() for position in order]
