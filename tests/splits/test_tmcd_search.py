"""The searches: what they keep, what they reach, and when they stop."""

from __future__ import annotations

import itertools
import random
import time
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from nqg.data.example import Example
from nqg.errors import SettingsError
from nqg.splits.compounds import BRACKET_TREES
from nqg.splits.swap_search import (
    TEMPERATURE_STEPS,
    Arrangement,
    Budget,
    Clock,
    Decomposed,
    Problem,
    anneal,
    annealing_search,
    arrangement,
    decomposed,
    gap,
    greedy_search,
    hill_climb,
    lower_atom_divergence,
    outcome_of_swap,
    random_start,
    removes_last_atom,
    swap_if_legal,
    tallied_divergence,
    typical_change,
)
from nqg.splits.tmcd import Goal
from oracles import largest_divergence
from strategies import program_examples

PROGRAMS = [
    f"answer ( {f} ( {g} ( {x} ) ) )"
    for f in "abcd"
    for g in "abcd"
    for x in ("m0", "m1", "all")
]


def programs() -> Decomposed:
    return decomposed([Example("s", target) for target in PROGRAMS], BRACKET_TREES)


class Step(NamedTuple):
    done: float
    start: int
    divergence: float


def run(
    search: Callable[..., Arrangement],
    problem: Problem,
    budget: Budget,
    rng: random.Random,
    clock: Clock = time.monotonic,
) -> tuple[list[Step], Arrangement]:
    steps: list[Step] = []

    def report(done: float, start: int, current: Arrangement) -> None:
        steps.append(Step(done, start, tallied_divergence(current.compounds)))

    return steps, search(problem, budget, rng, report, clock)


def recounted(data: Decomposed, found: Arrangement) -> Arrangement:
    return arrangement(data, found.train, found.test)


@settings(max_examples=25)
@given(program_examples(5, 8), st.integers(0, 2**32))
def test_annealing_finds_next_to_the_largest_divergence_of_small_datasets(
    examples: list[Example], seed: int
) -> None:
    data = decomposed(examples, BRACKET_TREES)
    train_size = len(examples) // 2 + 1
    try:
        _, found = run(
            annealing_search,
            Problem(data, train_size, Goal()),
            Budget(3000, 3),
            random.Random(seed),
        )
    except SettingsError:
        assume(False)
    compounds, atoms = (
        [read(each.target) for each in examples]
        for read in (BRACKET_TREES.compounds, BRACKET_TREES.atoms)
    )
    best = largest_divergence(compounds, atoms, train_size)
    assert (
        0.99 * best
        <= tallied_divergence(recounted(data, found).compounds)
        <= best + 1e-9
    )


@pytest.mark.parametrize("search", [annealing_search, greedy_search])
def test_what_was_counted_along_the_way_equals_a_recount(
    search: Callable[..., Arrangement],
) -> None:
    data = programs()
    _, found = run(search, Problem(data, 30, Goal()), Budget(5000, 2), random.Random(1))
    fresh = recounted(data, found)
    assert found.compounds.train.tolist() == fresh.compounds.train.tolist()
    assert found.atoms.test.tolist() == fresh.atoms.test.tolist()
    assert tallied_divergence(found.compounds) == pytest.approx(
        tallied_divergence(fresh.compounds), abs=1e-12
    )
    assert fresh.atoms.train.min() >= 1
    assert sorted([*found.train, *found.test]) == list(range(len(PROGRAMS)))


def test_the_greedy_search_ends_where_no_legal_swap_helps() -> None:
    data = programs()
    _, found = run(
        greedy_search, Problem(data, 30, Goal()), Budget(1), random.Random(3)
    )
    here = tallied_divergence(found.compounds)
    for leaving, entering in itertools.product(found.train, found.test):
        helps = (
            outcome_of_swap(found.compounds, leaving, entering).divergence > here + 1e-9
        )
        assert not helps or removes_last_atom(found.atoms, leaving, entering)


def test_climbing_goes_on_where_it_stopped() -> None:
    data = programs()
    at_once, in_pieces = (random_start(data, 30, random.Random(5)) for _ in range(2))
    hill_climb(at_once, Goal(), np.zeros(2, dtype=np.int64), 10**6)
    place = np.zeros(2, dtype=np.int64)
    while place[1] < 30 * 18:
        hill_climb(in_pieces, Goal(), place, 7)
    assert at_once.train.tolist() == in_pieces.train.tolist()


def test_annealing_beats_the_greedy_search() -> None:
    data = programs()
    _, annealed = run(
        annealing_search, Problem(data, 30, Goal()), Budget(20_000, 3), random.Random(0)
    )
    greedy = [
        run(greedy_search, Problem(data, 30, Goal()), Budget(1), random.Random(seed))[1]
        for seed in range(3)
    ]
    worst = min(tallied_divergence(found.compounds) for found in greedy)
    assert tallied_divergence(annealed.compounds) > worst


def test_at_no_temperature_annealing_only_improves() -> None:
    found = random_start(programs(), 30, random.Random(2))
    randomness = np.random.default_rng(0)
    divergences = []
    for _ in range(20):
        anneal(found, Goal(), 1e-12, 50, randomness)
        divergences.append(tallied_divergence(found.compounds))
    assert divergences == sorted(divergences)
    assert divergences[-1] > divergences[0]


