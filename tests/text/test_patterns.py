"""Patterns of strings: their regular expressions against what they say, and unknown words."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nqg.text.patterns import (
    DIGIT,
    NUMBER,
    Characters,
    Literal,
    Pattern,
    any_case,
    choice,
    concatenation,
    gbnf_expression,
    joined_words,
    optional,
    other_words,
    regular_expression,
    repeated,
)

LETTERS = Characters.of("abc")
words = st.text("abc", min_size=1, max_size=4)


@given(st.sets(words, max_size=6), words)
def test_other_words_are_all_words_but_those(known: set[str], word: str) -> None:
    pattern = re.compile(regular_expression(other_words(known, LETTERS)))
    assert (pattern.fullmatch(word) is None) == (word in known)


@given(st.text(max_size=6), st.text(max_size=6))
def test_a_literal_matches_itself_alone(text: str, other: str) -> None:
    pattern = re.compile(regular_expression(Literal(text)))
    assert pattern.fullmatch(text)
    assert (pattern.fullmatch(other) is None) == (text != other)


@given(st.sets(st.characters(exclude_categories=["Cs"])), st.characters())
def test_a_set_has_its_characters_and_no_others(
    characters: set[str], other: str
) -> None:
    if not characters:
        return
    one = Characters.of(characters)
    for pattern, is_inside in (
        (one, other in characters),
        (Characters.other_than("".join(characters)), other not in characters),
    ):
        found = re.compile(regular_expression(pattern)).fullmatch(other)
        assert (found is not None) == is_inside
    assert one.spells(other) == (other in characters)


@pytest.mark.parametrize(
    ("pattern", "regex", "gbnf"),
    [
        (NUMBER, r"-?[0-9]+(?:\.[0-9]+)?", '"-"? [0-9]+ ("." [0-9]+)?'),
        (choice(["a", "b"]), "a|b", '"a" | "b"'),
        (
            concatenation(choice(["a", "b"]), "c"),
            "(?:a|b)c",
            '("a" | "b") "c"',
        ),
        (repeated(DIGIT, 2, 2), "[0-9]{2}", "[0-9]{2}"),
        (repeated(DIGIT, 1, 3), "[0-9]{1,3}", "[0-9]{1,3}"),
        (optional("ab"), "(?:ab)?", '"ab"?'),
        (any_case("a1"), "[Aa][1]", "[Aa] [1]"),
        (Characters.of('-^]\\"'), r"[\"\-\\-\^]", r"[\"\x2D\\-\x5E]"),
        (joined_words(DIGIT), "[0-9](?: [0-9])*", '[0-9] (" " [0-9])*'),
    ],
)
def test_patterns_are_written_in_both_notations(
    pattern: Pattern, regex: str, gbnf: str
) -> None:
    assert regular_expression(pattern) == regex
    assert gbnf_expression(pattern) == gbnf
