"""TMCD splits: the compounds of test differ from those of train, the atoms do not (section 3).

Two searches. *Greedy* is the paper's: from a random start, make every swap that helps until none
does. *Annealing*, the default, accepts worsening swaps at high temperature, starts several times,
and ends with the greedy search. Both come near to a chosen divergence instead of the largest one
when asked to. `nqg.splits.swap_search` does the work; it loads Numba, so it is loaded on first use.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from nqg.data.dataset import Split
from nqg.data.example import Example
from nqg.errors import SettingsError, check_above_zero
from nqg.progress import Progress, silent
from nqg.splits.compounds import Decomposition
from nqg.splits.partition import Sizes


class Goal(NamedTuple):
    """Which compound divergence to come near to, and how much atom divergence to accept.

    A divergence is at most 1, so a search for 1 is a search for the maximum.
    """

    aim: float = 1.0
    tolerance: float = 0.0
    atom_bound: float = 1.0


class Method(StrEnum):
    ANNEALING = "annealing"
    GREEDY = "greedy"


@dataclass(frozen=True, slots=True)
class TmcdSettings:
    """What to look for and for how long. What is not given is chosen by the size of the dataset.

    `moves` are swaps weighed in one annealing, `restarts` annealings. With `seconds` the result depends on the speed of
    the machine; without, only on the data and the seed.

    >>> TmcdSettings(method="greedy").restarts is None
    True
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
                raise SettingsError(
                    f"{name} is {value}; a divergence lies between 0 and 1"
                )
        check_above_zero(self, "tolerance", "moves", "restarts", "seconds")

    @property
    def goal(self) -> Goal:
        """The divergences that the search aims at."""
        goal = Goal()
        if self.target_divergence is not None:
            goal = Goal(self.target_divergence, self.tolerance)
        if self.max_atom_divergence is not None:
            goal = goal._replace(atom_bound=self.max_atom_divergence)
        return goal


DEFAULT_SETTINGS = TmcdSettings()


def tmcd_split(
    examples: Sequence[Example],
    sizes: Sizes,
    decomposition: Decomposition,
    rng: random.Random,
    settings: TmcdSettings = DEFAULT_SETTINGS,
    progress: Progress = silent,
) -> Split:
    """A TMCD split of examples whose targets have this decomposition."""
    from nqg.splits.swap_search import decomposed, tmcd_search

    return tmcd_search(
        decomposed(examples, decomposition), sizes, rng, settings, progress
    )
