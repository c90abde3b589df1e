"""Recipes run cell by cell: what is finished is not run again, what was interrupted goes on.

A cell is a system with its weights and a seed. `nqg`, the paper's parser, `typed`, which has only legal derivations,
`inferred`, whose types come from the training programs, `syntactic-attention` and `cgps`, which others have published,
`seq2seq` and `augmented`, which learns from samples of the grammar too, train and predict; `hybrid` puts the answers of
`nqg` and `seq2seq` together; `gated` does so with a gate that is calibrated on examples held out from training (two
more trainings).
"""

from __future__ import annotations

import datetime
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple

from nqg.answers import ILLEGAL, Answer
from nqg.data.example import distinct_pairs
from nqg.evaluation.calibration import GateTrial, HeldOut, calibrated_gate, held_out
from nqg.evaluation.evaluation import Evaluation
from nqg.evaluation.metrics import Scores
from nqg.inference.hybrid import Gate, combine
from nqg.model_folder import held
from nqg.paper.recipe import FALLBACKS, PUBLISHED, Recipe, SystemName, UsedWeights
from nqg.paper.records import Cell, Record, find_record, write_record
from nqg.paper.systems import (
    LEGAL,
    RUNS,
    RecipeData,
    RunContext,
    RunResult,
    SystemRun,
    error_figures,
    fine_tuning_settings,
    read_answers,
    timed,
    training_settings,
    write_answers,
)
from nqg.parallel import Engine
from nqg.progress import Progress, silent
from nqg.run_config import commit, hardware, versions
from nqg.training.processes import best_device

PACKAGES = ("torch", "transformers", "numpy", "numba")
HYBRID_PARTS: tuple[SystemName, ...] = ("nqg", "seq2seq")


@dataclass(frozen=True)
class Runner:
    """One recipe's cells, with the folder of results in which their records are, or will be."""

    data: RecipeData
    results: Path
    weights: UsedWeights
    runs: Mapping[SystemName, SystemRun]  # of the systems that train
    device: str = "cpu"
    progress: Progress = silent

    @property
    def recipe(self) -> Recipe:
        return self.data.recipe

    def records(self, systems: Sequence[SystemName], seeds: Sequence[int]) -> Iterator[Record]:
        """The record of each system and seed, read where it is there already, else made and written."""
        return (self.record(self.cell(system, seed)) for seed in seeds for system in systems)

    def cell(self, system: SystemName, seed: int) -> Cell:
        return Cell(self.recipe.name, system, self.weights.label(system), seed)

    def finished(self, cell: Cell) -> Record | None:
        """The record of a cell that was run as the recipe is now, on the same data."""
        record = find_record(self.results, cell)
        if record is None or not record.is_of(self.recipe) or record.data != self.data.fingerprint:
            return None
        return self._with_errors(record)

    def _with_errors(self, record: Record) -> Record:
        """The record of a system without a grammar with its errors by cause, which older ones lack."""
        has_errors = "errors" in record.figures or record.cell.system not in (
            *FALLBACKS,
            *PUBLISHED,
        )
        if has_errors or not (path := self._answers_file(record.cell)).exists():
            return record
        figures = error_figures(self.data, read_answers(path, self.data.test))
        if (
            round(len(self.data.test) * (1 - (record.figures["accuracy"] or 0)))
            != figures["errors"]
        ):
            return record  # the answers are of another run
        found = replace(record, figures={**record.figures, **figures})
        write_record(self.results, found)
        return found

    def record(self, cell: Cell) -> Record:
        """The record of a cell; where another process is at work on it, that one's."""
        if record := self.finished(cell):
            return record
        with held(self._unfinished(cell), wait=True):
            return self.finished(cell) or self._run(cell)

    def _run(self, cell: Cell) -> Record:
        match cell.system:
            case "hybrid":
                result = self._join(cell, Gate(), {})
            case "gated":
                gate = self._calibrate(cell)
                held_out = asdict(gate.calibration) if gate.calibration else {}
                figures = {
                    "threshold": gate.threshold,
                    "trusts_only_readings": float(gate.trusts_only_readings),
                }
                result = self._join(
                    cell, gate, figures | {f"held_out_{name}": held_out[name] for name in held_out}
                )
            case _:
                result = self._train(self.data, cell, self._unfinished(cell))
        for way, answers in {"": result.answers, **result.others}.items():
            write_answers(self._answers_file(cell, way), self.data.test, answers)
        record = Record(
            cell,
            self._figures(cell.system, result),
            self.weights.asked(cell.system),
            self.recipe.fingerprint(cell.system, cell.weights),
            self.data.fingerprint,
            result.settings,
            result.seconds,
            versions(*PACKAGES),
            commit(),
            hardware(self.device),
            datetime.date.today().isoformat(),
        )
        write_record(self.results, record)
        shutil.rmtree(self._unfinished(cell), ignore_errors=True)
        return record

    def _train(self, data: RecipeData, cell: Cell, folder: Path) -> RunResult:
        folder.mkdir(parents=True, exist_ok=True)

        def progress(what: str, done: int, total: int | None) -> None:
            self.progress(f"{cell}: {what}", done, total)

        context = RunContext(folder, self.device, progress)
        return self.runs[cell.system](data, self.weights.path(cell.system), cell.seed, context)

    def _figures(self, system: SystemName, result: RunResult) -> dict[str, float | None]:
        """What the judges say of the answers, beside the figures of the run and of the split."""

        def scores(judge: str, answers: Sequence[Answer]) -> Scores:
            return Scores.of(Evaluation(self.data.judges[judge], self.data.test, answers).verdicts)

        main, *more = self.data.judges
        judged: dict[str, float | None] = {
            f"{name}_accuracy": scores(name, result.answers).accuracy for name in more
        }
        for way, answers in {
            "": result.answers,
            **{f"{name}_": each for name, each in result.others.items()},
        }.items():
            found = scores(main, answers)
            judged |= {
                f"{way}{name}": getattr(found, name)
                for name in ("accuracy", "coverage", "precision")
            }
        if system in (*FALLBACKS, *PUBLISHED):
            judged |= error_figures(self.data, result.answers)
        return {
            **judged,
            **result.figures,
            **self.data.split_figures,
            "test_examples": len(self.data.test),
        }

    def _join(self, cell: Cell, gate: Gate, figures: Mapping[str, float]) -> RunResult:
        """The answers of both parts as the hybrid's; one whose answers are missing, as git has none, is run again.

        SQL of the grammar that its database cannot run is no answer. Where the fallback was also decoded under a
        grammar or schemas, there is a hybrid with that, too.
        """
        seconds, (own_cell, other_cell) = (
            dict[str, float](),
            [self.cell(system, cell.seed) for system in HYBRID_PARTS],
        )
        with timed(seconds, "training and predicting of the parts"):
            for part in (own_cell, other_cell):
                self.record(part)
                if not self._answers_file(part).exists():
                    with held(self._unfinished(part), wait=True):
                        self._run(part)
        is_fitting, test = self.data.schema_check(), self.data.test
        own = [
            answer
            if is_fitting(answer)
            else replace(answer, target=None, reason=answer.reason or ILLEGAL)
            for answer in read_answers(self._answers_file(own_cell), test)
        ]
        found = {
            way: tuple(
                combine(*pair, gate) for pair in zip(own, read_answers(path, test), strict=True)
            )
            for way in ("", LEGAL)
            if (path := self._answers_file(other_cell, way)).exists()
        }
        return RunResult(found.pop(""), figures, {}, seconds, found)

    def _calibrate(self, cell: Cell) -> Gate:
        """The gate that is best on examples held out from training, of which neither part has seen the templates.

        What the parts answer to them is kept, because gates of several encoders share a fallback's.
        """
        split = held_out(self.data.train, HeldOut.TEMPLATE).parts(distinct_pairs(self.data.train))
        data = replace(self.data, train=tuple(split.train), test=tuple(split.test))
        parts = []
        for part in (self.cell(system, cell.seed) for system in HYBRID_PARTS):
            fingerprint = (
                self.recipe.fingerprint(part.system, part.weights)[:8] + data.fingerprint[:8]
            )
            name = f"held-out-{part.stem}-{fingerprint}"
            path, folder = (
                self.results / kind / part.recipe / name for kind in (".replies", ".unfinished")
            )
            with held(folder, wait=True):
                if not path.exists():
                    write_answers(path, data.test, self._train(data, part, folder).answers)
                    shutil.rmtree(folder, ignore_errors=True)
            parts.append(read_answers(path, data.test))
        is_right = next(iter(data.judges.values())).is_right
        asked = zip(*parts, data.test, strict=True)
        return calibrated_gate(
            [GateTrial.of(own, other, example, is_right) for own, other, example in asked]
        )

    def _answers_file(self, cell: Cell, way: str = "") -> Path:
        return self.results / ".replies" / cell.recipe / f"{cell.stem}{way and f'-{way}'}.jsonl"

    def _unfinished(self, cell: Cell) -> Path:
        return self.results / ".unfinished" / cell.recipe / cell.stem


