"""Confidence: what is known of pairs of rules, the weights of evidence, and the file that keeps both."""

from __future__ import annotations

import json
from dataclasses import asdict, astuple, fields, replace
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
    MOST_COUNTED,
    OUT_OF_SCOPE_SHARE,
    PRIOR_PRECISION,
    PRIORS,
    ROOT_PARENT,
    Calibrator,
    CallEvidence,
    ContextWord,
    Evidence,
    Expectation,
    HeldOutSentence,
    KnownContexts,
    ProgramTrial,
    RulePair,
    RulePairs,
    ValueContext,
    Weights,
    WordPairs,
    context_words,
    rule_pairs,
    value_contexts,
)
from nqg.model.free_text import KnownTexts
from nqg.slots.matcher import Mention
from oracles import logistic_by_descent

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


def evidences() -> st.SearchStrategy[Evidence]:
    return st.builds(
        Evidence,
        probability=st.none() | st.floats(0, 1),
        has_derivation=st.booleans(),
        unseen=st.integers(0, 6),
        unknown=st.integers(0, 6),
        log_probability=st.none() | st.floats(-400, 0),
        corrected=st.integers(0, 3),
        is_suspect=st.booleans(),
        hides_value=st.booleans(),
        text_signs=st.integers(0, 4),
    )


def held_out_sentences() -> st.SearchStrategy[list[HeldOutSentence]]:
    trials = st.lists(st.builds(ProgramTrial, evidences(), st.booleans()), max_size=3)
    in_scope = st.builds(HeldOutSentence, trials.map(tuple))
    wrong = st.lists(st.builds(ProgramTrial, evidences(), st.just(False)), max_size=2)
    out_of_scope = st.builds(
        HeldOutSentence,
        wrong.map(tuple),
        is_in_scope=st.just(False),
        is_made=st.booleans(),
    )
    return st.lists(in_scope | out_of_scope, max_size=5)


def many(evidence: Evidence, *, right: int, wrong: int) -> list[HeldOutSentence]:
    """Held-out sentences, each with one candidate of this evidence."""
    verdicts = [True] * right + [False] * wrong
    return [HeldOutSentence((ProgramTrial(evidence, verdict),)) for verdict in verdicts]


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


def test_a_rule_that_training_never_needs_is_unseen_once() -> None:
    known = RulePairs(((ROOT_PARENT, 0, 1, 3), (1, 0, 2, 1)))
    new = [RulePair(1, 0, 3), RulePair(3, 0, 2), RulePair(3, 1, 1), RulePair(2, 0, 1)]
    assert known.unseen([RulePair(ROOT_PARENT, 0, 1), *new]) == 2


def test_pairs_of_rules_by_hand_are_not_unseen_since_training_could_have_none() -> None:
    known = RulePairs(((ROOT_PARENT, 0, 1, 3), (1, 0, 2, 1)))
    pairs = [
        RulePair(ROOT_PARENT, 0, 1),
        RulePair(1, 0, 3),
        RulePair(1, 0, 3),
        RulePair(2, 0, 4),
        RulePair(2, 1, 5),
    ]
    assert known.unseen(pairs) == 3
    assert known.unseen(pairs, trained=4) == 1


# The weights


@pytest.mark.parametrize("has_seq2seq", [False, True], ids=["grammar", "both"])
@given(held_out_sentences())
def test_weights_are_those_that_plain_gradient_descent_finds(
    has_seq2seq: bool, sentences: list[HeldOutSentence]
) -> None:
    in_scope = sum(each.is_in_scope for each in sentences)
    made = sum(each.is_made for each in sentences)
    rows = []
    for sentence in sentences:
        count = 1.0
        if sentence.is_made:
            count = OUT_OF_SCOPE_SHARE * in_scope / made
        rows += [
            (trial.evidence.features(), trial.is_right, count)
            for trial in sentence.candidates
        ]
    prior = astuple(PRIORS[has_seq2seq])
    expected = logistic_by_descent(rows, prior, PRIOR_PRECISION)
    fitted = Weights.fit(sentences, has_seq2seq=has_seq2seq)
    assert astuple(fitted) == pytest.approx(expected, abs=1e-6)


@given(evidences())
def test_features_are_in_the_order_of_the_weights_and_none_outweighs_the_others(
    evidence: Evidence,
) -> None:
    features = evidence.features()
    assert len(features) == len(fields(Weights))
    assert all(-1 <= feature <= 1 for feature in features)


