"""Counts of derivations and the data term against enumeration and against forests."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from nqg.grammar import chart as module
from nqg.grammar.arrays import FloatArray
from nqg.grammar.chart import charts, encoded_charts, encoded_goals
from nqg.grammar.encoding import GrammarArrays
from nqg.grammar.grammar import Grammar
from nqg.grammar.ragged import Ragged
from nqg.grammar.semirings import derivation_counts, log_derivation_counts
from nqg.induction.description_length import data_bits
from oracles import all_derivations
from strategies import grammars, sentences

Tokens = tuple[str, ...]
FEW = 500  # derivations that brute force may list
CATALAN = Grammar.parse("a ### x\nNT_1 NT_2 ### NT_1 NT_2")
AMBIGUOUS = Grammar.parse("a ### x\na ### y\nNT_1 NT_2 ### NT_1 NT_2")
targets = st.lists(st.sampled_from(("x", "y", "z")), min_size=1, max_size=6).map(tuple)


def batches(
    grammar: Grammar, pairs: list[tuple[Tokens, Tokens]]
) -> tuple[Ragged, Ragged]:
    sources, goals = ([pair[side] for pair in pairs] for side in (0, 1))
    return grammar.encoded.encode(sources), grammar.encoded.encode(goals)


def log_counts(
    arrays: GrammarArrays, sources: Ragged, targets: Ragged
) -> tuple[FloatArray, FloatArray]:
    full = encoded_charts(arrays, sources)
    return log_derivation_counts(full), log_derivation_counts(
        encoded_goals(arrays, full, targets)
    )


def counts(
    grammar: Grammar, pairs: list[tuple[Tokens, Tokens]]
) -> list[tuple[float, float]]:
    everything, right = log_counts(grammar.encoded.arrays, *batches(grammar, pairs))
    return list(zip(everything.tolist(), right.tolist(), strict=True))


def bits(grammar: Grammar, pairs: list[tuple[Tokens, Tokens]]) -> list[float]:
    return list(data_bits(grammar.encoded.arrays, *batches(grammar, pairs)))


def logarithm(count: int) -> float:
    return math.log(count) if count else -math.inf


@given(grammars(), sentences, st.data())
def test_counts_equal_enumeration(
    grammar: Grammar, source: Tokens, data: st.DataObject
) -> None:
    assume(derivation_counts(charts(grammar, [source]))[0] <= FEW)
    derivations = all_derivations(grammar, source)
    reachable = sorted({each.target for each in derivations if each.target_length < 30})
    target = data.draw(
        st.one_of(st.sampled_from(reachable), targets) if reachable else targets
    )
    right = sum(
        each.target_length == len(target) and each.target == target
        for each in derivations
    )
    assert counts(grammar, [(source, target)])[0] == pytest.approx(
        (logarithm(len(derivations)), logarithm(right))
    )
    expected = math.log2(len(derivations) / right) if right else math.inf
    assert bits(grammar, [(source, target)]) == [pytest.approx(expected)]


@given(
    grammars(),
    st.lists(st.tuples(sentences, targets), max_size=4),
    st.lists(st.booleans(), max_size=7),
)
def test_rules_that_are_switched_off_are_as_if_they_were_not_there(
    grammar: Grammar, pairs: list[tuple[Tokens, Tokens]], switches: list[bool]
) -> None:
    active = np.array(
        [*switches, *[True] * len(grammar)][: len(grammar)], dtype=np.bool_
    )
    smaller = Grammar(
        tuple(rule for rule, is_on in zip(grammar, active, strict=True) if is_on)
    )
    switched = grammar.encoded.arrays._replace(active=active)
    found = log_counts(switched, *batches(grammar, pairs))
    np.testing.assert_allclose(found, np.array(counts(smaller, pairs)).reshape(-1, 2).T)


@given(grammars(), st.lists(st.tuples(sentences, targets), max_size=4))
@hypothesis_settings(max_examples=25)
def test_too_little_room_at_first_changes_nothing(
    grammar: Grammar, pairs: list[tuple[Tokens, Tokens]]
) -> None:
    expected = counts(grammar, pairs)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "INITIAL_CAPACITY", 1)
        assert counts(grammar, pairs) == expected


def test_numbers_too_large_for_floats_are_counted_in_logarithms() -> None:
    signs = "xyzuvwrstq"
    single = [f"a NT_1 ### {sign} NT_1" for sign in signs]
    grammar = Grammar.parse("\n".join(["e ### e", "a a NT_1 ### x x NT_1", *single]))
    everything, right = [1, len(signs)], [1, 1]
    for _ in range(350):
        everything.append(len(signs) * everything[-1] + everything[-2])
        right.append(right[-1] + right[-2])
    pairs = [
        ((*["a"] * length, "e"), (*["x"] * length, "e")) for length in (1, 2, 300, 351)
    ]
    expected = [
        (math.log(everything[length]), math.log(right[length]))
        for length in (1, 2, 300, 351)
    ]
    assert math.isfinite(float(everything[300]))
    with pytest.raises(OverflowError):
        float(everything[351])
    np.testing.assert_allclose(counts(grammar, pairs), expected, atol=1e-12)
    np.testing.assert_allclose(counts(grammar, pairs[:3]), expected[:3], atol=1e-12)


def test_a_choice_between_two_signs_a_word_costs_a_bit_a_word() -> None:
    pairs = [
        (("a",) * length, ("x", "y", "y", "x", "y")[:length]) for length in range(1, 6)
    ]
    assert bits(AMBIGUOUS, pairs) == pytest.approx([1, 2, 3, 4, 5])


def test_unknown_tokens_cannot_be_derived() -> None:
    pairs = [
        (("b",), ("x",)),
        (("a",), ("b",)),
        (("a", "b"), ("x", "b")),
        (("a",), ("x",)),
    ]
    assert counts(CATALAN, pairs) == [
        (-math.inf, -math.inf),
        (0.0, -math.inf),
        (-math.inf, -math.inf),
        (0.0, 0.0),
    ]
    assert bits(CATALAN, pairs) == [math.inf, math.inf, math.inf, 0.0]


def test_empty_batches_empty_sentences_and_empty_grammars_are_values() -> None:
    assert counts(CATALAN, []) == []
    assert counts(CATALAN, [((), ()), ((), ("x",)), (("a",), ())]) == [
        (-math.inf, -math.inf),
        (-math.inf, -math.inf),
        (0.0, -math.inf),
    ]
    assert bits(Grammar(()), [(("a",), ("x",))]) == [math.inf]
