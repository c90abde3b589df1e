"""The examples that a search looks at: the shortest of a stream, of which no more are kept in memory."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable
from typing import NamedTuple

from nqg.data.example import Example
from nqg.errors import NqgError


class Rank(NamedTuple):
    """How good an example is for a search, the best the largest: short before long, then early before late."""

    negative_length: int
    negative_position: int


def shortest_first(examples: Iterable[Example], count: int | None = None) -> list[Example]:
    """Each pair once, by the length of its source, equally long ones in order; of these the first `count`, or all.

    >>> [example.source for example in shortest_first([Example("c d", "C"), Example("a", "A"), Example("b", "B")], 2)]
    ['a', 'b']
    """
    most = math.inf if count is None else count
    kept: dict[object, Example] = {}
    worst_first: list[tuple[Rank, object]] = []
    for position, example in enumerate(examples):
        source = example.source_tokens
        rank = Rank(-len(source), -position)
        pair = (source, example.target_tokens)
        if not all(pair):
            raise NqgError(f"{example} has an empty side; a rule needs words on both")
        if pair in kept or (len(kept) >= most and rank < worst_first[0][0]):
            continue  # what was dropped before ranks below all that are kept, and its repetitions too
        kept[pair] = example
        heapq.heappush(worst_first, (rank, pair))
        if len(kept) > most:
            del kept[heapq.heappop(worst_first)[1]]
    return [kept[pair] for _, pair in sorted(worst_first, reverse=True)]