def test_at_a_high_temperature_annealing_wanders() -> None:
    found = random_start(programs(), 30, random.Random(2))
    before = set(found.train.tolist())
    anneal(found, Goal(), 100.0, 2000, np.random.default_rng(0))
    assert set(found.train.tolist()) != before
    assert tallied_divergence(found.compounds) < 0.3


def test_annealing_stops_on_the_spot_once_the_goal_is_met() -> None:
    found = random_start(programs(), 30, random.Random(2))
    before = found.train.tolist()
    goal = Goal(aim=tallied_divergence(found.compounds), tolerance=1e-6)
    anneal(found, goal, 100.0, 2000, np.random.default_rng(0))
    assert found.train.tolist() == before


def test_the_typical_change_is_the_mean_over_swaps() -> None:
    found = random_start(programs(), 30, random.Random(2))
    here = tallied_divergence(found.compounds)
    changes = [
        abs(outcome_of_swap(found.compounds, leaving, entering).divergence - here)
        for leaving, entering in itertools.product(found.train, found.test)
    ]
    measured = typical_change(found, 20_000, np.random.default_rng(0))
    assert measured == pytest.approx(sum(changes) / len(changes), rel=0.05)


def test_an_illegal_swap_is_not_made() -> None:
    data = decomposed(
        [Example("s", target) for target in ("f ( a )", "f ( b )", "f ( b )")],
        BRACKET_TREES,
    )
    found = arrangement(data, np.array([0, 1]), np.array([2]))
    assert not swap_if_legal(found, Goal(), 0, 0)
    assert swap_if_legal(found, Goal(), 1, 0)
    assert (found.train.tolist(), found.test.tolist()) == ([0, 2], [1])


def test_above_the_bound_only_swaps_that_lower_the_atom_divergence_are_made() -> None:
    targets = ["f ( a )"] * 4 + ["f ( b )"] * 4
    data = decomposed([Example("s", target) for target in targets], BRACKET_TREES)
    found = arrangement(data, np.array([0, 1, 2, 4]), np.array([3, 5, 6, 7]))
    bound = Goal(atom_bound=0.0)
    assert not swap_if_legal(found, bound, 3, 0)  # b for a: further apart
    assert swap_if_legal(found, bound, 0, 1)  # a for b: two of each on both sides
    assert tallied_divergence(found.atoms) == pytest.approx(0, abs=1e-12)
    assert not swap_if_legal(found, bound, 1, 2)


def test_settling_brings_atoms_under_their_bound_first() -> None:
    data = programs()
    start = random_start(data, 30, random.Random(8))
    before = tallied_divergence(start.atoms)
    bound = Goal(atom_bound=before / 4)
    lower_atom_divergence(start, bound, 100_000, np.random.default_rng(0))
    assert tallied_divergence(start.atoms) <= before / 4


def test_a_bound_on_atoms_holds_at_the_end_and_costs_divergence() -> None:
    data = programs()
    free, bound = (
        run(
            annealing_search,
            Problem(data, 30, Goal(atom_bound=bound)),
            Budget(20_000, 2),
            random.Random(4),
        )[1]
        for bound in (1.0, 0.005)
    )
    assert tallied_divergence(bound.atoms) <= 0.005 < tallied_divergence(free.atoms)
    assert tallied_divergence(bound.compounds) < tallied_divergence(free.compounds)


@pytest.mark.parametrize("aim", [0.1, 0.2, 0.3])
def test_a_chosen_divergence_is_met(aim: float) -> None:
    goal = Goal(aim, tolerance=0.01)
    _, found = run(
        annealing_search,
        Problem(programs(), 30, goal),
        Budget(20_000, 3),
        random.Random(6),
    )
    assert gap(found, goal) <= 0.01


def test_steps_say_how_far_the_search_is() -> None:
    problem = Problem(programs(), 30, Goal())
    steps, found = run(
        annealing_search, problem, Budget(1000, 3), random.Random(0), clock=lambda: 0.0
    )
    shares = [step.done for step in steps]
    assert shares == sorted(shares)
    assert (shares[0], shares[-1]) == (0.0, 1.0)
    assert [step.start for step in steps[::TEMPERATURE_STEPS][:3]] == [1, 2, 3]
    assert Counter(step.start for step in steps)[1] == TEMPERATURE_STEPS
    assert steps[-1].divergence == tallied_divergence(found.compounds)


def test_a_time_budget_cools_faster_and_then_stops() -> None:
    ticks = itertools.count()
    problem = Problem(programs(), 30, Goal())
    budget = Budget(moves=100_000, seconds=40.0)
    steps, found = run(
        annealing_search,
        problem,
        budget,
        random.Random(0),
        clock=lambda: float(next(ticks)),
    )
    assert 5 < len(steps) < 40
    assert steps[-1].start <= 3
    assert tallied_divergence(found.compounds) > 0.3


def test_the_greedy_search_obeys_the_time_budget_too() -> None:
    ticks = itertools.count()
    problem = Problem(programs(), 30, Goal())
    steps, _ = run(
        greedy_search,
        problem,
        Budget(1, seconds=2.0),
        random.Random(0),
        clock=lambda: float(next(ticks)),
    )
    assert len(steps) == 2


def test_the_seed_alone_decides() -> None:
    problem = Problem(programs(), 30, Goal())
    first, again, other = (
        run(annealing_search, problem, Budget(2000, 2), random.Random(seed))[
            1
        ].train.tolist()
        for seed in (1, 1, 2)
    )
    assert first == again
    assert first != other
