"""Charts, forests and semirings against brute-force enumeration on random grammars and sentences."""

from __future__ import annotations

import math
import sys
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from nqg.errors import LimitExceeded
from nqg.grammar.chart import charts, goal_charts
from nqg.grammar.derivation import Derivation
from nqg.grammar.grammar import Grammar
from nqg.grammar.hypergraph import NO_CHILD, Hypergraph
from nqg.grammar.semirings import (
    best_derivations,
    derivation_counts,
    k_best_derivations,
    log_derivation_counts,
)
from oracles import all_derivations, check_graph, forest_derivations
from strategies import grammars, sentences

Tokens = tuple[str, ...]
FEW = 2000  # derivations that brute force may list

PAPER = Grammar.parse("""
how many NT_1 pass through NT_2 ### answer ( count ( intersection ( NT_1 , loc_1 ( NT_2 ) ) ) )
rivers ### river
the largest NT_1 ### largest ( NT_1 )
state ### state
""")


def known_derivations(grammar: Grammar, source: Tokens) -> list[Derivation]:
    count = derivation_counts(charts(grammar, [source]))[0]
    assume(count <= FEW)
    return all_derivations(grammar, source)


def score(
    graph: Hypergraph, rng: np.random.Generator
) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return rng.normal(size=graph.hyperedges)


def derivation_score(
    derivation: Derivation,
    grammar: Grammar,
    graph: Hypergraph,
    scores: np.ndarray[tuple[int], np.dtype[np.float64]],
) -> float:
    """The sum over hyperedges, each looked up by its rule, span and children's spans."""
    table = {
        (
            grammar[int(graph.rules[a])],
            graph.span(node),
            tuple(graph.span(c) for c in graph.children_of(a)),
        ): scores[a]
        for node in graph.node_ids()
        for a in graph.hyperedges_of(node)
    }
    total, pending = 0.0, [derivation]
    while pending:
        here = pending.pop()
        children = here.children
        pending.extend(children)
        total += table[
            here.root.rule, here.root.span, tuple(child.root.span for child in children)
        ]
    return total


def test_the_example_of_the_papers_appendix_has_one_derivation_with_its_tree_and_target() -> (
    None
):
    source = ("how", "many", "rivers", "pass", "through", "the", "largest", "state")
    graph = charts(PAPER, [source])
    assert derivation_counts(graph) == [1]
    best = best_derivations(PAPER, graph, np.zeros(graph.hyperedges))[0]
    assert best is not None
    assert str(best.derivation) == "\n".join(
        [
            "[0:8] how many NT_1 pass through NT_2 ### answer ( count ( intersection ( NT_1 , loc_1 ( NT_2 ) ) ) )",
            "  [2:3] rivers ### river",
            "  [5:8] the largest NT_1 ### largest ( NT_1 )",
            "    [7:8] state ### state",
        ]
    )
    expected = (
        "answer ( count ( intersection ( river , loc_1 ( largest ( state ) ) ) ) )"
    )
    assert best.derivation.target == tuple(expected.split())


@given(grammars(), sentences)
def test_the_full_forest_holds_exactly_the_derivations_that_enumeration_finds(
    grammar: Grammar, source: Tokens
) -> None:
    expected = known_derivations(grammar, source)
    assert Counter(forest_derivations(grammar, charts(grammar, [source]))) == Counter(
        expected
    )


@given(grammars(max_arity=4), sentences)
def test_rules_may_have_more_than_two_non_terminals(
    grammar: Grammar, source: Tokens
) -> None:
    expected = known_derivations(grammar, source)
    assert Counter(forest_derivations(grammar, charts(grammar, [source]))) == Counter(
        expected
    )


