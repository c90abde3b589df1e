"""Pairs drawn from a grammar: legal without exception, in proportion to their probability, the same for a seed."""

from __future__ import annotations

import math
import random
from collections import Counter
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nqg.data.example import Example
from nqg.errors import NqgError, SettingsError
from nqg.grammar.grammar import Grammar
from nqg.induction.probabilities import ROOT_ARGUMENT
from nqg.induction.sampling import (
    GrammarSampler,
    SamplingTable,
    TypedSpace,
    normalised,
    render_derivation,
    smoothed,
)
from nqg.induction.settings import SamplingSettings
from nqg.types.target_grammar import TargetGrammar

RULES = Grammar.parse("""
lights ### light
hall ### hall
NT_1 in the NT_2 ### in ( NT_1 , NT_2 )
turn on NT_1 ### on ( NT_1 )
NT_1 and NT_2 ### NT_1 NT_2
NT_1 twice ### NT_1 NT_1
""")
LEGAL = TargetGrammar.parse("""
<all> ::= <command> | <all> <command>
<command> ::= on ( <thing> )
<thing> ::= light | in ( <thing> , <room> )
<room> ::= hall
""")
GRAMMARS = {"typed": RULES.typed_by(LEGAL), "untyped": RULES}
EXAMPLES = [
    Example("turn on lights", "on ( light )"),
    Example("turn on lights in the hall", "on ( in ( light , hall ) )"),
    Example("turn on lights twice", "on ( light ) on ( light )"),
]


def trees(
    grammar: Grammar, space: TypedSpace, depth: int
) -> list[list[tuple[int, ...]]]:
    """Every derivation of at most this depth below each slot, as rules in pre-order: the obvious way."""
    if not depth:
        return [[] for _ in space.argument_classes]
    below, found = trees(grammar, space, depth - 1), list[tuple[int, ...]]()
    for number, rule in enumerate(grammar):
        slots = [int(space.first_argument[number]) + at for at in range(rule.arity)]
        found += [
            (number, *sum(parts, ()))
            for parts in product(*(below[slot] for slot in slots))
        ]
    return [found for _ in space.argument_classes]


def placed(
    grammar: Grammar, space: TypedSpace, rules: tuple[int, ...]
) -> list[tuple[int, int]]:
    """A derivation in pre-order as slots and rules."""
    pending, found = [ROOT_ARGUMENT], list[tuple[int, int]]()
    for rule in rules:
        found.append((pending.pop(), rule))
        first = int(space.first_argument[rule])
        pending += [first + at for at in reversed(range(grammar[rule].arity))]
    return found


@pytest.mark.parametrize("grammar", GRAMMARS.values(), ids=GRAMMARS)
@settings(max_examples=20)
@given(seed=st.integers(0, 1000), depth=st.integers(2, 3))
def test_sums_are_those_of_all_legal_derivations(
    grammar: Grammar, seed: int, depth: int
) -> None:
    space = TypedSpace.of(grammar)
    weights = np.random.default_rng(seed).random(space.legal.shape) * space.legal
    total = 0.0
    for rules in trees(grammar, space, depth)[ROOT_ARGUMENT]:
        derivation = tuple(placed(grammar, space, rules))
        _, target = render_derivation(derivation, grammar)
        if grammar.target_grammar is None or LEGAL.accepts(target.split()):
            total += math.prod(float(weights[place]) for place in derivation)
    assert SamplingTable(space, weights, depth).total == pytest.approx(total)


def test_draws_are_in_proportion_to_probabilities() -> None:
    grammar = GRAMMARS["typed"]
    space = TypedSpace.of(grammar)
    weights = normalised(space.legal * np.arange(1, 7))
    table, rng = SamplingTable(space, weights, 3), random.Random(0)
    drawn = Counter(table.derivation(rng) for _ in range(20_000))
    for derivation, count in drawn.most_common(10):
        expected = (
            math.prod(float(weights[place]) for place in derivation) / table.total
        )
        assert count / 20_000 == pytest.approx(expected, abs=0.02)
    assert all(
        LEGAL.accepts(render_derivation(derivation, grammar)[1].split())
        for derivation in drawn
    )


