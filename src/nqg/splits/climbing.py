"""The search of the paper: go through the pairs (train, test) in order, make every swap that helps, until none does."""

from __future__ import annotations

from nqg.grammar.compiled import kernel
from nqg.splits.arrangement import Arrangement, Goal, gap, gap_after_swap, swap_if_legal
from nqg.splits.bags import Integers

LEAST_GAIN = 1e-12
"""Smaller gains are rounding errors, and could be made for ever."""


@kernel
def climb(arrangement: Arrangement, goal: Goal, place: Integers, weighings: int) -> None:
    """Weigh the next pairs; `place` keeps the pair to go on from and how many in a row have not helped."""
    pairs = arrangement.train.size * arrangement.test.size
    now = gap(arrangement, goal)
    for _ in range(weighings):
        if place[1] == pairs or now <= goal.tolerance:
            return
        at, other = place[0] // arrangement.test.size, place[0] % arrangement.test.size
        place[0] = (place[0] + 1) % pairs
        place[1] += 1
        after = gap_after_swap(arrangement.compounds, goal, arrangement.train[at], arrangement.test[other])
        if after < now - LEAST_GAIN and swap_if_legal(arrangement, goal, at, other):
            now = after
            place[1] = 0
