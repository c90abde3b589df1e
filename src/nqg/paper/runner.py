"""Recipes run cell by cell: what is finished is not run again, what was interrupted goes on.

A cell is a system with its weights and a seed. Most systems train and predict (`systems.RUNS`).
`hybrid` puts the answers of `nqg` and `seq2seq` together; `gated` does so with a gate that is
calibrated on examples held out from training, which takes two more trainings.
"""

from __future__ import annotations

import datetime
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache, partial
from itertools import chain, product, starmap
from pathlib import Path
from typing import NamedTuple

from nqg.answers import ILLEGAL, Answer
from nqg.data.example import distinct_pairs
from nqg.evaluation.calibration import HeldOut, held_out
from nqg.evaluation.evaluation import Evaluation, Judge
from nqg.evaluation.metrics import Scores
from nqg.model.tensors import best_device
from nqg.model_folder import exclusive
from nqg.paper.environment import commit, hardware, versions
from nqg.paper.gate import Gate, GateTrial, calibrated_gate, gated
from nqg.paper.recipe import FALLBACKS, PUBLISHED, Recipe, SystemName, UsedWeights
from nqg.paper.records import (
    HYBRID_PARTS,
    HYBRIDS,
    LEGAL,
    ONE_FALLBACK,
    Cell,
    Record,
    find_record,
    is_stale,
    records,
    write_record,
)
from nqg.paper.systems import (
    RUNS,
    RecipeData,
    RunResult,
    SystemRun,
    SystemTask,
    error_figures,
    fine_tuning_settings,
    read_answers,
    training_settings,
    unseen_figures,
    write_answers,
)
from nqg.parallel import Engine
from nqg.pipeline.events import Event, WorkDone
from nqg.pipeline.run import Run
from nqg.progress import Progress, silent

PACKAGES = ("torch", "transformers", "numpy", "numba")


