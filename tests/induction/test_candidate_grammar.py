"""Rules that are switched on and off, and rules that others derive."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nqg.grammar.grammar import Rule
from nqg.grammar.ragged import Ragged
from nqg.induction.description_length import LabelRule, TerminalVocabulary, data_bits
from nqg.induction.search import CandidateGrammar, derivable_rules
from oracles import superfluous_by_definition
from strategies import related_rules

VOCABULARY = TerminalVocabulary(("(", ")", "a", "b", "x", "y"))


def label(text: str) -> LabelRule:
    return VOCABULARY.label_rule(Rule.parse(text))


def found_superfluous(rules: list[Rule]) -> set[Rule]:
    labels = [VOCABULARY.label_rule(rule) for rule in rules]
    return {
        VOCABULARY.rule(rule)
        for rule in derivable_rules(labels, CandidateGrammar(labels).arrays)
    }


@given(related_rules())
def test_superfluous_rules_are_those_that_the_others_derive(rules: list[Rule]) -> None:
    assert found_superfluous(rules) == superfluous_by_definition(rules)


@given(related_rules())
def test_all_superfluous_rules_can_go_at_once(rules: list[Rule]) -> None:
    labels = [VOCABULARY.label_rule(rule) for rule in rules]
    found = derivable_rules(labels, CandidateGrammar(labels).arrays)
    left = [rule for rule in labels if rule not in found]
    for rule in found:
        assert derivable_rules([rule], CandidateGrammar([*left, rule]).arrays) == [rule]


def test_no_rules_are_superfluous_among_none() -> None:
    assert derivable_rules([], CandidateGrammar([]).arrays) == []
    assert derivable_rules([], CandidateGrammar([label("a ### x")]).arrays) == []


A, B, BOTH, PAIR = (
    label("a ### x"),
    label("b ### y"),
    label("a b ### x y"),
    label("NT_1 NT_2 ### NT_1 NT_2"),
)


def derives(grammar: CandidateGrammar, rule: LabelRule) -> bool:
    """Whether the words of a rule have a derivation, told by their data bits."""
    sources, targets = Ragged.of([rule.source]), Ragged.of([rule.target])
    return bool(data_bits(grammar.arrays, sources, targets)[0] == 0.0)


def test_rules_that_are_only_tried_are_out_of_force_until_they_are_switched_on() -> (
    None
):
    grammar = CandidateGrammar([A, B], tried=[PAIR, A])
    assert A in grammar
    assert PAIR in grammar
    assert BOTH not in grammar
    assert derives(grammar, A)
    assert not derives(grammar, BOTH)
    grammar.switch([PAIR], [])
    assert derives(grammar, BOTH)
    grammar.switch([], [A])
    assert not derives(grammar, A)
    assert not derives(grammar, BOTH)


def test_asking_how_it_would_be_changes_nothing() -> None:
    grammar = CandidateGrammar([A, B], tried=[PAIR])
    before = grammar.arrays.active.tolist()
    assert grammar.switched([PAIR], [A]).active.tolist() == [False, True, True]
    assert grammar.arrays.active.tolist() == before == [True, True, False]


@given(related_rules(), st.data())
def test_a_bench_with_rules_out_of_force_is_as_good_as_one_without_them(
    rules: list[Rule], data: st.DataObject
) -> None:
    labels = [VOCABULARY.label_rule(rule) for rule in rules]
    off = data.draw(st.lists(st.sampled_from(labels), unique=True))
    on = [rule for rule in labels if rule not in off]
    grammar = CandidateGrammar(labels)
    assert derivable_rules(on, grammar.switched([], off)) == derivable_rules(
        on, CandidateGrammar(on).arrays
    )
    assert derivable_rules(
        on, CandidateGrammar(on, tried=off).arrays
    ) == derivable_rules(on, CandidateGrammar(on).arrays)


def test_a_rule_that_is_not_on_the_bench_cannot_be_switched() -> None:
    with pytest.raises(KeyError):
        CandidateGrammar([A]).switch([B], [])
