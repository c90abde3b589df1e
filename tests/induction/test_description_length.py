"""The objective by hand, and for the grammars that the published implementation induced."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given

from nqg.data.example import Example
from nqg.grammar.grammar import Grammar, Rule
from nqg.induction.description_length import (
    DescriptionLength,
    TerminalVocabulary,
    description_length,
    label_bits,
    rule_bits,
)
from nqg.induction.settings import InductionSettings
from strategies import rules

SETTINGS = InductionSettings(terminal_bits=8.0, non_terminal_bits=1.0)
GRAMMAR = Grammar.parse("""
jump ### J
walk ### W
walk ### J
NT_1 twice ### NT_1 NT_1
""")
GRAMMAR_BITS = 3 * 16.0 + 11.0


def bits_of(*examples: Example) -> float:
    return description_length(GRAMMAR, examples, SETTINGS).data_bits


def test_a_rule_costs_its_symbols() -> None:
    rule = Rule.parse("NT_1 of NT_2 ### f ( NT_2 , NT_1 )")
    assert (
        rule_bits(rule, InductionSettings(terminal_bits=10.0, non_terminal_bits=0.5))
        == 10.0 * 5 + 0.5 * 4
    )


def test_a_terminal_that_spells_a_non_terminal_costs_as_much_as_any_terminal() -> None:
    assert rule_bits(Rule(("NT_1",), ("x",)), SETTINGS) == 16.0


@given(rules(max_arity=3))
def test_rules_in_numbers_cost_the_same(rule: Rule) -> None:
    settings = InductionSettings(terminal_bits=7.0, non_terminal_bits=3.0)
    assert label_bits(
        TerminalVocabulary.of((), [rule]).label_rule(rule), settings
    ) == rule_bits(rule, settings)


def test_the_two_parts_by_hand() -> None:
    length = description_length(
        GRAMMAR, [Example("jump twice", "J J"), Example("walk twice", "W W")], SETTINGS
    )
    assert length == DescriptionLength(grammar_bits=GRAMMAR_BITS, data_bits=1.0)
    assert length.total == GRAMMAR_BITS + 1.0


def test_repeated_examples_count_once() -> None:
    assert (
        bits_of(
            Example("walk", "W"),
            Example("walk", "J"),
            Example("walk", " W "),
            Example("walk", "W", "7"),
        )
        == 2.0
    )


def test_an_example_that_cannot_be_derived_costs_infinitely_many_bits() -> None:
    assert bits_of(Example("jump", "J"), Example("fly", "F")) == math.inf
    assert bits_of(Example("jump", "W")) == math.inf
    assert bits_of(Example("jump", "J")) == 0.0


def test_no_examples_cost_nothing_but_the_grammar() -> None:
    assert description_length(GRAMMAR, [], SETTINGS) == DescriptionLength(
        GRAMMAR_BITS, 0.0
    )


@pytest.mark.parametrize(
    ("name", "terminal_bits", "expected"),
    [
        ("geoquery-standard", 8.0, 7778.0),
        ("geoquery-template", 8.0, 7088.0),
        ("geoquery-length", 8.0, 5012.0),
        ("geoquery-tmcd", 8.0, 6642.0),
        ("scan-length", 32.0, 1889.0),
        ("scan-jump", 32.0, 2611.0),
    ],
)
def test_the_published_grammars_have_the_bits_that_are_on_record(
    reference_grammars: Path, name: str, terminal_bits: float, expected: float
) -> None:
    grammar = Grammar.read(reference_grammars / f"{name}.rules.txt")
    assert (
        description_length(
            grammar, [], SETTINGS.changed(terminal_bits=terminal_bits)
        ).grammar_bits
        == expected
    )
