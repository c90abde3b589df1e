"""TMCD splits: the compounds of test differ from those of train as much as possible, the atoms do not (section 3).

Two searches. *Greedy* is the paper's: from a random start, make every swap that helps until none does. *Annealing*,
the default, bears swaps that do not help while it is hot, starts several times, and ends with the greedy search. Both
come near to a chosen divergence instead of the largest one when asked to.
"""

from __future__ import annotations

import math
import random
from collections.abc import Generator, Sequence
from dataclasses import asdict

import numpy as np

from nqg.data.example import Example
from nqg.data.split import Provenance, Split
from nqg.errors import NqgError
from nqg.splits.arrangement import Arrangement, Goal, arrangement, gap, shortcoming
from nqg.splits.bags import Decomposed, decomposed
from nqg.splits.compounds import Decomposition
from nqg.splits.search import Budget, Problem, SearchStep, annealing_search, completed, greedy_search
from nqg.splits.settings import Method, TmcdSettings
from nqg.splits.sizes import Sizes
from nqg.splits.tally import tallied_divergence

MOVES_PER_EXAMPLE = 1_000
USUAL_MOVES = 25_000_000
MOST_RESTARTS = 15
"""Small datasets have many local optima and are started from often; one annealing of a large one is enough."""

DRAWS = 100
"""Dev sets to choose from."""

DEFAULT_SETTINGS = TmcdSettings()


def tmcd_split(
    examples: Sequence[Example],
    sizes: Sizes,
    decomposition: Decomposition,
    rng: random.Random,
    settings: TmcdSettings = DEFAULT_SETTINGS,
) -> Split:
    """A TMCD split; `tmcd_search` is the same work with its steps."""
    return completed(tmcd_search(decomposed(examples, decomposition), sizes, rng, settings))


def tmcd_search(
    data: Decomposed, sizes: Sizes, rng: random.Random, settings: TmcdSettings = DEFAULT_SETTINGS
) -> Generator[SearchStep, None, Split]:
    """Steps on the way to a TMCD split, which is the value that the generator returns.

    With a dev part the goal holds for train and all that is held out, and nearly for train and test.
    """
    sizes.check(len(data.atoms.sizes))
    search = greedy_search if settings.method is Method.GREEDY else annealing_search
    problem = Problem(data, sizes.train, _goal(settings))
    found = yield from search(problem, usual_budget(settings, sizes.total), rng)
    _check_reached(found, settings)
    test, dev = _test_and_dev(data, found, sizes, problem.goal, rng)
    train = np.sort(found.train)
    record = _record(arrangement(data, train, np.array(test)), settings)
    return Split(tuple(train.tolist()), test, dev, record)


def _test_and_dev(
    data: Decomposed, found: Arrangement, sizes: Sizes, goal: Goal, rng: random.Random
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Random parts of what is held out: of some draws the one with which test alone comes nearest to the goal."""
    held_out = sorted(found.test.tolist())
    draws = [sorted(rng.sample(held_out, sizes.dev)) for _ in range(DRAWS if sizes.dev else 1)]
    tests = [np.setdiff1d(held_out, dev) for dev in draws]
    best = min(range(len(draws)), key=lambda draw: shortcoming(arrangement(data, found.train, tests[draw]), goal))
    return tuple(tests[best].tolist()), tuple(draws[best])


def _goal(settings: TmcdSettings) -> Goal:
    bound = 1.0 if settings.max_atom_divergence is None else settings.max_atom_divergence
    if settings.target_divergence is None:
        return Goal(atom_bound=bound)
    return Goal(settings.target_divergence, settings.tolerance, bound)


def usual_budget(settings: TmcdSettings, examples: int) -> Budget:
    """How long to search in a dataset of so many examples, where the settings leave it open."""
    moves = settings.moves or MOVES_PER_EXAMPLE * examples
    restarts = min(max(USUAL_MOVES // moves, 1), MOST_RESTARTS) if settings.seconds is None else math.inf
    return Budget(moves, settings.restarts or restarts, settings.seconds or math.inf)


def _record(reached: Arrangement, settings: TmcdSettings) -> Provenance:
    idle = {"method"} if settings.target_divergence is not None else {"method", "tolerance"}
    asked = {name: value for name, value in asdict(settings).items() if name not in idle and value is not None}
    return {
        "method": "tmcd",
        "search": str(settings.method),
        **asked,
        "compound_divergence": round(tallied_divergence(reached.compounds), 6),
        "atom_divergence": round(tallied_divergence(reached.atoms), 6),
    }


def _check_reached(found: Arrangement, settings: TmcdSettings) -> None:
    compounds, atoms = tallied_divergence(found.compounds), tallied_divergence(found.atoms)
    if atoms > _goal(settings).atom_bound:
        raise NqgError(
            f"no split with an atom divergence of at most {settings.max_atom_divergence} was found, the nearest has "
            f"{atoms:.4f}; allow more, or search longer"
        )
    if settings.target_divergence is not None and gap(found, _goal(settings)) > settings.tolerance:
        raise NqgError(
            f"no split with a compound divergence of {settings.target_divergence} was found, the nearest has "
            f"{compounds:.4f}; ask for one nearer to that, or search longer"
        )
