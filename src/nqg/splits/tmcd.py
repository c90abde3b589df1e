"""TMCD splits: the compounds of test differ from those of train as much as possible, the atoms do not (section 3).

Two searches. *Greedy* is the paper's: from a random start, make every swap that helps until none does. *Annealing*,
the default, bears swaps that do not help while it is hot, starts several times, and ends with the greedy search. Both
come near to a chosen divergence instead of the largest one when asked to.
"""

from __future__ import annotations

import math
import random
from collections.abc import Generator, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum

import numpy as np

from nqg.data.example import Example
from nqg.data.split import Provenance, Split
from nqg.errors import NqgError, SettingsError
from nqg.splits.arrangement import Arrangement, Goal, arrangement, gap
from nqg.splits.bags import Decomposed, decomposed
from nqg.splits.compounds import Decomposition
from nqg.splits.search import Budget, Problem, SearchStep, annealing_search, greedy_search
from nqg.splits.shuffled import shuffled
from nqg.splits.sizes import Sizes
from nqg.splits.tally import tallied_divergence

MOVES_PER_EXAMPLE = 1_000
USUAL_MOVES = 25_000_000
MOST_RESTARTS = 15


class Method(StrEnum):
    """How a TMCD split is looked for."""

    ANNEALING = "annealing"
    GREEDY = "greedy"


@dataclass(frozen=True, slots=True)
class TmcdSettings:
    """What to look for and for how long; what is not given is chosen by the size of the dataset.

    `moves` are swaps weighed in one annealing, `restarts` annealings. With `seconds` the result depends on the speed of
    the machine; without, only on the data and the seed.
    """

    method: Method = Method.ANNEALING
    target_divergence: float | None = None
    tolerance: float = 0.001
    max_atom_divergence: float | None = None
    moves: int | None = None
    restarts: int | None = None
    seconds: float | None = None

    def __post_init__(self) -> None:
        for name in ("target_divergence", "max_atom_divergence"):
            value = getattr(self, name)
            if value is not None and not 0 <= value <= 1:
                raise SettingsError(f"{name} is {value}; a divergence lies between 0 and 1")
        for name in ("tolerance", "moves", "restarts", "seconds"):
            value = getattr(self, name)
            if value is not None and value <= 0:
                raise SettingsError(f"{name} is {value}; expected more than 0")

    @property
    def goal(self) -> Goal:
        """These settings as the search sees them."""
        bound = 1.0 if self.max_atom_divergence is None else self.max_atom_divergence
        if self.target_divergence is None:
            return Goal(atom_bound=bound)
        return Goal(self.target_divergence, self.tolerance, bound)

    def budget(self, examples: int) -> Budget:
        """How long to search in a dataset of so many examples."""
        moves = self.moves or MOVES_PER_EXAMPLE * examples
        usual = min(max(USUAL_MOVES // moves, 1), MOST_RESTARTS) if self.seconds is None else math.inf
        return Budget(moves, self.restarts or usual, self.seconds or math.inf)


DEFAULT_SETTINGS = TmcdSettings()


def tmcd_split(
    examples: Sequence[Example],
    sizes: Sizes,
    decomposition: Decomposition,
    rng: random.Random,
    settings: TmcdSettings = DEFAULT_SETTINGS,
) -> Split:
    """A TMCD split; `tmcd_search` is the same work with its steps."""
    search = tmcd_search(decomposed(examples, decomposition), sizes, rng, settings)
    while True:
        try:
            next(search)
        except StopIteration as end:
            split: Split = end.value
            return split


def tmcd_search(
    data: Decomposed, sizes: Sizes, rng: random.Random, settings: TmcdSettings = DEFAULT_SETTINGS
) -> Generator[SearchStep, None, Split]:
    """Steps on the way to a TMCD split, which is the value that the generator returns.

    With a dev part, the divergence is between train and what is held out, of which dev is a random part.
    """
    sizes.check(len(data.atoms.sizes))
    search = greedy_search if settings.method is Method.GREEDY else annealing_search
    problem = Problem(data, sizes.train, settings.goal)
    found = yield from search(problem, settings.budget(sizes.total), rng)
    _check_reached(found, settings)
    held_out = shuffled(found.test.tolist(), rng)
    test, dev = sorted(held_out[sizes.dev :]), sorted(held_out[: sizes.dev])
    train = sorted(found.train.tolist())
    reached = arrangement(data, np.array(train), np.array(test))
    return Split(tuple(train), tuple(test), tuple(dev), _record(reached, settings))


def _record(reached: Arrangement, settings: TmcdSettings) -> Provenance:
    asked = {name: value for name, value in asdict(settings).items() if name != "method" and value is not None}
    return {
        "method": "tmcd",
        "search": str(settings.method),
        **asked,
        "compound_divergence": round(tallied_divergence(reached.compounds), 6),
        "atom_divergence": round(tallied_divergence(reached.atoms), 6),
    }


def _check_reached(found: Arrangement, settings: TmcdSettings) -> None:
    compounds, atoms = tallied_divergence(found.compounds), tallied_divergence(found.atoms)
    if atoms > settings.goal.atom_bound:
        raise NqgError(
            f"no split with an atom divergence of at most {settings.max_atom_divergence} was found, the nearest has "
            f"{atoms:.4f}; allow more, or search longer"
        )
    if settings.target_divergence is not None and gap(found, settings.goal) > settings.tolerance:
        raise NqgError(
            f"no split with a compound divergence of {settings.target_divergence} was found, the nearest has "
            f"{compounds:.4f}; ask for one nearer to that, or search longer"
        )
