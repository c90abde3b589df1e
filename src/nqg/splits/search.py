"""The two searches for an arrangement, as streams of steps: the paper's, and annealing with restarts."""

from __future__ import annotations

import itertools
import math
import random
import time
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from nqg.splits.annealing import anneal, typical_change
from nqg.splits.arrangement import Arrangement, Goal, gap, settle, shortcoming
from nqg.splits.bags import Decomposed
from nqg.splits.climbing import climb
from nqg.splits.start import random_start
from nqg.splits.tally import refresh, tallied_divergence

Clock = Callable[[], float]

STEPS = 100
"""Temperatures of one annealing."""

HOT, COLD = 3.0, 0.2
"""First and last temperature, in units of the change that a random swap makes at the start.

On GeoQuery and Spider the divergence rises between 3 and 1 of these units; below 0.2 next to nothing moves.
"""

SAMPLES = 10_000
"""Swaps that the unit of temperature is measured on."""


@dataclass(frozen=True, slots=True)
class Problem:
    """What is to be divided, into parts of which size, and what makes a division good."""

    data: Decomposed
    train_size: int
    goal: Goal


@dataclass(frozen=True, slots=True)
class Budget:
    """How long a search may take: swaps weighed in one annealing, annealings, and seconds."""

    moves: int
    restarts: float = math.inf
    seconds: float = math.inf


@dataclass(frozen=True, slots=True)
class SearchStep:
    """Where a search stands: the share of its budget that is spent, the start it is on, the divergence now."""

    done: float
    start: int
    divergence: float


Search = Generator[SearchStep, None, Arrangement]
"""Steps on the way, and at the end the best arrangement that was found."""

Found = TypeVar("Found")


def _unwatched(step: SearchStep) -> None:
    pass


def completed(search: Generator[SearchStep, None, Found], watch: Callable[[SearchStep], None] = _unwatched) -> Found:
    """Run a search to its end, showing every step to `watch`, and return what it found."""
    while True:
        try:
            step = next(search)
        except StopIteration as end:
            found: Found = end.value
            return found
        watch(step)


def greedy_search(problem: Problem, budget: Budget, rng: random.Random, clock: Clock = time.monotonic) -> Search:
    """The search of the paper: one random start, then swaps that help until none is left."""
    deadline = clock() + budget.seconds
    found = _settled_start(problem, budget, rng)
    pairs = found.train.size * found.test.size
    for place in _climbing(found, problem.goal, pairs // 10 + 1):
        yield SearchStep(place / pairs, 1, tallied_divergence(found.compounds))
        if clock() >= deadline:
            break
    return found


def annealing_search(problem: Problem, budget: Budget, rng: random.Random, clock: Clock = time.monotonic) -> Search:
    """Annealings from several random starts; the best of them is then climbed from."""
    goal, begun = problem.goal, clock()
    deadline = begun + budget.seconds
    best = current = _settled_start(problem, budget, rng)
    for start in itertools.count(1):
        for share in _annealing(current, goal, budget, rng, _shares(clock, deadline)):
            spent = max((start - 1 + share) / budget.restarts, (clock() - begun) / budget.seconds)
            yield SearchStep(min(spent, 1.0), start, tallied_divergence(current.compounds))
        best = min(best, current, key=lambda found: shortcoming(found, goal))
        if start >= budget.restarts or clock() >= deadline or gap(best, goal) <= goal.tolerance:
            break
        current = _settled_start(problem, budget, rng)
    for _ in itertools.islice(_climbing(best, goal, budget.moves // 10 + 1), 10):
        yield SearchStep(1.0, start, tallied_divergence(best.compounds))
        if clock() >= deadline:
            break
    return best


def _settled_start(problem: Problem, budget: Budget, rng: random.Random) -> Arrangement:
    start = random_start(problem.data, problem.train_size, rng)
    settle(start, problem.goal, budget.moves, _randomness(rng))
    return start


def _shares(clock: Clock, deadline: float) -> Iterator[float]:
    """How far an annealing has cooled before each of its steps: evenly, or faster where time runs short."""
    begun = clock()
    for step in range(STEPS):
        share = max(step / STEPS, (clock() - begun) / max(deadline - begun, 1e-9))
        if share >= 1:
            return
        yield share


def _annealing(
    current: Arrangement, goal: Goal, budget: Budget, rng: random.Random, shares: Iterator[float]
) -> Iterator[float]:
    """One annealing, which passes the shares on after each step; it ends early where the goal is met."""
    randomness = _randomness(rng)
    unit = typical_change(current, SAMPLES, randomness)
    for share in shares:
        temperature = unit * HOT * (COLD / HOT) ** share
        anneal(current, goal, temperature, budget.moves // STEPS + 1, randomness)
        refresh(current.compounds)
        refresh(current.atoms)
        yield share
        if gap(current, goal) <= goal.tolerance:
            return


def _climbing(found: Arrangement, goal: Goal, weighings: int) -> Iterator[int]:
    """Climb until no swap helps; yields how many pairs in a row did not, every so many weighings."""
    place = np.zeros(2, dtype=np.int64)
    while place[1] < found.train.size * found.test.size and gap(found, goal) > goal.tolerance:
        climb(found, goal, place, weighings)
        refresh(found.compounds)
        refresh(found.atoms)
        yield int(place[1])


def _randomness(rng: random.Random) -> np.random.Generator:
    return np.random.default_rng(rng.getrandbits(64))