@given(grammars(), sentences, st.data())
def test_the_goal_forest_holds_exactly_the_derivations_that_yield_the_target(
    grammar: Grammar, source: Tokens, data: st.DataObject
) -> None:
    derivations = known_derivations(grammar, source)
    random_targets = st.lists(
        st.sampled_from(("x", "y", "z")), min_size=1, max_size=6
    ).map(tuple)
    reachable = sorted(
        {
            derivation.target
            for derivation in derivations
            if derivation.target_length < 30
        }
    )
    target = data.draw(
        st.one_of(st.sampled_from(reachable), random_targets)
        if reachable
        else random_targets
    )
    goal = goal_charts(grammar, charts(grammar, [source]), [target])
    expected = Counter(
        derivation for derivation in derivations if derivation.target == target
    )
    assert Counter(forest_derivations(grammar, goal)) == expected


@given(grammars(), sentences)
def test_counts_equal_enumeration(grammar: Grammar, source: Tokens) -> None:
    derivations = known_derivations(grammar, source)
    graph = charts(grammar, [source])
    assert derivation_counts(graph) == [len(derivations)]
    logarithm = math.log(len(derivations)) if derivations else -math.inf
    assert log_derivation_counts(graph)[0] == pytest.approx(logarithm)


@given(grammars(), sentences, st.integers(0, 99), st.integers(1, 6))
def test_the_best_and_the_k_best_derivations_equal_sorting_all(
    grammar: Grammar, source: Tokens, seed: int, k: int
) -> None:
    derivations = known_derivations(grammar, source)
    graph = charts(grammar, [source])
    scores = score(graph, np.random.default_rng(seed))
    expected = sorted(
        (derivation_score(each, grammar, graph, scores) for each in derivations),
        reverse=True,
    )[:k]
    found = k_best_derivations(grammar, graph, scores, k)[0]
    assert [each.score for each in found] == pytest.approx(expected)
    assert len({each.derivation for each in found}) == len(found)
    for each in found:
        assert derivation_score(
            each.derivation, grammar, graph, scores
        ) == pytest.approx(each.score)
    best = best_derivations(grammar, graph, scores)[0]
    assert (best is None) == (not derivations)
    if best is not None:
        assert best.derivation == found[0].derivation
        assert best.score == pytest.approx(found[0].score)


@given(grammars(), sentences, st.integers(0, 99), st.integers(1, 40))
def test_a_bound_on_hyperedges_ends_the_k_best_derivations(
    grammar: Grammar, source: Tokens, seed: int, most: int
) -> None:
    graph = charts(grammar, [source])
    scores = score(graph, np.random.default_rng(seed))
    (every,) = k_best_derivations(grammar, graph, scores, 6)
    (bounded,) = k_best_derivations(grammar, graph, scores, 6, most)
    assert bounded == every[: len(bounded)]
    sizes = [len(each.derivation.hyperedges) for each in every]
    # All but the last have less than the bound, and so have all if some are missing.
    assert sum(sizes[: len(bounded) - 1]) < most
    if len(bounded) < len(every):
        assert sum(sizes[: len(bounded)]) >= most


@given(grammars(), st.lists(sentences, max_size=5))
def test_a_batch_is_its_sentences_one_by_one(
    grammar: Grammar, sources: list[Tokens]
) -> None:
    batch = charts(grammar, sources)
    assert batch.sentences == len(sources)
    for position, source in enumerate(sources):
        alone = charts(grammar, [source])
        for name, array in batch.select([position])._asdict().items():
            np.testing.assert_array_equal(array, alone._asdict()[name])


@given(grammars(), sentences)
def test_nodes_come_in_topological_order_and_all_lead_up_to_the_root(
    grammar: Grammar, source: Tokens
) -> None:
    graph = charts(grammar, [source])
    check_graph(graph)
    owners = graph.owners()
    assert all(
        child == NO_CHILD or child < owner
        for owner, row in zip(owners, graph.children, strict=True)
        for child in row
    )
    assert set(range(graph.nodes - 1)) <= {
        int(child) for child in graph.children.ravel()
    }