@pytest.mark.parametrize("has_seq2seq", [False, True], ids=["grammar", "both"])
@given(evidences(), st.floats(0, 1), st.floats(0, 1))
def test_a_confidence_is_a_probability_that_rises_with_that_of_the_grammar(
    has_seq2seq: bool, evidence: Evidence, one: float, other: float
) -> None:
    weights = PRIORS[has_seq2seq]
    low, high = sorted([one, other])
    below = weights.confidence(replace(evidence, probability=low))
    above = weights.confidence(replace(evidence, probability=high))
    assert 0 <= below <= above <= 1


SURE = Evidence(1.0, log_probability=0.0)


@pytest.mark.parametrize(
    "doubtful",
    [
        replace(SURE, unseen=1),
        replace(SURE, unknown=1),
        replace(SURE, corrected=1),
        replace(SURE, is_suspect=True),
        replace(SURE, hides_value=True),
        replace(SURE, text_signs=1),
        replace(SURE, probability=0.9),
        replace(SURE, probability=None),
    ],
    ids=[
        "an unseen pair",
        "an unknown word",
        "a corrected word",
        "a suspect word",
        "a hidden value",
        "unusual free text",
        "another reading",
        "another program",
    ],
)
@pytest.mark.parametrize("has_seq2seq", [False, True], ids=["grammar", "both"])
def test_every_sign_of_a_misreading_lowers_the_confidence(
    has_seq2seq: bool, doubtful: Evidence
) -> None:
    weights = PRIORS[has_seq2seq]
    assert weights.confidence(doubtful) < weights.confidence(SURE)


def test_a_program_that_the_other_reader_finds_improbable_is_less_sure() -> None:
    both = PRIORS[True]
    assert both.confidence(SURE) > 0.95
    assert both.confidence(replace(SURE, log_probability=-20.0)) < 0.5
    assert both.confidence(replace(SURE, probability=None, has_derivation=False)) < 0.9


@pytest.mark.parametrize("log_probability", [None, 0.0], ids=["grammar", "both"])
def test_words_that_no_derivation_reads_keep_a_program_from_being_sure(
    log_probability: float | None,
) -> None:
    certain = replace(PRIORS[log_probability is not None], bias=100.0)
    call = CallEvidence(1.0, unread_words=("maybe",))
    evidence = Evidence(None, log_probability=log_probability, call=call)
    assert certain.confidence(evidence) == 1 - OUT_OF_SCOPE_SHARE
    all_read = replace(evidence, call=replace(call, unread_words=()))
    for other in (all_read, replace(evidence, probability=1.0)):
        assert certain.confidence(other) > 1 - OUT_OF_SCOPE_SHARE


def test_more_unseen_pairs_than_are_counted_make_no_difference() -> None:
    few, many_pairs = (
        Evidence(1.0, unseen=count) for count in (MOST_COUNTED, 10 * MOST_COUNTED)
    )
    assert few.features() == many_pairs.features()


def test_weights_of_no_trials_are_those_of_other_datasets() -> None:
    for has_seq2seq, prior in PRIORS.items():
        assert Weights.fit([], has_seq2seq=has_seq2seq) == prior
        silent = [HeldOutSentence(()), HeldOutSentence((), is_in_scope=False)]
        assert Weights.fit(silent, has_seq2seq=has_seq2seq) == prior


def test_a_dataset_with_many_trials_is_believed() -> None:
    evidence = Evidence(1.0, unseen=1)
    for right in (950, 100):
        sentences = many(evidence, right=right, wrong=1_000 - right)
        weights = Weights.fit(sentences, has_seq2seq=False)
        assert weights.confidence(evidence) == pytest.approx(right / 1_000, abs=0.02)


def test_a_sign_that_no_trial_has_keeps_its_weight() -> None:
    weights = Weights.fit(many(Evidence(1.0), right=5_000, wrong=0), has_seq2seq=False)
    assert weights.confidence(Evidence(1.0)) > 0.99
    assert weights.corrected_words == pytest.approx(PRIORS[False].corrected_words)
    assert weights.hidden_value == pytest.approx(PRIORS[False].hidden_value)


