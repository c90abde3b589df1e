"""What is done with NumPy on large graphs has the same bytes as what kernels do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nqg.errors import LimitExceeded
from nqg.grammar import vectorized
from nqg.grammar.chart import StepBudget, charts, goal_charts
from nqg.grammar.compilation import kernels_in_one_form
from nqg.grammar.derivation import Tokens
from nqg.grammar.encoding import slot_rule, slot_rules, value_row, value_rows
from nqg.grammar.goal_kernels import TOKENS_OF_STEP
from nqg.grammar.grammar import Grammar
from nqg.grammar.semirings import best_derivations, log_inside, marginals, max_inside
from nqg.slots.instantiate import instantiate_slots
from nqg.slots.matcher import SlotMatcher
from nqg.slots.slot import Slot
from nqg.types.target_grammar import TargetGrammar
from oracles import assert_same_arrays
from strategies import perhaps_typed, sentences

Compute = Callable[[], Sequence[Any]]

# A sentence of so many words has more than the LARGE_FOREST hyperedges from which steps of types count.
LONG = 30
BINARY = Grammar.parse("""
    a ### x
    a ### y
    NT_1 NT_2 ### NT_1 , NT_2
    NT_1 NT_2 ### NT_2 ; NT_1
    NT_1 a ### NT_1
""").typed_by(
    TargetGrammar.parse("""
    <whole> ::= <list>
    <list> ::= x | <list> , <list> | <pair>
    <pair> ::= y | <pair> ; <pair>
""")
)
FORMS = ("{verbatim}",)
TEXT = replace(
    Grammar.parse("""
    @text ### text = " @text "
    @song ### @song
    @song ### song = @song or @song
    remind NT_1 ### remind ( NT_1 )
    NT_1 NT_2 ### NT_1 , NT_2
    NT_1 me ### NT_1
"""),
    slots=SlotMatcher(
        slots=(
            Slot("text", "text", FORMS, length=3),
            Slot("song", "text", FORMS, length=2),
        )
    ),
)


def in_both_ways(compute: Compute) -> None:
    """Compute with plain kernels and with NumPy, and compare every array."""
    with kernels_in_one_form(compiled=False):
        with patch.object(vectorized, "LARGE_GRAPH", 1 << 60):
            plain = compute()
        with patch.object(vectorized, "LARGE_GRAPH", 1):
            of_numpy = compute()
    assert_same_arrays(plain, of_numpy)


@given(
    perhaps_typed(max_arity=3),
    st.lists(sentences, min_size=1, max_size=4),
    st.booleans(),
    st.integers(0, 9),
)
def test_charts_and_passes_over_them(
    grammar: Grammar, sources: list[Tokens], prune: bool, seed: int
) -> None:
    def compute() -> Sequence[Any]:
        full = charts(grammar, sources, prune=prune)
        scores = np.random.default_rng(seed).normal(size=full.hyperedges)
        # Some scores are equal, and the first of the best derivations wins; some are impossible.
        scores[::3] = 0.5
        scores[1::7] = -np.inf
        best, first = max_inside(full, scores)
        passes = [log_inside(full, scores), best, first, marginals(full, scores)]
        return [*full, *passes]

    in_both_ways(compute)


@given(perhaps_typed(max_arity=3), st.lists(sentences, min_size=1, max_size=3))
def test_goal_charts(grammar: Grammar, sources: list[Tokens]) -> None:
    full = charts(grammar, sources)
    best = best_derivations(grammar, full, np.zeros(full.hyperedges))
    targets = []
    for source, found in zip(sources, best, strict=True):
        targets.append(found.derivation.target if found else ("x", "y")[: len(source)])
    in_both_ways(lambda: goal_charts(grammar, full, targets))
    in_both_ways(lambda: goal_charts(grammar, full, [("x",)] * len(sources)))


WORDS = st.sampled_from(["remind", "me", "twist", "and", "shout"])


@given(st.lists(st.lists(WORDS, min_size=1, max_size=6), min_size=1, max_size=3))
def test_goal_charts_of_free_text(sources: list[list[str]]) -> None:
    grammar = instantiate_slots(TEXT, sources)
    full = charts(grammar, sources)
    scores = np.random.default_rng(0).normal(size=full.hyperedges)
    best = best_derivations(grammar, full, scores)
    targets = [found.derivation.target if found else ("remind",) for found in best]
    in_both_ways(lambda: goal_charts(grammar, full, targets))


@given(st.lists(st.lists(WORDS, min_size=1, max_size=6), min_size=1, max_size=3))
def test_rules_of_values(sources: list[list[str]]) -> None:
    grammar = instantiate_slots(TEXT, sources)
    full = charts(grammar, sources, prune=False)
    values = grammar.encoded.arrays.values
    rules = full.rules.tolist()
    expected = [slot_rule(rule, values) for rule in rules]
    assert slot_rules(full.rules, values).tolist() == expected
    texts = full.rules[full.rules >= values.first]
    expected = [value_row(rule, values) for rule in texts.tolist()]
    assert value_rows(texts, values).tolist() == expected


def refined(limit: int, program: Tokens = ("x", ",", "x", ",", "x")) -> list[Any]:
    """The well-typed derivations of a long sentence, and those of a program of it."""
    source = ("a",) * LONG
    with kernels_in_one_form(compiled=False):
        types, goals = StepBudget(limit), StepBudget(limit)
        full = charts(BINARY.typed_by(None), [source])
        typed = charts(BINARY, [source], limit=types)
        goal = goal_charts(BINARY, full, [program], goals)
    return [types.exceeded, goals.exceeded, typed.hyperedges, goal.hyperedges]


LONG_PROGRAM = ("x", *(",", "x") * TOKENS_OF_STEP)


@pytest.mark.parametrize(
    ("of", "program"),
    [(0, ("x", ",", "x")), (1, ("x", ",", "x")), (1, LONG_PROGRAM)],
    ids=["types", "goals", "goals of a long program"],
)
def test_a_sentence_takes_as_many_steps(of: int, program: Tokens) -> None:
    # The least limit that suffices, by bisection.
    too_small, enough = 0, 1 << 24
    while enough - too_small > 1:
        middle = (too_small + enough) // 2
        if refined(middle, program)[of]:
            too_small = middle
        else:
            enough = middle
    assert 1 << 12 < enough < 1 << 24
    with patch.object(vectorized, "LARGE_GRAPH", 1 << 60):
        assert refined(too_small, program)[of] == {0}
        assert refined(enough, program)[of] == set()


def test_a_limit_that_is_no_budget_is_an_error() -> None:
    source = ("a",) * LONG
    with (
        kernels_in_one_form(compiled=False),
        pytest.raises(LimitExceeded, match="30 tokens"),
    ):
        charts(BINARY, [source], limit=20_000)


@given(
    st.lists(st.integers(0, 20), max_size=30).map(lambda keys: np.array(keys, np.int64))
)
def test_the_first_of_each_key(keys: np.ndarray[Any, np.dtype[np.int64]]) -> None:
    places, numbers = vectorized.first_of_each(keys, 21)
    assert places.tolist() == sorted(
        {keys.tolist().index(key) for key in keys.tolist()}
    )
    assert keys[places][numbers].tolist() == keys.tolist()