@dataclass(frozen=True)
class Runner:
    """One recipe's cells, with the folder of results in which their records are, or will be."""

    data: RecipeData
    results: Path
    weights: UsedWeights
    # Of the systems that train.
    runs: Mapping[SystemName, SystemRun]
    device: str = "cpu"
    progress: Progress = silent

    @property
    def recipe(self) -> Recipe:
        return self.data.recipe

    def records(
        self, systems: Sequence[SystemName], seeds: Sequence[int]
    ) -> Iterator[Record]:
        """The record of each system and seed, read where it is there already, else made and
        written.
        """
        for seed in seeds:
            for system in systems:
                yield self.record(self.cell(system, seed))

    def cell(self, system: SystemName, seed: int) -> Cell:
        return Cell(self.recipe.name, system, self.weights.label(system), seed)

    def finished(self, cell: Cell) -> Record | None:
        """The record of a cell that was run as the recipe is now, on the same data."""
        record = find_record(self.results, cell)
        if record is None or record.data != self.data.fingerprint:
            return None
        if not record.is_of(self.recipe):
            return None
        # A hybrid is made again when one of the records that it joins is newer.
        if cell.system in HYBRIDS and is_stale(record, records(self.results)):
            return None
        return record

    def record(self, cell: Cell) -> Record:
        """The record of a cell; where another process is at work on it, that process's."""
        record = self.finished(cell)
        if record:
            return record
        # Another process may have finished it while this one waited.
        with exclusive(self._unfinished(cell), wait=True):
            return self.finished(cell) or self._run(cell)

    def _run(self, cell: Cell) -> Record:
        system, folder = cell.system, self._unfinished(cell)
        # Hybrids join answers; all others train and predict.
        if system == "hybrid":
            result = self._join(cell, Gate())
        elif system == "gated":
            gate = self._calibrate(cell)
            result = self._join(cell, gate)
            # What the gate was chosen by is part of the record.
            result.figures["threshold"] = gate.threshold
            result.figures["trusts_only_readings"] = float(gate.trusts_only_readings)
            if gate.calibration:
                for name, value in asdict(gate.calibration).items():
                    result.figures[f"held_out_{name}"] = value
        else:
            result = self._train(self.data, cell, folder)
        for decoding, answers in {"": result.answers, **result.others}.items():
            write_answers(self._answers_file(cell, decoding), self.data.test, answers)
        # The record says of what and by what it was made.
        fingerprint = self.recipe.fingerprint(system, cell.weights)
        today = datetime.date.today().isoformat()
        record = Record(
            cell,
            self._figures(system, result),
            self.weights.asked(system),
            fingerprint,
            self.data.fingerprint,
            result.settings,
            result.seconds,
            versions(*PACKAGES),
            commit(),
            hardware(self.device),
            today,
        )
        write_record(self.results, record)
        shutil.rmtree(folder, ignore_errors=True)
        return record

    def _train(self, data: RecipeData, cell: Cell, folder: Path) -> RunResult:
        # What is unfinished stays in the folder, so that the next run goes on from there.
        folder.mkdir(parents=True, exist_ok=True)

        def listen(event: Event) -> None:
            if isinstance(event, WorkDone):
                self.progress(event.what, event.done, event.total)

        run = Run(folder=folder, device=self.device, listener=listen, label=f"{cell}: ")
        return self.runs[cell.system](
            SystemTask(data, self.weights.path(cell.system), cell.seed, run)
        )

    def _figures(
        self, system: SystemName, result: RunResult
    ) -> dict[str, float | None]:
        """What the judges say of the answers, beside the figures of the run and of the split."""

        def scores(judge: Judge, answers: Sequence[Answer]) -> Scores:
            return Scores.of(Evaluation(judge, self.data.test, answers).verdicts)

        # Other judges than the recipe's tell of accuracy alone.
        figures: dict[str, float | None] = {}
        for name, judge in self.data.judges.items():
            if judge is not self.data.judge:
                figures[f"{name}_accuracy"] = scores(judge, result.answers).accuracy
        # The recipe's judge scores every way of decoding.
        decodings = {f"{name}_": answers for name, answers in result.others.items()}
        for prefix, answers in ({"": result.answers} | decodings).items():
            judged = scores(self.data.judge, answers)
            for name in ("accuracy", "coverage", "precision"):
                figures[prefix + name] = getattr(judged, name)
        if system in (*FALLBACKS, *PUBLISHED):
            figures.update(error_figures(self.data, result.answers))
            figures.update(unseen_figures(self.data, result.answers))
        figures.update(result.figures)
        figures.update(self.data.split_figures)
        figures["test_examples"] = len(self.data.test)
        return figures

    def _join(self, cell: Cell, gate: Gate) -> RunResult:
        """The answers of both systems as the hybrid's.

        A system whose answers are missing, as git has none, is run again. SQL of the grammar that
        its database cannot run is no answer. Where the fallback was also decoded under a grammar
        or schemas, there is a hybrid with that, too.
        """
        # Both systems must have run, and their answers must be there.
        begin = time.perf_counter()
        grammar_cell, fallback_cell = self._hybrid_cells(cell)
        for trained in (grammar_cell, fallback_cell):
            self.record(trained)
            if not self._answers_file(trained).exists():
                with exclusive(self._unfinished(trained), wait=True):
                    self._run(trained)
        seconds = round(time.perf_counter() - begin, 3)
        # The grammar's answers, without SQL that does not fit its database.
        is_fitting, test = self.data.schema_check(), self.data.test
        grammar_answers = []
        for answer in read_answers(self._answers_file(grammar_cell), test):
            if not is_fitting(answer):
                answer = replace(answer, target=None, reason=answer.reason or ILLEGAL)
            grammar_answers.append(answer)
        # One hybrid for each way in which the fallback was decoded.
        joined = {}
        for decoding in ("", LEGAL):
            path = self._answers_file(fallback_cell, decoding)
            if path.exists():
                pairs = zip(grammar_answers, read_answers(path, test))
                joined[decoding] = tuple(gated(*pair, gate) for pair in pairs)
        # Deviations of the paper's hybrids have one T5 in them, ours that of seed 0.
        path = self._answers_file(replace(fallback_cell, seed=0))
        if cell.system == "hybrid" and path.exists():
            pairs = zip(grammar_answers, read_answers(path, test))
            joined[ONE_FALLBACK] = tuple(gated(*pair, gate) for pair in pairs)
        stages = {"training and predicting of the parts": seconds}
        return RunResult(joined.pop(""), {}, {}, stages, joined)

    def _hybrid_cells(self, cell: Cell) -> list[Cell]:
        return [self.cell(system, cell.seed) for system in HYBRID_PARTS]

    def _calibrate(self, cell: Cell) -> Gate:
        """The gate that is best on examples held out from training, whose templates neither system
        has seen.

        The systems' answers to them are kept, because gates of several encoders share a fallback's.
        """
        split = held_out(self.data.train, HeldOut.TEMPLATE).parts(
            distinct_pairs(self.data.train)
        )
        data = replace(self.data, train=tuple(split.train), test=tuple(split.test))
        # The answers of both systems, trained on what is not held out.
        answers = []
        for trained in self._hybrid_cells(cell):
            fingerprint = self.recipe.fingerprint(trained.system, trained.weights)
            # Other settings or other data give another file.
            stem = f"held-out-{trained.stem}-{fingerprint[:8]}{data.fingerprint[:8]}"
            path = self.results / ".replies" / trained.recipe / stem
            folder = self.results / ".unfinished" / trained.recipe / stem
            with exclusive(folder, wait=True):
                if not path.exists():
                    write_answers(
                        path, data.test, self._train(data, trained, folder).answers
                    )
                    shutil.rmtree(folder, ignore_errors=True)
            answers.append(read_answers(path, data.test))
        is_right = data.judge.is_right
        trials = []
        for by_grammar, by_fallback, example in zip(*answers, data.test):
            trials.append(GateTrial.of(by_grammar, by_fallback, example, is_right))
        return calibrated_gate(trials)

    def _answers_file(self, cell: Cell, decoding: str = "") -> Path:
        name = f"{cell.stem}-{decoding}" if decoding else cell.stem
        return self.results / ".replies" / cell.recipe / f"{name}.jsonl"

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
        """The runner of the cells; before, settings are checked and the data prepared."""
        training_settings(self.recipe, self.weights.encoder, 0)
        # Settings that are wrong are refused before anything is trained.
        data = RecipeData.load(self.recipe, self.mirror, progress)
        task = SystemTask(data, self.weights.seq2seq, 0, Run())
        for name in ("seq2seq", "augmented", "taught"):
            fine_tuning_settings(task, name)
        device = self.device or best_device()
        return Runner(data, self.results, self.weights, RUNS, device, progress)

    @property
    def first_systems(self) -> tuple[SystemName, ...]:
        """The systems that train, also where only their hybrid is wanted: they run first."""
        needed = {*self.systems}
        if needed - {*RUNS}:
            # Hybrids are not in `RUNS`.
            needed.update(HYBRID_PARTS)
        return tuple(system for system in RUNS if system in needed)


