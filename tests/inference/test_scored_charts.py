"""Scored charts against enumeration of all derivations."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nqg.grammar.chart import charts
from nqg.grammar.derivation import Derivation, Hyperedge
from nqg.grammar.grammar import Grammar
from nqg.grammar.hypergraph import NodeId
from nqg.grammar.semirings import marginals
from nqg.inference.decoding import DecodeOptions, ScoredCharts
from nqg.slots.instantiate import instantiate_slots
from oracles import all_derivations

GRAMMAR = Grammar.parse("""
    walk ### W
    walk ### J
    jump ### J
    NT_1 twice ### NT_1 NT_1
    NT_1 NT_2 ### NT_1 NT_2
    NT_1 and NT_2 ### NT_1 NT_2
    NT_1 and NT_2 ### NT_2 NT_1
""")
SENTENCES = [
    "walk",
    "walk and jump twice",
    "walk jump twice walk",
    "jump and walk and jump and walk",
]

sentences = st.lists(st.sampled_from(SENTENCES), min_size=1, max_size=3)


def scored(sources: list[str], seed: int) -> ScoredCharts:
    """Charts whose scores depend on span and rule alone, as the model's do."""
    full = charts(GRAMMAR, [source.split() for source in sources])
    table = np.random.default_rng(seed).normal(0, 2, (full.nodes, len(GRAMMAR)))
    return ScoredCharts(
        instantiate_slots(GRAMMAR, []), full, table[full.owners(), full.rules]
    )


def score(charted: ScoredCharts, sentence: int, hyperedge: Hyperedge) -> float:
    """The score of an application, by looking at each of the chart."""
    full = charted.full
    for node in map(
        NodeId, range(full.first_node[sentence], full.first_node[sentence + 1])
    ):
        for each in full.hyperedges_of(node):
            if (
                full.span(node) == hyperedge.span
                and GRAMMAR[full.rules[each]] == hyperedge.rule
            ):
                return float(charted.scores[each])
    raise AssertionError(f"{hyperedge} is not in the chart")


def weighted(
    charted: ScoredCharts, sentence: int, source: str
) -> Iterator[tuple[Derivation, float]]:
    """Every derivation of a sentence with its probability."""
    found = list(all_derivations(GRAMMAR, tuple(source.split())))
    totals = [
        sum(score(charted, sentence, each) for each in derivation.hyperedges)
        for derivation in found
    ]
    everything = math.log(sum(map(math.exp, totals)))
    return (
        (derivation, math.exp(total - everything))
        for derivation, total in zip(found, totals, strict=True)
    )


@given(sentences, st.integers(0, 99))
def test_the_best_derivation_and_its_scores_are_those_of_the_enumeration(
    sources: list[str], seed: int
) -> None:
    charted = scored(sources, seed)
    best = charted.best()
    scores = charted.hyperedge_scores(best, range(len(best)))
    for sentence, source in enumerate(sources):
        expected, _ = max(weighted(charted, sentence, source), key=lambda pair: pair[1])
        assert best[sentence] == expected
        assert list(scores[sentence]) == [
            score(charted, sentence, each) for each in expected.hyperedges
        ]


@given(sentences, st.integers(0, 99))
def test_the_marginal_of_a_rule_over_a_span_is_the_probability_of_all_derivations_that_use_it(
    sources: list[str], seed: int
) -> None:
    charted = scored(sources, seed)
    best = charted.best()
    found = charted.hyperedge_marginals(best, range(len(best)))
    for sentence, source in enumerate(sources):
        derivations = list(weighted(charted, sentence, source))
        expected = [
            sum(
                chance
                for derivation, chance in derivations
                if each in derivation.hyperedges
            )
            for each in best[sentence].hyperedges
        ]
        assert found[sentence] == pytest.approx(expected, rel=1e-9)
        assert found[sentence][0] <= 1.0


@given(sentences, st.integers(0, 99))
def test_the_hyperedges_that_cover_a_whole_sentence_share_its_probability(
    sources: list[str], seed: int
) -> None:
    charted = scored(sources, seed)
    chances, full = marginals(charted.full, charted.scores), charted.full
    for root in full.roots():
        low, high = full.first_hyperedge[root], full.first_hyperedge[root + 1]
        assert chances[low:high].sum() == pytest.approx(1)


@given(sentences, st.integers(0, 99))
def test_the_probability_of_a_target_is_that_of_all_its_derivations(
    sources: list[str], seed: int
) -> None:
    charted = scored(sources, seed)
    targets = [derivation.target for derivation in charted.best()]
    expected = [
        sum(
            chance
            for derivation, chance in weighted(charted, sentence, source)
            if derivation.target == target
        )
        for sentence, (source, target) in enumerate(zip(sources, targets, strict=True))
    ]
    every = range(len(sources))
    assert charted.probabilities(targets, every) == pytest.approx(expected, rel=1e-9)
    nothing = [("nothing",)] * len(sources)
    assert charted.probabilities(nothing, every).tolist() == [0.0] * len(sources)


def test_targets_of_one_sentence_share_the_steps_of_a_limit() -> None:
    charted = scored([SENTENCES[3]], 7)
    easy, hard = [("nothing",)] * 9, [charted.best()[0].target]
    known = charted.probabilities(hard, [0])
    steps = next(
        limit
        for limit in range(1, 1 << 16)
        if not math.isnan(charted.probabilities(hard, [0], limit)[0])
    )
    # The easy ones take less than their shares, and the hard one then gets all of it.
    found = charted.probabilities([*easy, *hard], [0] * 10, steps)
    assert found[-1] == pytest.approx(known[0])
    # Two hard ones need twice as much.
    assert np.isnan(charted.probabilities(hard * 2, [0, 0], steps)).all()
    assert not np.isnan(charted.probabilities(hard * 2, [0, 0], 2 * steps)).any()


def test_readings_of_one_sentence_are_those_of_copies_of_it() -> None:
    charted = scored(SENTENCES, 7)
    options = DecodeOptions(marginals=True)
    derivations = charted.best_of_targets(3, 100, options)
    assert len(derivations) > 3
    copies = charted.select([3] * len(derivations))
    expected = copies.readings(derivations, range(len(derivations)), options)
    assert charted.readings(derivations, [3] * len(derivations), options) == expected


def test_selected_charts_keep_their_scores() -> None:
    charted = scored(SENTENCES, 5)
    again = charted.select([2, 0, 2])
    assert again.best() == [charted.best()[number] for number in (2, 0, 2)]
    scores = again.hyperedge_scores(again.best(), range(3))
    first = charted.hyperedge_scores(charted.best()[:1], [0])
    assert scores[1] == first[0]
    assert charted.select([]).best() == []


def test_targets_come_in_the_order_of_their_best_derivations() -> None:
    charted = scored(["walk and jump twice"], 3)
    found = charted.best_of_targets(0, 100, DecodeOptions())
    ranked = sorted(
        weighted(charted, 0, "walk and jump twice"), key=lambda pair: -pair[1]
    )
    expected = list(
        {derivation.target: derivation for derivation, _ in reversed(ranked)}.values()
    )
    assert {derivation.target for derivation in found} == {
        derivation.target for derivation, _ in ranked
    }
    assert sorted(map(str, found)) == sorted(map(str, expected))
    assert found[0] == ranked[0][0]
    assert charted.best_of_targets(0, 1, DecodeOptions()) == found[:1]
