"""Recipes run cell by cell: what is finished is not run again, what was interrupted goes on.

A cell is a system with its weights and a seed. `nqg` and `seq2seq` train and predict; `hybrid` puts their answers
together; `gated` does so with a gate that is calibrated on examples held out from training (two more trainings).
"""

from __future__ import annotations

import datetime
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple

from nqg.answers import Answer
from nqg.data.examples import distinct_pairs
from nqg.engines import Engine
from nqg.evaluation.evaluation import Evaluation
from nqg.evaluation.metrics import Scores
from nqg.experiments.recipe import Recipe, System, UsedWeights
from nqg.experiments.records import Cell, Record, read_record
from nqg.experiments.task import (
    Outcome,
    Progress,
    Stopwatch,
    Task,
    Workplace,
    fine_tuning_settings,
    nqg_outcome,
    prepared,
    read_answers,
    seq2seq_outcome,
    training_settings,
    write_answers,
)
from nqg.inference.calibration import HeldOut, held_out
from nqg.inference.hybrid import Gate, Trial, calibrated_gate, joined
from nqg.inference.parser import best_device
from nqg.model_folder import held
from nqg.progress import Progress as Report
from nqg.progress import silent
from nqg.run_config import commit, hardware, versions

PACKAGES = ("torch", "transformers", "numpy", "numba")


Run = Callable[[Task, str, int, Workplace], Outcome]
Tell = Callable[[Cell, Progress], None]


