"""The data term with fitted probabilities, beside one that lists every derivation."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from nqg.data.example import Example
from nqg.grammar.grammar import Grammar
from nqg.induction import probabilities
from nqg.induction.description_length import description_length
from nqg.induction.probabilities import (
    ITERATIONS,
    SMOOTHING,
    fitted_data_bits,
    random_folds,
)
from nqg.induction.settings import InductionSettings
from oracles import all_derivations, fitted_bits_by_definition
from strategies import grammars, sentences

FITTED = InductionSettings(fitted=True)


@st.composite
def grammars_with_pairs(
    draw: st.DrawFn,
) -> tuple[Grammar, list[tuple[tuple[str, ...], tuple[str, ...]]]]:
    """A grammar, and sentences with a target that it yields or, now and then, one that it does not."""
    grammar = draw(grammars())
    pairs = []
    for source in draw(st.lists(sentences, min_size=1, max_size=4)):
        targets = sorted({each.target for each in all_derivations(grammar, source)})
        pairs.append((source, draw(st.sampled_from([*targets, ("never",)]))))
    return grammar, pairs


@given(grammars_with_pairs(), st.sampled_from([1, 256]))
@hypothesis_settings(max_examples=150)
def test_the_bits_are_those_of_a_fit_that_lists_all_derivations(
    drawn: tuple[Grammar, list[tuple[tuple[str, ...], tuple[str, ...]]]], part_size: int
) -> None:
    grammar, pairs = drawn
    sides = [grammar.encoded.encode([pair[side] for pair in pairs]) for side in (0, 1)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(probabilities, "BATCH_SIZE", part_size)
        found = fitted_data_bits(grammar.encoded.arrays, *sides)
    expected = fitted_bits_by_definition(
        grammar, pairs, random_folds(len(pairs)).tolist(), ITERATIONS, SMOOTHING
    )
    assert found.tolist() == pytest.approx(expected, abs=1e-9)


def test_what_examples_never_do_costs_less_the_more_of_them_there_are() -> None:
    grammar = Grammar.parse("""
        NT_1 NT_2 ### NT_2 NT_1
        NT_1 twice ### NT_1 NT_1
        walk ### W
        run ### R
        left ### L
        right ### G
    """)
    verbs, turns = {"walk": "W", "run": "R"}, {"left": "L", "right": "G"}
    sentences = [
        (f"{verb} {turn}", f"{turns[turn]} {verbs[verb]}")
        for verb in verbs
        for turn in turns
    ]
    pairs = [
        Example(f"{source} twice", f"{target} {target}") for source, target in sentences
    ]
    uniform = description_length(grammar, pairs, InductionSettings()).data_bits
    fitted = description_length(grammar, pairs, FITTED).data_bits
    assert uniform == pytest.approx(
        len(pairs)
    )  # (walk left) twice or walk (left twice): a bit each
    assert fitted < uniform / 2


def test_a_long_sentence_has_probabilities_too_small_for_floats() -> None:
    grammar = Grammar.parse("a ### x\nb ### y\nNT_1 NT_2 ### NT_1 NT_2")
    example = Example(" ".join("ab" * 60), " ".join("xy" * 60))
    assert math.isfinite(description_length(grammar, [example], FITTED).data_bits)
