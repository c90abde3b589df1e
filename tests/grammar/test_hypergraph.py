"""Hypergraphs as arrays: selection and concatenation."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from nqg.grammar.chart import charts
from nqg.grammar.grammar import Grammar
from nqg.grammar.hypergraph import Hypergraph, concatenate
from oracles import check_graph
from strategies import grammars, sentences

Tokens = tuple[str, ...]
TWICE = Grammar.parse("a ### x\nb ### x\nNT_1 NT_2 ### NT_1 NT_2")


def same(left: Hypergraph, right: Hypergraph) -> bool:
    arrays, others = left._asdict(), right._asdict()
    return arrays.keys() == others.keys() and all(
        np.array_equal(arrays[name], others[name]) for name in arrays
    )


@given(
    grammars(),
    st.lists(sentences, min_size=1, max_size=4),
    st.lists(st.integers(0, 3), max_size=6),
)
def test_selecting_sentences_is_the_same_as_charting_them(
    grammar: Grammar, sources: list[Tokens], picks: list[int]
) -> None:
    picks = [pick % len(sources) for pick in picks]
    assert same(
        charts(grammar, sources).select(picks),
        charts(grammar, [sources[pick] for pick in picks]),
    )


@given(grammars(), st.lists(sentences, max_size=3), st.lists(sentences, max_size=3))
def test_joining_graphs_is_the_same_as_charting_all_sentences(
    grammar: Grammar, left: list[Tokens], right: list[Tokens]
) -> None:
    joined = concatenate([charts(grammar, left), charts(grammar, right)])
    assert same(joined, charts(grammar, left + right))
    check_graph(joined)