@dataclass(frozen=True)
class Runner:
    """One recipe's cells, with the folder of results in which their records are, or will be."""

    task: Task
    results: Path
    weights: UsedWeights
    runs: Mapping[System, Run]  # of the systems that train
    device: str = "cpu"
    tell: Tell = field(default=lambda cell, progress: None)

    @property
    def recipe(self) -> Recipe:
        """What is run."""
        return self.task.recipe

    def records(self, systems: Sequence[System], seeds: Sequence[int]) -> Iterator[Record]:
        """The record of each system and seed, read where it is there already, else made and written."""
        for seed in seeds:
            for system in systems:
                yield self.record(self.cell(system, seed))

    def cell(self, system: System, seed: int) -> Cell:
        """The cell of a system, with the weights that are used."""
        return Cell(self.recipe.name, system, self.weights.label(system), seed)

    def finished(self, cell: Cell) -> Record | None:
        """The record of a cell that was run as the recipe is now, on the same data."""
        path = self.results / cell.file
        if not path.exists():
            return None
        record = read_record(path)
        return record if record.is_of(self.recipe) and record.data == self.task.fingerprint else None

    def record(self, cell: Cell) -> Record:
        """The record of a cell; where another process is at work on it, that one's."""
        if record := self.finished(cell):
            return record
        with held(self._unfinished(cell), wait=True):
            return self.finished(cell) or self._made(cell)

    def _made(self, cell: Cell) -> Record:
        outcome = self._outcome(cell)
        write_answers(self._answers_file(cell), self.task, outcome.answers)
        record = Record(
            cell,
            self._figures(outcome),
            self.weights.asked(cell.system),
            self.recipe.fingerprint(cell.system, cell.weights),
            self.task.fingerprint,
            outcome.settings,
            outcome.seconds,
            versions(*PACKAGES),
            commit(),
            hardware(self.device),
            datetime.date.today().isoformat(),
        )
        record.write(self.results)
        shutil.rmtree(self._unfinished(cell), ignore_errors=True)
        return record

    def _figures(self, outcome: Outcome) -> dict[str, float | None]:
        """What the judges say of the answers, beside the facts of the run and of the split."""
        main, *more = self.task.judges
        judged = {f"{name}_accuracy": self._scores(name, outcome.answers).accuracy for name in more}
        ways = {"": outcome.answers, **{f"{name}_": answers for name, answers in outcome.others.items()}}
        for way, answers in ways.items():
            scores = self._scores(main, answers)
            judged |= {f"{way}{name}": getattr(scores, name) for name in ("accuracy", "coverage", "precision")}
        return {**judged, **outcome.figures, **self.task.split_facts, "test_examples": len(self.task.test)}

    def _scores(self, judge: str, answers: Sequence[Answer]) -> Scores:
        return Scores.of(Evaluation(self.task.judges[judge], self.task.test, answers).verdicts)

    def _outcome(self, cell: Cell) -> Outcome:
        match cell.system:
            case "nqg" | "seq2seq":
                return self._trained(self.task, cell, cell.system, self._unfinished(cell))
            case "hybrid":
                return self._together(cell, Gate(), {})
            case "gated":
                gate = self._calibrated_gate(cell)
                held_out = asdict(gate.calibration) if gate.calibration else {}
                facts = {f"held_out_{name}": value for name, value in held_out.items()}
                return self._together(
                    cell,
                    gate,
                    {"threshold": gate.threshold, "trusts_only_readings": float(gate.trusts_only_readings), **facts},
                )

    def _trained(self, task: Task, cell: Cell, system: System, folder: Path) -> Outcome:
        folder.mkdir(parents=True, exist_ok=True)
        place = Workplace(folder, self.device, lambda progress: self.tell(cell, progress))
        return self.runs[system](task, self.weights.path(system), cell.seed, place)

    def _together(self, cell: Cell, gate: Gate, figures: Mapping[str, float]) -> Outcome:
        """The grammar's answer where it has one that passes the gate, else the fallback's."""
        watch = Stopwatch()
        with watch.timing("training and predicting of the parts"):
            own, other = (self._part(system, cell.seed) for system in ("nqg", "seq2seq"))
        answers = tuple(joined(first, second, gate) for first, second in zip(own, other, strict=True))
        return Outcome(answers, figures, {}, watch.seconds)

    def _part(self, system: System, seed: int) -> tuple[Answer, ...]:
        """The answers of a part of the hybrid; a record without them, as they are not kept in git, is made again."""
        cell = self.cell(system, seed)
        self.record(cell)
        if not self._answers_file(cell).exists():
            with held(self._unfinished(cell), wait=True):
                self._made(cell)
        return read_answers(self._answers_file(cell), self.task)

    def _calibrated_gate(self, cell: Cell) -> Gate:
        """The gate that is best on examples held out from training, of which neither part has seen the templates."""
        parts = held_out(self.task.train, HeldOut.TEMPLATE).parts(distinct_pairs(self.task.train))
        task = replace(self.task, train=tuple(parts.train), test=tuple(parts.test))
        own, other = (self._held_out_answers(task, self.cell(system, cell.seed)) for system in ("nqg", "seq2seq"))
        is_right = next(iter(task.judges.values())).is_right
        asked = zip(own, other, task.test, strict=True)
        return calibrated_gate([Trial.of(first, second, example, is_right) for first, second, example in asked])

    def _held_out_answers(self, task: Task, cell: Cell) -> tuple[Answer, ...]:
        """The answers of one part to held-out examples; kept, because gates of several encoders share a fallback's."""
        fingerprint = self.recipe.fingerprint(cell.system, cell.weights)[:8] + task.fingerprint[:8]
        name = f"held-out-{cell.stem}-{fingerprint}"
        path, folder = (self.results / kind / cell.recipe / name for kind in (".replies", ".unfinished"))
        with held(folder, wait=True):
            if not path.exists():
                write_answers(path, task, self._trained(task, cell, cell.system, folder).answers)
                shutil.rmtree(folder, ignore_errors=True)
        return read_answers(path, task)

    def _answers_file(self, cell: Cell) -> Path:
        return self.results / ".replies" / cell.recipe / f"{cell.stem}.jsonl"

    def _unfinished(self, cell: Cell) -> Path:
        return self.results / ".unfinished" / cell.recipe / cell.stem


RUNS: Mapping[System, Run] = {"nqg": nqg_outcome, "seq2seq": seq2seq_outcome}


def runner(
    recipe: Recipe,
    weights: UsedWeights,
    results: Path,
    *,
    device: str | None = None,
    mirror: Path | None = None,
    report: Report = silent,
    tell: Tell = lambda cell, progress: None,
) -> Runner:
    """A runner of a recipe; its settings are checked and its data prepared before anything is run."""
    training_settings(recipe, weights.encoder, 0), fine_tuning_settings(recipe, weights.seq2seq, 0)
    return Runner(prepared(recipe, mirror, report), results, weights, RUNS, device or best_device(), tell)


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