def test_however_many_sentences_out_of_scope_are_made_they_count_alike() -> None:
    right = many(Evidence(1.0), right=40, wrong=0)
    wrong = HeldOutSentence(
        (ProgramTrial(Evidence(0.9, unknown=1), False),),
        is_in_scope=False,
        is_made=True,
    )
    few, more = (
        Weights.fit([*right, *[wrong] * count], has_seq2seq=False) for count in (2, 90)
    )
    assert astuple(few) == pytest.approx(astuple(more))
    assert few.unknown_words < Weights.fit(right, has_seq2seq=False).unknown_words


def test_sentences_out_of_scope_that_are_given_count_for_more_the_more_there_are() -> (
    None
):
    right = many(Evidence(1.0), right=40, wrong=0)
    wrong = HeldOutSentence(
        (ProgramTrial(Evidence(0.9, unknown=1), False),), is_in_scope=False
    )
    few, more = (
        Weights.fit([*right, *[wrong] * count], has_seq2seq=False) for count in (2, 90)
    )
    assert more.unknown_words < few.unknown_words


def test_weights_that_are_not_finite_are_refused() -> None:
    with pytest.raises(SettingsError, match="expected finite numbers"):
        replace(PRIORS[True], bias=float("nan"))


# What is counted


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


def test_text_that_holds_what_training_has_as_a_value_hides_it() -> None:
    at_time, of_number = (
        ValueContext("at", "time", False),
        ValueContext("of", "number", False),
    )
    known = KnownContexts.of(
        [*[at_time] * 6, of_number, of_number._replace(in_text=True)]
    )
    assert known.rows == (("at", "time", 6),)
    at_time_in_text, of_number_in_text = (
        each._replace(in_text=True) for each in (at_time, of_number)
    )
    assert not known.hides_value([at_time, of_number, of_number_in_text])
    assert known.hides_value([of_number_in_text, at_time_in_text])
    assert not KnownContexts().hides_value([at_time_in_text])


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


# The file

CALIBRATOR = Calibrator(
    replace(PRIORS[True], bias=2.5),
    RulePairs.of([JUMP_TWICE_AND_RUN], GRAMMAR.numbers),
    threshold=0.8,
    least_precision=0.95,
    is_imprecise=True,
    expected=Expectation(9, 8, 7),
    new_templates=Expectation(3, 1, 1),
    contexts=KnownContexts((("at", "time", 3),)),
    texts=KnownTexts((("play", "song"),), (("song", 4),), ("song",), ("play",)),
    words=WordPairs((("jump", "twice", 1),)),
    vocabulary=("jump", "twice"),
    has_seq2seq=True,
)


def test_a_calibrator_survives_the_round_trip_through_its_file(tmp_path: Path) -> None:
    CALIBRATOR.write(tmp_path / "confidence.json")
    again = Calibrator.read(tmp_path / "confidence.json", GRAMMAR)
    assert again == CALIBRATOR
    assert again.weights.confidence(SURE) == CALIBRATOR.weights.confidence(SURE)
    assert again.known_words == {"jump", "twice"}


def test_a_calibrator_says_what_to_expect() -> None:
    assert str(CALIBRATOR).split("\n") == [
        "sentences like these: 89 % answered, 88 % of them rightly (9 held-out sentences)",
        "programs of a new form: 33 % answered, 100 % of them rightly (3 held-out sentences)",
        "no confidence makes 95 % of the answers right, so the model answers where it is at least 80 % sure",
    ]
    precise = replace(CALIBRATOR, is_imprecise=False, new_templates=Expectation())
    assert str(precise) == str(CALIBRATOR).split("\n")[0]


WEIGHTS = asdict(PRIORS[True])


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (
            {"weights": WEIGHTS | {"bias": "much"}},
            "expected a number as 'bias' of [weights], found 'much'",
        ),
        ({"weights": {"bias": 1.0}}, "of [weights] is missing"),
        ({"weights": WEIGHTS | {"bias": 1e999}}, "Infinity is not a JSON value"),
        ({"weights": WEIGHTS | {"known": 1.0}}, "no key of [weights] 'known'"),
        (
            {"threshold": None},
            "expected a number as 'threshold' of the calibrator, found None",
        ),
        ({"threshold": 1.5}, "threshold is 1.5; expected a number from 0 to 1"),
        ({"least_precision": -1}, "least_precision is -1"),
        (
            {"expected": {"sentences": 3, "answered": 2, "right": 3}},
            "expected no more right answers than answers, and sentences",
        ),
        ({"vocabulary": [1]}, "expected a string as entry 0"),
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
