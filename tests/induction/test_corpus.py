"""Which examples a rule touches, against laying it over every part of every source."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from nqg.data.example import Example
from nqg.errors import NqgError
from nqg.grammar.chart import charts
from nqg.grammar.grammar import Grammar, Rule
from nqg.grammar.semirings import derivation_counts
from nqg.induction.corpus import EncodedExamples, shortest_first
from nqg.induction.description_length import LabelRule, TerminalVocabulary
from oracles import all_derivations, could_use
from strategies import grammars, rules, sentences

Tokens = tuple[str, ...]
VOCABULARY = TerminalVocabulary(("NT_1", "a", "b", "x", "y"))


def corpus_of(sources: list[Tokens]) -> EncodedExamples:
    return EncodedExamples.of(
        [
            LabelRule(VOCABULARY.labels(source), VOCABULARY.labels(("x",)))
            for source in sources
        ]
    )


def touched(sources: list[Tokens], *touching: Rule) -> list[bool]:
    mask = corpus_of(sources).touched_by(
        [VOCABULARY.label_rule(rule) for rule in touching]
    )
    return [bool(is_touched) for is_touched in mask]


@given(
    st.lists(
        st.lists(st.sampled_from(("a", "b", "NT_1")), max_size=7).map(tuple), max_size=8
    ),
    rules(max_arity=3),
)
def test_a_rule_touches_the_examples_that_it_can_lie_over(
    sources: list[Tokens], rule: Rule
) -> None:
    assert touched(sources, rule) == [could_use(rule, source) for source in sources]


@given(grammars(), sentences)
def test_every_rule_that_a_derivation_uses_touches_the_example(
    grammar: Grammar, source: Tokens
) -> None:
    assume(derivation_counts(charts(grammar, [source]))[0] <= 300)
    used = {
        hyperedge.rule
        for each in all_derivations(grammar, source)
        for hyperedge in each.hyperedges
    }
    assert all(touched([source], rule) == [True] for rule in used)


@given(st.lists(sentences, max_size=6), st.lists(rules(), max_size=3))
def test_several_rules_touch_what_each_of_them_touches(
    sources: list[Tokens], several: list[Rule]
) -> None:
    assert touched(sources, *several) == [
        any(could_use(rule, source) for rule in several) for source in sources
    ]


@pytest.mark.parametrize(
    ("source", "is_touched"),
    [
        ("a", False),
        ("a b", False),
        ("a a b", False),
        ("a b a b", True),
        ("b a b b a", False),
        ("a a b a b b", True),
    ],
)
def test_non_terminals_stand_for_at_least_one_word_each(
    source: str, is_touched: bool
) -> None:
    rule = Rule.parse("a NT_1 a b ### x NT_1")
    assert touched([Example(source, "x").source_tokens], rule) == [is_touched]


def test_examples_are_selected_with_their_targets() -> None:
    pairs = [LabelRule((1, 2), (3,)), LabelRule((2,), (4, 3)), LabelRule((1,), (4,))]
    corpus = EncodedExamples.of(pairs)
    chosen = corpus.select(np.array([2, 0]))
    assert (chosen.sources.offsets.tolist(), chosen.sources.values.tolist()) == (
        [0, 1, 3],
        [1, 1, 2],
    )
    assert (chosen.targets.offsets.tolist(), chosen.targets.values.tolist()) == (
        [0, 1, 2],
        [4, 3],
    )
    assert len(corpus) == 3
    assert len(corpus.select(np.array([], dtype=np.int64))) == 0


def test_an_example_that_is_too_long_to_search_is_refused_by_its_beginning() -> None:
    with pytest.raises(
        NqgError,
        match=r"example 'w w w w w w w w …' has 5,000 tokens on a side; expected at most 500",
    ):
        shortest_first([Example("a", "b"), Example("w " * 5000, "b")])