@dataclass(frozen=True)
class Plan:
    recipe: Recipe
    weights: UsedWeights
    systems: tuple[SystemName, ...]
    results: Path
    device: str | None = None
    mirror: Path | None = None

    def runner(self, progress: Progress = silent) -> Runner:
        """What runs its cells; settings are checked and the data prepared before anything is run."""
        training_settings(self.recipe, self.weights.encoder, 0)
        for system in FALLBACKS:
            fine_tuning_settings(self.recipe, self.weights.seq2seq, 0, system)
        data = RecipeData.load(self.recipe, self.mirror, progress)
        return Runner(
            data, self.results, self.weights, RUNS, self.device or best_device(), progress
        )

    @property
    def first_systems(self) -> tuple[SystemName, ...]:
        """The systems that are run before the others: those that train, also where only their hybrid is wanted."""
        needed = {*self.systems, *(HYBRID_PARTS if {*self.systems} - {*RUNS} else ())}
        return tuple(system for system in RUNS if system in needed)


class PlannedRun(NamedTuple):
    """A cell, by the number of its plan."""

    plan: int
    system: SystemName
    seed: int


def run_plans(plans: Sequence[Plan], seeds: Sequence[int], engine: Engine) -> list[list[Record]]:
    """The records of each plan, seed by seed, those that are there already read and the others made."""
    jobs = [(number, seed, plan) for number, plan in enumerate(plans) for seed in seeds]
    first = [
        PlannedRun(number, system, seed)
        for number, seed, plan in jobs
        for system in plan.first_systems
    ]
    asked = [
        PlannedRun(number, system, seed) for number, seed, plan in jobs for system in plan.systems
    ]
    made: dict[PlannedRun, Record] = {}
    for stage in (first, [run for run in asked if run.system not in RUNS]):
        made.update(
            zip(stage, engine.map(partial(planned_records, tuple(plans)), stage), strict=True)
        )
    return [[made[run] for run in asked if run.plan == number] for number in range(len(plans))]


def planned_records(plans: Sequence[Plan]) -> Callable[[PlannedRun], Record]:
    """What runs a cell; the data of a recipe is prepared when its first cell comes."""
    runners = cache(lambda number: plans[number].runner())

    def record(run: PlannedRun) -> Record:
        runner: Runner = runners(run.plan)
        return runner.record(runner.cell(run.system, run.seed))

    return record
