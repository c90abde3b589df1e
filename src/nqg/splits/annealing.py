"""Simulated annealing over random swaps: worse arrangements are borne at first, then less and less.

Hill climbing stops in poor local optima, because a compound counts for the divergence almost as much with one
occurrence in train as with twenty: all examples that hold it have to move before it pays.
"""

from __future__ import annotations

import math

import numpy as np

from nqg.grammar.compiled import kernel
from nqg.splits.arrangement import Arrangement, Goal, gap, gap_after_swap, swap_if_legal
from nqg.splits.tally import outcome_of_swap


@kernel
def anneal(
    arrangement: Arrangement, goal: Goal, temperature: float, moves: int, randomness: np.random.Generator
) -> None:
    """Weigh random swaps; one that widens the gap is made if it widens it less than a random allowance.

    The allowance is exponential with mean `temperature`: Metropolis's rule. Stops early once the goal is met.
    """
    now = gap(arrangement, goal)
    for _ in range(moves):
        if now <= goal.tolerance:
            return
        at = int(randomness.random() * arrangement.train.size)
        other = int(randomness.random() * arrangement.test.size)
        allowance = -temperature * math.log(1.0 - randomness.random())
        after = gap_after_swap(arrangement.compounds, goal, arrangement.train[at], arrangement.test[other])
        if after <= now + allowance and swap_if_legal(arrangement, goal, at, other):
            now = after


@kernel
def typical_change(arrangement: Arrangement, samples: int, randomness: np.random.Generator) -> float:
    """By how much a random swap changes the compound divergence, on average: the scale of temperatures."""
    here = gap(arrangement, Goal(0.0, 0.0, 1.0))
    change = 0.0
    for _ in range(samples):
        leaving = arrangement.train[int(randomness.random() * arrangement.train.size)]
        entering = arrangement.test[int(randomness.random() * arrangement.test.size)]
        change += abs(outcome_of_swap(arrangement.compounds, leaving, entering).divergence - here)
    return change / samples
