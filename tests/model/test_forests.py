"""Forests of a dataset: chunks, selection."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nqg.data.example import Example
from nqg.grammar.chart import charts, goal_charts
from nqg.grammar.grammar import Grammar
from nqg.grammar.semirings import derivation_counts
from nqg.model import forests as build
from nqg.model.forests import (
    Forests,
    TrainingForests,
    build_forests,
    forest_chunks,
)
from oracles import all_derivations, forest_derivations
from strategies import grammars, sentences

Tokens = tuple[str, ...]
GRAMMAR = Grammar.parse("""
jump ### J
walk ### W
NT_1 twice ### NT_1 NT_1
NT_1 and NT_2 ### NT_1 NT_2
""")
EXAMPLES = [
    Example("jump twice", "J J"),
    Example("jump and walk", "J W"),
    Example("jump and walk twice", "J W J W"),
    Example("fly", "F"),
    Example("jump", "W"),
]


def same(left: Forests, right: Forests) -> bool:
    pairs = zip((left.full, left.goal), (right.full, right.goal), strict=True)
    return all(
        ours._asdict().keys() == theirs._asdict().keys()
        and all(
            np.array_equal(array, theirs._asdict()[name])
            for name, array in ours._asdict().items()
        )
        for ours, theirs in pairs
    )


def test_full_forests_hold_every_reading_and_goal_forests_those_of_the_target() -> None:
    forests = build_forests(GRAMMAR, EXAMPLES)
    assert derivation_counts(forests.full) == [1, 1, 2, 0, 1]
    assert derivation_counts(forests.goal) == [1, 1, 1, 0, 0]
    assert forests.underivable() == [3, 4]


@given(grammars(), sentences, st.data())
def test_one_pair_alone_has_the_forests_that_enumeration_finds(
    grammar: Grammar, source: Tokens, data: st.DataObject
) -> None:
    full = charts(grammar, [source])
    if derivation_counts(full)[0] > 500:
        return
    derivations = all_derivations(grammar, source)
    target = data.draw(
        st.sampled_from([("x",), *sorted({each.target for each in derivations})])
    )
    goal = goal_charts(grammar, full, [target])
    assert sorted(map(str, forest_derivations(grammar, full))) == sorted(
        map(str, derivations)
    )
    expected = sorted(str(each) for each in derivations if each.target == target)
    assert sorted(map(str, forest_derivations(grammar, goal))) == expected


@pytest.mark.parametrize("cores", [1, 2, 5])
def test_any_number_of_cores_gives_the_same_forests(
    monkeypatch: pytest.MonkeyPatch, cores: int
) -> None:
    whole = build_forests(GRAMMAR, EXAMPLES * 5)
    monkeypatch.setattr(build, "CHUNK_SIZE", 3)
    monkeypatch.setattr("os.cpu_count", lambda: cores)
    assert len(list(forest_chunks(GRAMMAR, EXAMPLES * 5))) == 9
    assert same(build_forests(GRAMMAR, EXAMPLES * 5), whole)


def test_a_batch_is_selected_in_the_order_asked_for() -> None:
    forests = build_forests(GRAMMAR, EXAMPLES)
    batch = forests.select([2, 0, 2])
    assert same(batch, build_forests(GRAMMAR, [EXAMPLES[2], EXAMPLES[0], EXAMPLES[2]]))


def test_no_examples_have_no_forests() -> None:
    assert len(build_forests(GRAMMAR, [])) == 0


def test_forests_that_are_built_again_are_those_that_are_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(build, "CHUNK_SIZE", 3)
    examples = EXAMPLES * 5
    all_kept = TrainingForests.of(GRAMMAR, examples)
    kept = all_kept.kept
    assert kept is not None
    assert same(kept, build_forests(GRAMMAR, examples))
    assert all_kept.derivable.tolist() == [
        number for number in range(25) if number % 5 < 3
    ]

    monkeypatch.setattr(build, "MOST_KEPT", kept.hyperedges - 1)
    none_kept = TrainingForests.of(GRAMMAR, examples)
    assert none_kept.kept is None
    assert none_kept.derivable.tolist() == all_kept.derivable.tolist()
    numbers = np.array([12, 1, 5, 1])
    assert same(none_kept.built(numbers), kept.select(numbers.tolist()))


def test_reports_of_building_end_with_the_last_chunk(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(build, "CHUNK_SIZE", 3)
    reports: list[tuple[int, int]] = []
    TrainingForests.of(
        GRAMMAR, EXAMPLES * 2, lambda done, total: reports.append((done, total))
    )
    assert reports == [(1, 4), (2, 4), (3, 4), (4, 4)]