class PlannedRun(NamedTuple):
    """A cell, by the number of its plan."""

    plan: int
    seed: int
    system: SystemName


def run_plans(
    plans: Sequence[Plan], seeds: Sequence[int], engine: Engine
) -> list[list[Record]]:
    """The records of each plan, seed by seed, those that are there already read and the others
    made.
    """
    trained: list[PlannedRun] = []
    wanted: list[list[PlannedRun]] = []
    for number, plan in enumerate(plans):
        trained += starmap(PlannedRun, product([number], seeds, plan.first_systems))
        runs = starmap(PlannedRun, product([number], seeds, plan.systems))
        wanted.append(list(runs))
    # Hybrids join the answers of systems that must have run before.
    hybrids = [run for run in chain.from_iterable(wanted) if run.system not in RUNS]
    records: dict[PlannedRun, Record] = {}
    for stage in (trained, hybrids):
        results = engine.map(partial(planned_records, tuple(plans)), stage)
        records.update(zip(stage, results))
    return [list(map(records.__getitem__, runs)) for runs in wanted]


def planned_records(plans: Sequence[Plan]) -> Callable[[PlannedRun], Record]:
    """What runs a cell; the data of a recipe is prepared when its first cell comes."""
    runners = cache(lambda number: plans[number].runner())

    def record(run: PlannedRun) -> Record:
        runner: Runner = runners(run.plan)
        return runner.record(runner.cell(run.system, run.seed))

    return record
