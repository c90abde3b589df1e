"""Many cells at once: recipes × systems × seeds as the parts of an engine's work.

Cells do not depend on each other but for hybrids, plain or gated, which need the replies of both of their parts: those
are run first. Workers read data and leave records, replies and unfinished work in the folder of results, so on several
machines it must be one that all of them see.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple

from nqg.engines import Engine
from nqg.experiments.recipe import Recipe, System
from nqg.experiments.records import Record
from nqg.experiments.reproduce import runner
from nqg.experiments.runner import Runner, Tell
from nqg.experiments.weights import UsedWeights

PARTS: tuple[System, ...] = ("nqg", "seq2seq")


class Errand(NamedTuple):
    """A cell, by the number of its plan."""

    plan: int
    system: System
    seed: int


@dataclass(frozen=True)
class Plan:
    """A recipe, with which weights it is to be run, and where."""

    recipe: Recipe
    weights: UsedWeights
    systems: tuple[System, ...]
    results: Path
    device: str | None = None
    mirror: Path | None = None

    def runner(self, tell: Tell = lambda cell, progress: None) -> Runner:
        """What runs its cells, the data prepared."""
        return runner(self.recipe, self.weights, self.results, device=self.device, mirror=self.mirror, tell=tell)

    @property
    def first_systems(self) -> tuple[System, ...]:
        """The systems that are run before the others: those that train, also where only their hybrid is wanted."""
        needed = {*self.systems, *(PARTS if {*self.systems} - {*PARTS} else ())}
        return tuple(system for system in PARTS if system in needed)


def run_plans(plans: Sequence[Plan], seeds: Sequence[int], engine: Engine) -> list[list[Record]]:
    """The records of each plan, seed by seed, those that are there already read and the others made."""
    numbered = list(enumerate(plans))
    first = [
        Errand(number, system, seed) for number, plan in numbered for seed in seeds for system in plan.first_systems
    ]
    asked = [Errand(number, system, seed) for number, plan in numbered for seed in seeds for system in plan.systems]
    made: dict[Errand, Record] = {}
    for errands in (first, [errand for errand in asked if errand.system not in PARTS]):
        made.update(zip(errands, engine.map(partial(_running, tuple(plans)), errands), strict=True))
    return [[made[errand] for errand in asked if errand.plan == number] for number, _ in numbered]


def _running(plans: Sequence[Plan]) -> Callable[[Errand], Record]:
    """What runs a cell; the data of a recipe is prepared when its first cell comes."""
    prepared = cache(lambda number: plans[number].runner())

    def record(errand: Errand) -> Record:
        ready: Runner = prepared(errand.plan)
        return ready.record(ready.cell(errand.system, errand.seed))

    return record
