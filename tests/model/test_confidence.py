"""Confidence: what is known of pairs of rules, the weights of evidence, and the file that keeps both."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import astuple, fields, replace
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nqg.errors import FormatError, SettingsError
from nqg.grammar.derivation import Derivation, Hyperedge
from nqg.grammar.grammar import Grammar, Rule, SlotInstance
from nqg.grammar.hypergraph import Span
from nqg.model.confidence import (
    CONTEXT_WINDOW,
    ROOT_PARENT,
    Calibrator,
    ContextWord,
    Evidence,
    KnownContexts,
    Observation,
    RulePair,
    RulePairs,
    ValueContext,
    Weights,
    WordPairs,
    context_words,
    rule_pairs,
    value_contexts,
)
from nqg.slots.matcher import Mention
from oracles import expected_by_walks

GRAMMAR = Grammar.parse("""
NT_1 and NT_2 ### NT_1 NT_2
NT_1 twice ### NT_1 NT_1
jump ### JUMP
run ### RUN
walk ### WALK
seven ### 7
at NT_1 ### AT NT_1
""")
AND, TWICE, JUMP, RUN, WALK, SEVEN, AT = range(7)
JUMP_TWICE_AND_RUN = Derivation.parse(
    "[0:4] NT_1 and NT_2 ### NT_1 NT_2\n  [0:2] NT_1 twice ### NT_1 NT_1\n    [0:1] jump ### JUMP\n  [3:4] run ### RUN"
)


def known(*pairs: tuple[int, int, int]) -> RulePairs:
    return RulePairs(tuple((*pair, pairs.count(pair)) for pair in sorted(set(pairs))))


def evidences() -> st.SearchStrategy[Evidence]:
    shares = st.floats(0, 1)
    return st.builds(
        Evidence, shares, st.integers(0, 50), st.integers(0, 6), shares, st.booleans()
    )


def observations() -> st.SearchStrategy[list[Observation]]:
    return st.lists(st.builds(Observation, evidences(), st.booleans()), max_size=30)


def test_the_pairs_of_a_derivation_begin_with_its_root() -> None:
    assert list(rule_pairs(JUMP_TWICE_AND_RUN, GRAMMAR.numbers)) == [
        RulePair(ROOT_PARENT, 0, AND),
        RulePair(AND, 0, TWICE),
        RulePair(AND, 1, RUN),
        RulePair(TWICE, 0, JUMP),
    ]


def test_pairs_are_counted_over_derivations() -> None:
    pairs = RulePairs.of([JUMP_TWICE_AND_RUN, JUMP_TWICE_AND_RUN], GRAMMAR.numbers)
    assert pairs.rows == (
        (ROOT_PARENT, 0, AND, 2),
        (AND, 0, TWICE, 2),
        (AND, 1, RUN, 2),
        (TWICE, 0, JUMP, 2),
    )
    assert (
        pairs.count(RulePair(TWICE, 0, JUMP)),
        pairs.count(RulePair(TWICE, 0, RUN)),
    ) == (2, 0)


@given(
    st.lists(
        st.tuples(st.integers(-1, 3), st.integers(0, 1), st.integers(0, 3)), max_size=12
    )
)
def test_how_often_a_pair_is_expected_is_the_sum_over_all_walks(
    pairs: list[tuple[int, int, int]],
) -> None:
    for pair in product(range(-1, 4), range(2), range(4)):
        expected = known(*pairs).expected(RulePair(*pair))
        assert expected == pytest.approx(
            expected_by_walks([RulePair(*each) for each in pairs], RulePair(*pair))
        )


def test_a_rule_that_was_rare_surprises_less_than_one_that_was_everywhere_but_here() -> (
    None
):
    slots = [(ROOT_PARENT, 0), (AND, 0), (AND, 1)]
    pairs = known(
        *((*slot, verb) for slot in slots for verb in (RUN, WALK)),
        (TWICE, 0, RUN),
        (ROOT_PARENT, 0, JUMP),
    )
    rare, common = (
        Evidence.of(1.0, [RulePair(TWICE, 0, verb)], pairs) for verb in (JUMP, WALK)
    )
    assert (rare.unseen, rare.foreign, common.unseen, common.foreign) == (
        1,
        False,
        1,
        False,
    )
    assert 0 < rare.surprise < common.surprise < 1


def test_a_rule_of_another_kind_is_foreign() -> None:
    pairs = known(
        (ROOT_PARENT, 0, RUN), (ROOT_PARENT, 0, WALK), (TWICE, 0, RUN), (AT, 0, SEVEN)
    )
    assert Evidence.of(1.0, [RulePair(AT, 0, WALK)], pairs) == Evidence(
        1.0, 0, unseen=1, foreign=True
    )
    assert Evidence.of(1.0, [RulePair(ROOT_PARENT, 0, RUN)], pairs) == Evidence(
        1.0, support=1
    )


def test_pairs_of_rules_by_hand_are_not_unseen_since_training_could_have_none() -> None:
    known = RulePairs(((ROOT_PARENT, 0, 1, 3), (1, 0, 2, 1)))
    pairs = [
        RulePair(ROOT_PARENT, 0, 1),
        RulePair(1, 0, 3),
        RulePair(1, 0, 3),
        RulePair(4, 0, 2),
        RulePair(2, 1, 5),
    ]
    assert known.unseen(pairs) == 3
    assert known.unseen(pairs, trained=4) == 1


def test_support_is_how_often_the_rarest_pair_was_seen() -> None:
    pairs = known(
        (ROOT_PARENT, 0, TWICE),
        (ROOT_PARENT, 0, TWICE),
        (ROOT_PARENT, 0, TWICE),
        (TWICE, 0, RUN),
        (TWICE, 0, RUN),
    )
    assert (
        Evidence.of(
            0.5, [RulePair(ROOT_PARENT, 0, TWICE), RulePair(TWICE, 0, RUN)], pairs
        ).support
        == 2
    )


@given(observations(), evidences(), st.floats(0, 1))
def test_a_confidence_is_a_probability_that_rises_with_that_of_the_grammar(
    trials: list[Observation], evidence: Evidence, probability: float
) -> None:
    weights = Weights.fit(trials)
    low, high = sorted([evidence.probability, probability])
    below, above = (
        weights.confidence(replace(evidence, probability=each)) for each in (low, high)
    )
    assert 0 <= below <= above <= 1


def loss(trials: Sequence[Observation], weights: Sequence[float]) -> float:
    """The negative logarithm of the posterior, straight from its definition."""
    precisions = [weight.metadata["precision"] for weight in fields(Weights)]
    priors = zip(weights, astuple(Weights()), precisions, strict=True)
    total = sum(
        precision * (weight - prior) ** 2 / 2 for weight, prior, precision in priors
    )
    for trial in trials:
        logit = sum(
            weight * value
            for weight, value in zip(weights, trial.evidence.features(), strict=True)
        )
        total += math.log1p(math.exp(-logit if trial.is_right else logit))
    return float(total)


@given(observations(), st.lists(st.floats(-2, 2), min_size=7, max_size=7))
def test_no_other_weights_of_the_same_signs_are_more_probable(
    trials: list[Observation], others: list[float]
) -> None:
    fitted = astuple(Weights.fit(trials))
    signs = (0, 1, 0, 1, 0, 1, -1)
    allowed = [
        abs(each) * sign if sign else each
        for each, sign in zip(others, signs, strict=True)
    ]
    near = [
        fit + (each - fit) * 1e-3 for fit, each in zip(fitted, allowed, strict=True)
    ]
    assert loss(trials, fitted) <= min(loss(trials, allowed), loss(trials, near)) + 1e-9


def test_without_trials_the_only_reading_of_what_is_known_is_rather_right_and_of_what_is_new_rather_wrong() -> (
    None
):
    weights = Weights.fit([])
    assert weights == Weights()
    assert 0.85 < weights.confidence(Evidence(1.0, 9)) < 0.9
    assert weights.confidence(Evidence(0.5, 9)) == 0.5  # one of two readings
    assert weights.confidence(Evidence(1.0, 0, 1, foreign=True)) < 0.3


def test_thousands_of_known_answers_that_are_right_say_nothing_of_a_surprising_one() -> (
    None
):
    weights = Weights.fit([Observation(Evidence(1.0, 20), True)] * 5_000)
    assert weights.confidence(Evidence(1.0, 20)) > 0.99
    assert weights.confidence(Evidence(1.0, 0, unseen=1, surprise=1.0)) < 0.5
    assert weights.confidence(Evidence(1.0, 0, unseen=1, surprise=0.1)) > 0.9


def test_weights_of_the_wrong_sign_are_refused() -> None:
    with pytest.raises(
        SettingsError, match="expected log odds and support of 0 or more"
    ):
        Weights(known_log_odds=-1.0)


def value(source: str, target: str, slot: str) -> SlotInstance:
    return SlotInstance(
        tuple(source.split()), tuple(target.split()), Rule.parse(f"@{slot} ### @{slot}")
    )


MENTIONS = [
    Mention(0, 1, "number", ("1",)),
    Mention(4, 5, "number", ("2",)),
    Mention(3, 5, "time", ("2:00",)),
]


@pytest.mark.parametrize(
    ("rule", "start", "expected"),
    [
        (value("two", "2", "number"), 4, [ValueContext("two", "number", False)]),
        (value("one", "1", "number"), 0, []),
        (
            value("direction at two two", "direction at two two", "song"),
            1,
            [ValueContext("two", "number", True), ValueContext("at", "time", True)],
        ),
        (value("two two", "two two", "song"), 3, [ValueContext("two", "number", True)]),
        (value("direction at two", "direction at two", "song"), 1, []),
    ],
    ids=[
        "a value",
        "the first word",
        "text with both",
        "text that begins with one",
        "text that cuts one in two",
    ],
)
def test_values_are_known_by_the_word_before_them(
    rule: SlotInstance, start: int, expected: list[ValueContext]
) -> None:
    words, end = ["one", "direction", "at", "two", "two"], start + len(rule.source)
    outer = Rule.parse(
        " ".join([*words[:start], "NT_1", *words[end:], "### play ( NT_1 )"])
    )
    derivation = Derivation(
        (Hyperedge(outer, Span(0, 5)), Hyperedge(rule, Span(start, end)))
    )
    assert list(value_contexts(derivation, MENTIONS, {"song"})) == expected


def test_text_that_begins_or_ends_as_values_of_training_do_is_improbable() -> None:
    at_time, of_number = (
        ValueContext("at", "time", False),
        ValueContext("of", "number", False),
    )
    known = KnownContexts.of(
        [*[at_time] * 6, of_number, of_number._replace(in_text=True)]
    )
    assert known.rows == (("at", "time", 6),)
    assert known.share([at_time, of_number._replace(in_text=True)]) == 1.0
    assert (
        known.share([of_number._replace(in_text=True), at_time._replace(in_text=True)])
        == 1 / 8
    )


WAKE = Rule.parse("wake me at NT_1 ### wake ( NT_1 )")


@pytest.mark.parametrize(
    ("value", "slot", "expected"),
    [
        (("six",), "time", ("@time", "six")),
        (
            ("half", "past", "six"),
            "time",
            ("@time", None),
        ),  # a typo would leave other words than these
        (("six",), "song", ("@song", None)),  # any words may be a song
    ],
)
def test_of_values_their_slots_are_said(
    value: tuple[str, ...], slot: str, expected: tuple[str, str | None]
) -> None:
    rule = SlotInstance(value, ("6",), Rule((f"@{slot}",), (f"@{slot}",)))
    derivation = Derivation(
        (
            Hyperedge(WAKE, Span(0, 3 + len(value))),
            Hyperedge(rule, Span(3, 3 + len(value))),
        )
    )
    words = [ContextWord(word, word) for word in ("wake", "me", "at")]
    assert context_words(derivation, {"song"}) == [
        ("", None),
        *words,
        expected,
        ("", None),
    ]


SENTENCE = st.lists(st.sampled_from("abcd"), max_size=7)


@given(
    st.lists(SENTENCE, max_size=3),
    SENTENCE,
    st.sets(st.sampled_from("abcd")),
    st.sets(st.integers(0, 6)),
)
def test_a_word_is_doubted_where_training_has_more_of_the_others_around_a_similar_one(
    training: list[list[str]], sentence: list[str], similar: set[str], fixed: set[int]
) -> None:
    seen = {
        (each[i], each[j], j - i)
        for each in training
        for j in range(len(each))
        for i in range(max(j - CONTEXT_WINDOW, 0), j)
    }

    def unseen(words: list[str], at: int) -> int:
        places = (
            (min(at, other), max(at, other))
            for other in range(len(words))
            if 0 < abs(at - other) <= CONTEXT_WINDOW
        )
        return sum(
            (words[left], words[right], right - left) not in seen
            for left, right in places
        )

    expected = bool(seen) and any(
        unseen([*sentence[:at], other, *sentence[at + 1 :]], at) < unseen(sentence, at)
        for at in range(len(sentence))
        if at not in fixed
        for other in similar
    )
    pairs = WordPairs.of(
        [[ContextWord(word, word) for word in each] for each in training]
    )
    assert set(pairs.rows) == seen
    said = [
        ContextWord(word, None if at in fixed else word)
        for at, word in enumerate(sentence)
    ]
    assert pairs.is_suspect(said, lambda _: sorted(similar)) == expected


CALIBRATOR = Calibrator(
    Weights(known=2.5, unseen=-0.5),
    RulePairs.of([JUMP_TWICE_AND_RUN], GRAMMAR.numbers),
    trials=9,
    right=7,
    contexts=KnownContexts((("at", "time", 3),)),
    words=WordPairs((("jump", "twice", 1),)),
)


def test_a_calibrator_survives_the_round_trip_through_its_file(tmp_path: Path) -> None:
    CALIBRATOR.write(tmp_path / "confidence.json")
    again = Calibrator.read(tmp_path / "confidence.json", GRAMMAR)
    assert again == CALIBRATOR
    pairs = list(rule_pairs(JUMP_TWICE_AND_RUN, GRAMMAR.numbers))
    assert (
        again.confidence(0.9, pairs)
        == CALIBRATOR.confidence(0.9, pairs)
        == Weights(known=2.5).confidence(Evidence(0.9, 1))
    )


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (
            {"weights": {"known": "much"}},
            "expected a number as 'known' of [weights], found 'much'",
        ),
        ({"weights": {"unseen": 1.0}}, "[weights]: Weights(known=0.0"),
        (
            {"trials": None},
            "expected an integer as 'trials' of the calibrator, found None",
        ),
        ({"shape": 1}, "no key of the calibrator 'shape'"),
        (
            {"pairs": {"rows": [[0, 0, 1]]}},
            "expected [an integer, an integer, an integer, an integer] as entry 0",
        ),
        (
            {"pairs": {"rows": [[7, 0, 1, 1]]}},
            "expected a slot of one of 7 rules, a rule that fills it, and how often",
        ),
        ({"pairs": {"rows": [[TWICE, 1, 1, 1]]}}, f"found [{TWICE}, 1, 1, 1]"),
        ({"pairs": {"rows": [[ROOT_PARENT, 0, 7, 1]]}}, "found [-1, 0, 7, 1]"),
        ({"pairs": {"rows": [[ROOT_PARENT, 0, 1, 0]]}}, "found [-1, 0, 1, 0]"),
        (
            {"pairs": {"rows": [[ROOT_PARENT, 0, 1, 10**400]]}},
            "found [-1, 0, 1, 1000000",
        ),
        (
            {"contexts": {"rows": [["at", "time"]]}},
            "expected [a string, a string, an integer] as entry 0",
        ),
        (
            {"contexts": {"rows": [["at", "time", 0]]}},
            "expected how often a value was seen, found ['at', 'time', 0]",
        ),
        (
            {"words": {"rows": [["jump", "twice"]]}},
            "expected [a string, a string, an integer] as entry 0",
        ),
        (
            {"words": {"rows": [["jump", "twice", 4]]}},
            "how far apart they are, at most 3, found ['jump', 'twice', 4]",
        ),
    ],
)
def test_a_file_that_is_no_calibrator_of_the_grammar_is_refused_with_the_reason(
    tmp_path: Path, change: dict[str, object], reason: str
) -> None:
    path = tmp_path / "confidence.json"
    CALIBRATOR.write(path)
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(FormatError) as error:
        Calibrator.read(path, GRAMMAR)
    assert str(error.value).startswith(str(path))
    assert reason in str(error.value)
