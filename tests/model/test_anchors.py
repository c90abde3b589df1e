"""The spans of forests and of batches, by the tokens at which they begin and end."""

from __future__ import annotations

import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st

from nqg.grammar.arrays import Int64Array
from nqg.grammar.chart import charts, goal_charts
from nqg.grammar.grammar import Grammar
from nqg.grammar.hypergraph import Hypergraph, NodeId
from nqg.grammar.semirings import derivation_counts
from nqg.model.spans import Anchors, SpanTable, anchors
from oracles import all_derivations
from strategies import grammars, sentences

Tokens = tuple[str, ...]


def goals(
    grammar: Grammar, sources: list[Tokens], full: Hypergraph, data: st.DataObject
) -> tuple[Hypergraph, list[Tokens]]:
    """The goal forests of a target of each source, where it has one."""
    assume(max(derivation_counts(full)) <= 200)
    targets = [
        sorted({each.target for each in all_derivations(grammar, source)}) or [()]
        for source in sources
    ]
    drawn = [data.draw(st.sampled_from(each)) for each in targets]
    return goal_charts(grammar, full, drawn), drawn


@given(grammars(max_arity=3), st.lists(sentences, min_size=1, max_size=3), st.data())
def test_every_node_of_a_goal_forest_finds_its_span_in_the_full_one(
    grammar: Grammar, sources: list[Tokens], data: st.DataObject
) -> None:
    full = charts(grammar, sources)
    goal, _ = goals(grammar, sources, full, data)
    numbers = SpanTable.of(full).numbers(goal)
    for sentence in range(len(sources)):
        for node in range(goal.first_node[sentence], goal.first_node[sentence + 1]):
            assert (
                full.first_node[sentence]
                <= numbers[node]
                < full.first_node[sentence + 1]
            )
            assert full.span(NodeId(int(numbers[node]))) == goal.span(NodeId(node))


def spans_of(found: Anchors[Int64Array]) -> list[tuple[int, int, int]]:
    """The sentence, the first and the last token of every span."""
    (sentences, starts), (others, ends) = (
        (
            edges.sentences[edges.of_spans].tolist(),
            edges.tokens[edges.of_spans].tolist(),
        )
        for edges in (found.starts, found.ends)
    )
    assert sentences == others
    return list(zip(sentences, starts, ends, strict=True))


def test_anchors_name_the_sentence_and_the_first_and_last_token_of_each_span() -> None:
    grammar = Grammar.parse("jump ### J\nNT_1 twice ### NT_1 NT_1")
    found = anchors(charts(grammar, [("jump", "twice"), ("fly",), ("jump",)]))
    assert spans_of(found) == [(0, 0, 0), (0, 0, 1), (2, 0, 0)]


@given(grammars(max_arity=3), st.lists(sentences, min_size=1, max_size=4), st.data())
def test_a_batch_has_the_spans_of_its_sentences_and_names_no_token_twice(
    grammar: Grammar, sources: list[Tokens], data: st.DataObject
) -> None:
    full = charts(grammar, sources)
    batch = data.draw(st.lists(st.integers(0, len(sources) - 1), max_size=6))
    found = SpanTable.of(full).select(np.array(batch, dtype=np.int64))
    expected = [
        (row, int(full.starts[node]), int(full.ends[node]) - 1)
        for row, sentence in enumerate(batch)
        for node in range(full.first_node[sentence], full.first_node[sentence + 1])
    ]
    assert spans_of(found) == expected
    for edges in (found.starts, found.ends):
        named = list(zip(edges.sentences.tolist(), edges.tokens.tolist(), strict=True))
        assert len(set(named)) == len(named)