@settings(max_examples=25)
@given(
    seed=st.integers(0, 99),
    explore=st.sampled_from([0.0, 0.5, 1.0]),
    rare=st.sampled_from([0.0, 1.0]),
    longest=st.integers(4, 30),
)
def test_samples_are_legal_different_short_enough_and_the_seeds_alone(
    seed: int, explore: float, rare: float, longest: int
) -> None:
    asked = SamplingSettings(
        depth=5, explore=explore, rare=rare, longest=longest, per_target=2
    )
    sampler = GrammarSampler(GRAMMARS["typed"], EXAMPLES, asked)
    pairs = sampler.samples(40, seed)
    assert pairs == GrammarSampler(GRAMMARS["typed"], EXAMPLES, asked).samples(40, seed)
    assert len({*pairs}) == len(pairs) <= 40
    assert all(
        LEGAL.accepts(pair.target_tokens) and len(pair.target_tokens) <= longest
        for pair in pairs
    )
    assert max(Counter(pair.target for pair in pairs).values(), default=0) <= 2


def test_what_examples_show_is_likelier_and_foreseen() -> None:
    shown = GrammarSampler(GRAMMARS["typed"], EXAMPLES, SamplingSettings(smoothing=0.1))
    equal = GrammarSampler(GRAMMARS["typed"])
    one, other = shown.fit(EXAMPLES), equal.fit(EXAMPLES)
    assert (one.pairs, one.derivable) == (3, 3)
    assert one.perplexity is not None
    assert other.perplexity is not None
    assert one.perplexity < other.perplexity
    assert str(shown.fit([Example("dance", "dance")])) == "0 of 1 pairs derivable"


TURNS = Grammar.parse("""
left ### L
right ### R
jump ### J
walk ### W
NT_1 opposite NT_2 ### NT_2 NT_2 NT_1
NT_1 around NT_2 ### NT_2 NT_1 NT_2 NT_1
""")
SEEN = [
    "jump opposite left = L L J",
    "walk opposite right = R R W",
    "jump around left = L J L J",
]


def test_exploring_draws_what_similar_places_have() -> None:
    examples = [Example(*pair.split(" = ")) for pair in SEEN * 100]

    def around(explore: float) -> Counter[str]:
        sampler = GrammarSampler(
            TURNS, examples, SamplingSettings(depth=2, explore=explore)
        )
        table, rng = (
            SamplingTable(sampler.space, sampler.probabilities, 2),
            random.Random(0),
        )
        sources = [
            render_derivation(table.derivation(rng), TURNS)[0] for _ in range(3000)
        ]
        return Counter(source.split()[-1] for source in sources if "around" in source)

    assert around(0.0)["left"] > 50 * around(0.0)["right"]
    explored = around(0.3)
    assert (
        explored["left"]
        > explored["right"]
        > 2 * max(explored["jump"], explored["walk"])
    )


@given(seed=st.integers(0, 99), explore=st.floats(0, 1))
def test_probabilities_are_mixed_place_by_place(seed: int, explore: float) -> None:
    legal = TypedSpace.of(GRAMMARS["typed"]).legal
    counts = np.random.default_rng(seed).integers(0, 4, legal.shape) * legal
    seen = [row / row.sum() if row.any() else row for row in counts]
    for slot, row in enumerate(
        smoothed(counts, legal, SamplingSettings(explore=explore, smoothing=2.0))
    ):
        uniform = legal[slot] / legal[slot].sum()
        lent = np.zeros(len(uniform))
        for other, distribution in enumerate(seen):
            if other != slot:
                lent += (
                    sum(
                        math.sqrt(one * two)
                        for one, two in zip(seen[slot], distribution, strict=True)
                    )
                    * distribution
                )
        lent *= legal[slot]
        others = 0.8 * lent / lent.sum() + 0.2 * uniform if lent.any() else uniform
        own = (counts[slot] + 2 * uniform) / (counts[slot].sum() + 2)
        assert row == pytest.approx((1 - explore) * own + explore * others)


def test_a_grammar_that_can_say_nothing_is_refused() -> None:
    with pytest.raises(
        NqgError,
        match="no legal target has a derivation of depth 1 or less; raise depth",
    ):
        GrammarSampler(GRAMMARS["typed"], settings=SamplingSettings(depth=1)).samples(1)
    with pytest.raises(NqgError, match="no rules to draw pairs from"):
        GrammarSampler(Grammar(()))
    with pytest.raises(SettingsError, match="explore is 2; expected 0 to 1"):
        SamplingSettings(explore=2)
