"""A split in the making: who stands in train and who in test, and the swaps that lead to a goal.

The constraint of the paper holds throughout: every atom occurs in train at least once.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nqg.grammar.compiled import kernel
from nqg.splits.bags import Decomposed, Integers
from nqg.splits.divergence import ATOM_ALPHA, COMPOUND_ALPHA
from nqg.splits.tally import Tally, outcome_of_swap, swap, tallied_divergence, tally, would_starve


class Arrangement(NamedTuple):
    """The examples on both sides, by position, with their compounds and atoms counted; swaps change it in place."""

    train: Integers
    test: Integers
    compounds: Tally
    atoms: Tally


class Goal(NamedTuple):
    """Which compound divergence to come near to, and how much atom divergence to bear on the way.

    A divergence is at most 1, so the way to the maximum is the way to 1.
    """

    aim: float = 1.0
    tolerance: float = 0.0
    atom_bound: float = 1.0


def arrangement(data: Decomposed, train: Integers, test: Integers) -> Arrangement:
    """The examples at `train` and `test`, counted."""
    compounds = tally(data.compounds, train, test, COMPOUND_ALPHA)
    return Arrangement(train, test, compounds, tally(data.atoms, train, test, ATOM_ALPHA))


@kernel
def gap(arrangement: Arrangement, goal: Goal) -> float:
    """How far the compound divergence is from the aim."""
    return abs(goal.aim - tallied_divergence(arrangement.compounds))


def shortcoming(arrangement: Arrangement, goal: Goal) -> tuple[float, float]:
    """What is wrong with an arrangement, to compare several: first atoms beyond their bound, then the gap."""
    return max(tallied_divergence(arrangement.atoms) - goal.atom_bound, 0.0), gap(arrangement, goal)


@kernel
def gap_after_swap(compounds: Tally, goal: Goal, leaving: int, entering: int) -> float:
    """How far the compound divergence would be from the aim after a swap that is not made yet."""
    return abs(goal.aim - outcome_of_swap(compounds, leaving, entering).divergence)


@kernel
def swap_if_legal(arrangement: Arrangement, goal: Goal, at: int, other: int) -> bool:
    """Swap `train[at]` with `test[other]`, unless that takes an atom out of train or atoms too far apart.

    Above the bound on atom divergence, swaps that lower it are still welcome.
    """
    leaving, entering = arrangement.train[at], arrangement.test[other]
    if would_starve(arrangement.atoms, leaving, entering):
        return False
    atoms = outcome_of_swap(arrangement.atoms, leaving, entering)
    if atoms.divergence > goal.atom_bound and atoms.divergence >= tallied_divergence(arrangement.atoms):
        return False
    compounds = outcome_of_swap(arrangement.compounds, leaving, entering)
    swap(arrangement.compounds, leaving, entering, compounds.overlap)
    swap(arrangement.atoms, leaving, entering, atoms.overlap)
    arrangement.train[at], arrangement.test[other] = entering, leaving
    return True


@kernel
def settle(arrangement: Arrangement, goal: Goal, moves: int, randomness: np.random.Generator) -> None:
    """Bring the atom divergence under its bound by random swaps, before compounds are looked at."""
    for _ in range(moves):
        if tallied_divergence(arrangement.atoms) <= goal.atom_bound:
            return
        at = int(randomness.random() * arrangement.train.size)
        swap_if_legal(arrangement, goal, at, int(randomness.random() * arrangement.test.size))