@given(grammars(), sentences)
def test_the_unpruned_chart_has_one_node_for_every_span_that_is_derivable_alone(
    grammar: Grammar, source: Tokens
) -> None:
    chart = charts(grammar, [source], prune=False)
    spans = [chart.span(node) for node in chart.node_ids()]
    places = [(i, j) for i in range(len(source)) for j in range(i + 1, len(source) + 1)]
    derivable = {(i, j) for i, j in places if charts(grammar, [source[i:j]]).nodes}
    assert sorted((span.start, span.end) for span in spans) == sorted(derivable)


def test_a_sentence_with_unknown_words_has_no_derivation() -> None:
    graph = charts(PAPER, [("how", "many", "lakes"), ("state",)])
    assert derivation_counts(graph) == [0, 1]
    assert best_derivations(PAPER, graph, np.zeros(graph.hyperedges))[0] is None


def test_empty_batches_empty_grammars_and_empty_sentences_are_values() -> None:
    assert charts(PAPER, []).sentences == 0
    assert derivation_counts(charts(Grammar(()), [("a",)])) == [0]
    assert derivation_counts(charts(PAPER, [()])) == [0]
    assert goal_charts(PAPER, charts(PAPER, []), []).sentences == 0


def test_a_word_that_spells_a_non_terminal_is_a_word() -> None:
    grammar = Grammar.parse(r"""
    \NT_1 ### x
    say NT_1 ### \NT_1 NT_1
    """)
    graph = charts(grammar, [("say", "NT_1"), ("say", "hello")])
    assert [each.target for each in forest_derivations(grammar, graph.select([0]))] == [
        ("NT_1", "x")
    ]
    assert derivation_counts(graph) == [1, 0]


CATALAN = Grammar.parse("""
a ### x
NT_1 NT_2 ### NT_1 NT_2
""")


def catalan(number: int) -> int:
    return math.comb(2 * number, number) // (number + 1)


def test_two_hundred_words_under_a_highly_ambiguous_grammar() -> None:
    graph = charts(CATALAN, [("a",) * 200])
    assert derivation_counts(graph) == [catalan(199)]
    assert log_derivation_counts(graph)[0] == pytest.approx(math.log(catalan(199)))
    assert graph.hyperedges == 200 + 200 * 199 * 201 // 6
    assert (
        graph.nbytes
        == sum(array.nbytes for array in graph._asdict().values())
        > 16_000_000
    )
    goal = goal_charts(CATALAN, graph, [("x",) * 200])
    assert log_derivation_counts(goal)[0] == pytest.approx(math.log(catalan(199)))


def test_a_limit_stops_a_chart_that_grows_too_large_with_a_clear_error() -> None:
    with pytest.raises(
        LimitExceeded,
        match=r"'a a a a a a a a …' \(200 tokens\) needs more than 100,000 entries",
    ):
        charts(CATALAN, [("a",), ("a",) * 200], limit=100_000)
    assert derivation_counts(charts(CATALAN, [("a",) * 20], limit=100_000)) == [
        catalan(19)
    ]


def test_a_derivation_deeper_than_pythons_stack_is_no_problem() -> None:
    grammar = Grammar.parse("a ### x\na NT_1 ### NT_1 x")
    length = 2 * sys.getrecursionlimit()
    graph = charts(grammar, [("a",) * length])
    best = best_derivations(grammar, graph, np.zeros(graph.hyperedges))[0]
    assert best is not None
    assert best.derivation.target == ("x",) * length
    assert Derivation.parse(str(best.derivation)) == best.derivation
    assert all(
        deep == shallow + 1 for shallow, deep in pairwise(best.derivation.depths())
    )


def test_repeated_non_terminals_that_double_a_target_at_every_level_do_not_fill_the_memory() -> (
    None
):
    grammar = Grammar.parse("jump ### x\nNT_1 twice ### NT_1 NT_1")
    graph = charts(grammar, [("jump", *("twice",) * 60)])
    best = best_derivations(grammar, graph, np.zeros(graph.hyperedges))[0]
    assert best is not None
    assert best.derivation.target_length == 2**60
    with pytest.raises(LimitExceeded, match="1,152,921,504,606,846,976 tokens"):
        _ = best.derivation.target
