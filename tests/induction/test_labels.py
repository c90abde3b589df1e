"""Rules in numbers and back."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from nqg.data.example import Example
from nqg.grammar.encoding import LEAF, NT
from nqg.grammar.grammar import NonTerminal, Rule, Symbol
from nqg.induction.description_length import (
    LabelRule,
    TerminalVocabulary,
    rule_of_leaves,
)
from oracles import rule_of_sides
from strategies import rules

VOCABULARY = TerminalVocabulary(("NT_1", "a", "b", "x", "y"))
leaves = st.integers(1, 4).map(NonTerminal)
sides = st.lists(
    st.one_of(leaves, leaves, st.sampled_from("ab")), min_size=2, max_size=5
).map(tuple)


@given(rules(max_arity=3))
def test_a_rule_survives_the_way_into_numbers_and_back(rule: Rule) -> None:
    labels = VOCABULARY.label_rule(rule)
    assert VOCABULARY.rule(labels) == rule
    assert labels.arity == rule.arity


@given(rules(max_arity=3))
def test_a_rule_survives_the_way_into_leaves_and_back(rule: Rule) -> None:
    labels = VOCABULARY.label_rule(rule)
    source, target = labels.leaf_source(), labels.leaf_target()
    assert rule_of_leaves(source, target) == labels
    assert {label for label in source if label < 0} == {
        LEAF - index for index in range(1, rule.arity + 1)
    }
    assert {label for label in target if label < 0} == {
        label for label in source if label < 0
    }


@given(sides, sides)
def test_leaves_are_numbered_anew_in_the_order_of_the_source(
    source: tuple[Symbol, ...], target: tuple[Symbol, ...]
) -> None:
    source = tuple(dict.fromkeys(source))  # a leaf stands once in a source
    expected = rule_of_sides(source, target) if len(source) > 1 else None
    found = rule_of_leaves(*(tuple(map(leaf_label, side)) for side in (source, target)))
    if len(source) > 1:
        assert (found and VOCABULARY.rule(found)) == expected


def leaf_label(symbol: Symbol) -> int:
    return (
        LEAF - symbol.index
        if isinstance(symbol, NonTerminal)
        else VOCABULARY.numbers[symbol]
    )


def test_source_and_target_non_terminals_in_numbers() -> None:
    rule = VOCABULARY.label_rule(Rule.parse(r"NT_1 a NT_2 ### NT_2 \NT_1 NT_1 NT_2"))
    assert rule == LabelRule((NT, 1, NT), (-2, 0, -1, -2))
    assert rule.leaf_source() == (LEAF - 1, 1, LEAF - 2)
    assert rule.leaf_target() == (LEAF - 2, 0, LEAF - 1, LEAF - 2)


def test_a_vocabulary_holds_all_tokens_and_terminals_in_the_order_of_their_text() -> (
    None
):
    vocabulary = TerminalVocabulary.of(
        [Example("b a", "x b")], [Rule.parse("NT_1 c ### NT_1 A")]
    )
    assert vocabulary.terminals == ("A", "a", "b", "c", "x")
    assert vocabulary.labels(("x", "a")) == (4, 1)
