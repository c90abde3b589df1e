"""Round trips: new programs from the statistics of known ones, and pairs that two models agree on."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nqg.data.example import Example
from nqg.grammar.grammar import Grammar
from nqg.induction.sampling import GrammarSampler
from nqg.seq2seq.augmentation import Augmentation, ProgramSampler, round_trips, rules_of
from nqg.seq2seq.seq2seq import Seq2seq
from nqg.seq2seq.settings import (
    AugmentationSettings,
    FineTuningSettings,
    Seq2seqSettings,
    SmallT5Settings,
)
from nqg.types.program_trees import read_term
from nqg.types.target_grammar import TargetGrammar

LEGAL = TargetGrammar.parse(
    "<s> ::= f ( <t> ) | g ( <t> , <t> )\n<t> ::= a | b | c | h ( <t> )"
)
KNOWN = ["f ( a )", "f ( b )", "g ( a , c )", "f ( h ( b ) )"]
SMALL = Seq2seqSettings(
    embedded=SmallT5Settings(width=32, layers=1, heads=2, dropout=0.0),
    longest_target=12,
)
BRIEF = FineTuningSettings(steps=60, learning_rate=0.01, batch_size=8)
PAIRS = [
    Example("eff ay", "f ( a )"),
    Example("eff bee", "f ( b )"),
    Example("gee ay see", "g ( a , c )"),
]


def applied(words: tuple[str, list[str]]) -> str:
    head, arguments = words
    return f"{head} ( {' , '.join(arguments)} )"


TERMS = st.recursive(
    st.sampled_from("abc"),
    lambda inner: st.tuples(
        st.sampled_from("fg"), st.lists(inner, min_size=1, max_size=3)
    ).map(applied),
)


@given(TERMS)
@settings(max_examples=50, deadline=None)
def test_a_program_is_made_of_its_heads(program: str) -> None:
    term = read_term(program.split())
    assert term is not None
    rules = list(rules_of(term))
    grammar = Grammar.of(dict.fromkeys(rules), 6)
    fit = GrammarSampler(grammar, [Example(program, program)]).fit(
        [Example(program, program)]
    )
    assert fit.derivable == 1
    assert sum(len(rule.source) - rule.arity for rule in rules) == len(program.split())


def test_drawn_programs_are_new_and_legal_and_all_short_ones_are_found() -> None:
    found = ProgramSampler(KNOWN, LEGAL).programs(400)
    assert len(found) == len({*found})
    assert {*KNOWN}.isdisjoint(found)
    assert all(LEGAL.accepts(program.split()) for program in found)
    leaves = [*"abc", *(f"h ( {leaf} )" for leaf in "abc")]
    assert {f"f ( {leaf} )" for leaf in leaves} - {*KNOWN} <= {*found}
    assert found == ProgramSampler(KNOWN, LEGAL).programs(400)
    assert max(len(program.split()) for program in found) <= 1.6 * 7 + 1


def test_senseless_programs_are_left_out_and_lengths_take_turns() -> None:
    found = ProgramSampler(KNOWN, LEGAL).programs(6, lambda program: "c" not in program)
    assert not any("c" in program for program in found)
    lengths = [len(program.split()) for program in found]
    assert lengths != [lengths[0]] * len(lengths)


def test_flat_programs_give_no_new_ones() -> None:
    assert ProgramSampler(["I_JUMP I_JUMP", "I_WALK"]).programs(5) in ([], ["I_JUMP"])


@pytest.fixture(scope="module")
def forward() -> Seq2seq:
    return Seq2seq.train(PAIRS, SMALL, BRIEF, device="cpu")


@pytest.fixture(scope="module")
def reverse() -> Seq2seq:
    return Seq2seq.train(
        [Example(pair.target, pair.source) for pair in PAIRS],
        SMALL,
        BRIEF,
        device="cpu",
    )


def test_what_comes_back_is_kept(forward: Seq2seq, reverse: Seq2seq) -> None:
    programs = ["f ( a )", "g ( a , c )", "f ( c )"]
    found = round_trips(programs, reverse, forward, sentences=4, seed=0)
    assert {pair.target for pair in found} <= {*programs}
    assert [pair.target for pair in found] == forward.predict(
        [pair.source for pair in found]
    )
    assert Example("eff ay", "f ( a )") in found
    assert found == round_trips(programs, reverse, forward, sentences=4, seed=0)


def test_targets_are_drawn_as_often_as_asked_and_the_same_for_a_seed(
    forward: Seq2seq,
) -> None:
    found = forward.drawn(["eff ay", "gee ay see"], count=3, top_p=1.0, seed=5)
    assert [len(each) for each in found] == [3, 3]
    assert found == forward.drawn(["eff ay", "gee ay see"], count=3, top_p=1.0, seed=5)


def test_rounds_add_pairs_and_tell_of_their_models() -> None:
    grammar = Grammar.parse(
        "eff NT_1 ### f ( NT_1 )\nay ### a\nbee ### b\nsee ### c"
    ).typed_by(LEGAL)
    seen: list[int] = []
    asked = AugmentationSettings(
        samples=6, reverse_steps=40, rounds=2, round_steps=50, programs=5, sentences=2
    )
    teaching = Augmentation(
        grammar, PAIRS, asked, after_round=lambda number, _: seen.append(number)
    )
    steps = list(teaching.steps(SMALL, BRIEF, "cpu"))
    assert len(steps) == teaching.steps_in_all(BRIEF) == 40 + 2 * 50
    assert seen == [0, 1]
    assert all(LEGAL.accepts(pair.target_tokens) for pair in teaching.added)
    assert {*PAIRS}.isdisjoint(teaching.round_trips)
