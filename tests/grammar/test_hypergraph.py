"""Hypergraphs as arrays: selection, concatenation, and the check of what comes from a file."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nqg.errors import FormatError
from nqg.grammar.chart import charts, goal_charts
from nqg.grammar.grammar import Grammar
from nqg.grammar.hypergraph import Hypergraph, concatenated
from oracles import forest_derivations
from strategies import grammars, sentences

Tokens = tuple[str, ...]
TWICE = Grammar.parse("a ### x\nb ### x\nNT_1 NT_2 ### NT_1 NT_2")


def same(left: Hypergraph, right: Hypergraph) -> bool:
    arrays, others = left.arrays(), right.arrays()
    return arrays.keys() == others.keys() and all(np.array_equal(arrays[name], others[name]) for name in arrays)


@given(grammars(), st.lists(sentences, min_size=1, max_size=4), st.lists(st.integers(0, 3), max_size=6))
def test_selecting_sentences_is_the_same_as_charting_them(
    grammar: Grammar, sources: list[Tokens], picks: list[int]
) -> None:
    picks = [pick % len(sources) for pick in picks]
    assert same(charts(grammar, sources).select(picks), charts(grammar, [sources[pick] for pick in picks]))


@given(grammars(), st.lists(sentences, max_size=3), st.lists(sentences, max_size=3))
def test_joining_graphs_is_the_same_as_charting_all_sentences(
    grammar: Grammar, left: list[Tokens], right: list[Tokens]
) -> None:
    joined = concatenated([charts(grammar, left), charts(grammar, right)])
    assert same(joined, charts(grammar, left + right))
    joined.check()


def test_graphs_of_grammars_with_different_arities_can_be_joined() -> None:
    leaf = Grammar.parse("a ### x")
    both = concatenated([charts(leaf, [("a",)]), charts(TWICE, [("a", "b")])])
    both.check()
    assert both.children.shape[1] == 2
    assert len(forest_derivations(TWICE, both[1])) == 1


def test_goal_graphs_keep_their_parts_of_the_target_through_selection() -> None:
    sources = [("a",), ("a", "b")]
    goals = goal_charts(TWICE, charts(TWICE, sources), [("x",), ("x", "x")])
    assert charts(TWICE, sources).target_starts is None
    second = goals[1]
    assert second.target_lengths is not None
    assert second.target_lengths.tolist() == [1, 1, 2]
    assert second.target_starts is not None
    assert second.target_starts.tolist() == [0, 0, 0]  # equal strings have equal names: their first occurrence


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda graph: {"children": graph.children + 5}, "child that does not come before it"),
        (lambda graph: {"children": graph.children[:-1]}, "differ in length"),
        (lambda graph: {"children": graph.children.astype(np.int64)}, "array children has type int64"),
        (lambda graph: {"rules": graph.rules - 9}, "negative rule"),
        (lambda graph: {"starts": graph.starts[1:]}, "differ in length|does not divide"),
        (lambda graph: {"first_node": graph.first_node + 1}, "first_node does not divide"),
        (
            lambda graph: {"first_hyperedge": graph.first_hyperedge[::-1].copy()},
            "first_hyperedge does not divide",
        ),
        (lambda graph: {"target_starts": graph.starts[:1]}, "differ in length"),
    ],
)
def test_arrays_that_make_no_graph_are_refused(damage: object, reason: str) -> None:
    graph = charts(TWICE, [("a", "b", "a")])
    with pytest.raises(FormatError, match=reason):
        replace(graph, **damage(graph)).check()  # type: ignore[operator]
