"""Levels of choices against their definition."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from nqg.forests.levels import levels
from nqg.grammar.charts import charts
from nqg.grammar.grammar import Grammar
from nqg.grammar.graph import ChoiceId, Graph
from strategies import grammars, sentences

Tokens = tuple[str, ...]


def defined_height(graph: Graph, choice: ChoiceId) -> int:
    """One more than the highest level under a choice, 0 at the leaves."""
    under = (child for each in graph.applications_of(choice) for child in graph.children_of(each))
    return max((defined_height(graph, child) + 1 for child in under), default=0)


@given(grammars(max_arity=3), st.lists(sentences, max_size=3))
def test_every_choice_stands_in_the_level_of_its_definition(grammar: Grammar, sources: list[Tokens]) -> None:
    graph = charts(grammar, sources)
    laid_out = levels(graph)
    for level, (choices, applications) in enumerate(laid_out.slices()):
        places = range(choices.start, choices.stop)
        assert places
        assert {defined_height(graph, ChoiceId(int(laid_out.choices[place]))) for place in places} == {level}
        assert set(laid_out.owners[applications]) == set(places)
    assert sorted(laid_out.choices) == list(range(graph.choices))
    assert sorted(laid_out.applications) == list(range(graph.applications))
    assert laid_out.first_choice[-1] == graph.choices
    assert laid_out.first_application[-1] == graph.applications


@given(grammars(max_arity=3), st.lists(sentences, max_size=3))
def test_owners_children_and_roots_are_those_of_the_graph(grammar: Grammar, sources: list[Tokens]) -> None:
    graph = charts(grammar, sources)
    laid_out = levels(graph)
    originals = np.append(laid_out.choices, -1)  # the place after the last stands for "none"
    assert np.array_equal(originals[laid_out.owners], graph.owners()[laid_out.applications])
    assert np.array_equal(originals[laid_out.children], graph.children[laid_out.applications])
    assert np.array_equal(originals[laid_out.roots], graph.roots())


def test_a_batch_has_as_many_levels_as_its_deepest_forest() -> None:
    grammar = Grammar.parse("jump ### J\nNT_1 twice ### NT_1 NT_1")
    deep, flat = ("jump", "twice", "twice"), ("jump",)
    assert len(levels(charts(grammar, [deep]))) == 3
    assert len(levels(charts(grammar, [flat, deep, flat]))) == 3
    assert len(levels(charts(grammar, [("fly",)]))) == 0
