"""Recipes × systems × seeds as parts of one work: who is run first, what comes back, and that workers agree."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from nqg.answers import Answer
from nqg.paper import runner as reproduce
from nqg.paper.recipe import SystemName, UsedWeights, read_recipe
from nqg.paper.runner import Plan, PlannedRun, run_plans
from nqg.paper.systems import RunResult, SystemTask
from nqg.parallel import Engine, Prepare

RECIPE = read_recipe("scan-jump")


@dataclass(frozen=True)
class Watched(Engine):
    """An engine that remembers what it was given."""

    given: list[list[Any]] = field(default_factory=list)

    def map(self, prepare: Prepare[Any, Any], chunks: Iterable[Any]) -> Iterator[Any]:
        self.given.append(list(chunks))
        return Engine().map(prepare, self.given[-1])


def right(task: SystemTask) -> RunResult:
    answers = tuple(
        Answer(example.source, example.target, 1.0, "grammar")
        for example in task.data.test
    )
    return RunResult(answers, {"rules": float(task.seed)}, {}, {"training": 0.1})


@pytest.fixture
def _instant(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reproduce, "RUNS", {"nqg": right, "seq2seq": right})


def plan(results: Path, *systems: SystemName, recipe: str = "scan-jump") -> Plan:
    chosen = read_recipe(recipe)
    return Plan(
        chosen, UsedWeights(chosen, "embedded", "embedded"), systems, results, "cpu"
    )


@pytest.mark.parametrize(
    ("systems", "first"),
    [
        (("nqg",), ("nqg",)),
        (("seq2seq",), ("seq2seq",)),
        (("hybrid",), ("nqg", "seq2seq")),
        (("nqg", "gated"), ("nqg", "seq2seq")),
    ],
)
def test_what_trains_is_run_before_the_hybrids_that_need_it(
    tmp_path: Path, systems: tuple[SystemName, ...], first: tuple[SystemName, ...]
) -> None:
    assert plan(tmp_path, *systems).first_systems == first


@pytest.mark.usefixtures("_instant")
def test_every_recipe_system_and_seed_is_a_part_and_hybrids_come_second(
    tmp_path: Path,
) -> None:
    engine = Watched()
    plans = [
        plan(tmp_path, "nqg", "hybrid"),
        plan(tmp_path, "nqg", recipe="scan-length"),
    ]
    jump, length = run_plans(plans, range(2), engine)
    one, two, three = (
        PlannedRun(0, 0, "nqg"),
        PlannedRun(0, 0, "seq2seq"),
        PlannedRun(1, 0, "nqg"),
    )
    assert engine.given == [
        [
            one,
            two,
            one._replace(seed=1),
            two._replace(seed=1),
            three,
            three._replace(seed=1),
        ],
        [PlannedRun(0, 0, "hybrid"), PlannedRun(0, 1, "hybrid")],
    ]
    assert [(record.cell.system, record.cell.seed) for record in jump] == [
        ("nqg", 0),
        ("hybrid", 0),
        ("nqg", 1),
        ("hybrid", 1),
    ]
    assert [record.figures["rules"] for record in length] == [0.0, 1.0]
    assert all(record.figures["accuracy"] == 1.0 for record in (*jump, *length))


@pytest.mark.usefixtures("_instant")
def test_two_workers_find_the_records_that_one_process_made(tmp_path: Path) -> None:
    plans = [plan(tmp_path, "nqg", "seq2seq", "hybrid")]
    made = run_plans(plans, range(1), Engine())
    assert run_plans(plans, range(1), Engine("local", 2)) == made
