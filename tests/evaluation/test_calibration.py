"""Held-out examples, and the weights and the threshold that are fitted to them."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nqg.data.example import Example, distinct_pairs
from nqg.errors import SettingsError
from nqg.evaluation.calibration import (
    EVEN_ODDS,
    HeldOut,
    Outcome,
    are_precise,
    chosen_threshold,
    expectation,
    fitted,
    folds,
    held_out,
    joined_halves,
    knowledge,
    made_out_of_scope,
    outcomes,
    right_derivations,
    used_rules,
    with_insertions,
)
from nqg.grammar.grammar import Grammar
from nqg.inference.parser import Parser
from nqg.model.confidence import (
    LEAST_ALONE,
    PRIORS,
    Calibrator,
    CallEvidence,
    Evidence,
    Expectation,
    HeldOutSentence,
    ProgramTrial,
    RulePairs,
    Weights,
)
from nqg.model.settings import TrainingSettings
from nqg.pipeline.parser import fit_parser
from nqg.splits.compounds import likely_language
from oracles import threshold_by_trying
from strategies import program_examples

EXAMPLES = [
    Example(
        f"{word} of m{number} {'please ' * number}", f"answer ( {word} ( m{number} ) )"
    )
    for word in ("size", "area", "capital", "river")
    for number in range(5)
]


@pytest.mark.parametrize("kind", HeldOut)
def test_every_example_is_on_one_side(kind: HeldOut) -> None:
    split = held_out([*EXAMPLES, EXAMPLES[0]], kind, share=0.25, seed=3)
    assert sorted(split.train + split.test) == list(range(20))
    assert len(split.test) == 5
    assert split.made_by["method"] == kind


def test_no_template_is_on_both_sides() -> None:
    parts = held_out(EXAMPLES, HeldOut.TEMPLATE).parts(EXAMPLES)
    kinds = [
        {example.target_tokens[2] for example in part}
        for part in (parts.train, parts.test)
    ]
    assert not kinds[0] & kinds[1]


def test_the_longest_are_held_out_by_length() -> None:
    parts = held_out(EXAMPLES, HeldOut.LENGTH, share=4).parts(EXAMPLES)
    shortest, longest = (
        min(len(each.source_tokens) for each in part)
        for part in (parts.test, parts.train)
    )
    assert shortest > longest


def test_the_seed_decides_what_is_held_out() -> None:
    splits = [held_out(EXAMPLES, HeldOut.RANDOM, seed=seed) for seed in (1, 1, 2)]
    assert splits[0] == splits[1] != splits[2]


def test_one_template_cannot_be_held_out() -> None:
    with pytest.raises(SettingsError, match="1 template cannot fill two parts"):
        held_out(EXAMPLES[:5], HeldOut.TEMPLATE)


@pytest.mark.parametrize("kind", [HeldOut.TEMPLATE, HeldOut.RANDOM])
@given(examples=program_examples(), count=st.integers(2, 5), seed=st.integers(0, 3))
def test_every_different_example_is_held_out_in_one_fold(
    kind: HeldOut, examples: list[Example], count: int, seed: int
) -> None:
    different = distinct_pairs(examples)
    template = likely_language(different).template
    groups = (
        {template(example.target) for example in different}
        if kind is HeldOut.TEMPLATE
        else different
    )
    if len(groups) < 2:
        with pytest.raises(
            SettingsError, match=r"1 (template|example) cannot fill two folds"
        ):
            folds(examples, kind, count, seed=seed)
        return
    splits = folds(examples, kind, count, seed=seed)
    assert splits == folds([*examples, *examples], kind, count, seed=seed)
    assert sorted(position for split in splits for position in split.test) == list(
        range(len(different))
    )
    assert all(
        sorted(split.train + split.test) == list(range(len(different)))
        for split in splits
    )
    for split in splits if kind is HeldOut.TEMPLATE else ():
        parts = split.parts(different)
        rest, out = (
            {template(example.target) for example in part}
            for part in (parts.train, parts.test)
        )
        assert not rest & out


def test_by_length_the_longest_are_held_out_once() -> None:
    (split,) = folds(EXAMPLES, HeldOut.LENGTH, 5)
    assert len(split.test) == 4


# Sentences out of scope

SENTENCES = st.lists(
    st.lists(st.sampled_from("abcd"), min_size=1, max_size=5).map(" ".join), min_size=1
)


@given(SENTENCES, st.integers(0, 12), st.integers(0, 5))
def test_sentences_out_of_scope_are_the_same_for_a_seed_and_never_a_known_one(
    sentences: list[str], count: int, seed: int
) -> None:
    made, again = (
        made_out_of_scope(sentences, count, random.Random(seed)) for _ in range(2)
    )
    assert made == again
    assert len(made) <= count
    assert not {*made} & {*sentences}
    words = {word for sentence in sentences for word in sentence.split()}
    assert all({*sentence.split()} <= words for sentence in made)


@given(st.lists(st.lists(st.text(min_size=1), max_size=3).map("  ".join), max_size=4))
def test_no_sentence_out_of_scope_differs_from_a_known_one_in_spaces_alone(
    sentences: list[str],
) -> None:
    made = made_out_of_scope(sentences, 8, random.Random(0)) if sentences else []
    known = {" ".join(sentence.split()) for sentence in sentences}
    assert not {*made} & known
    assert all(made)


@given(
    SENTENCES.filter(lambda sentences: any(map(str.split, sentences))),
    st.integers(0, 12),
)
def test_words_are_inserted_into_known_sentences(
    sentences: list[str], count: int
) -> None:
    made = with_insertions(sentences, count, random.Random(0))
    assert made == with_insertions(sentences, count, random.Random(0))
    assert len(made) == count
    known = {tuple(sentence.split()) for sentence in sentences}
    for sentence, inserted in made:
        words = sentence.split()
        places = range(len(words) - len(inserted) + 1)
        length = len(inserted)
        assert any(
            words[at : at + length] == list(inserted)
            and (*words[:at], *words[at + length :]) in known
            for at in places
        )


def test_halves_are_joined_of_two_functions() -> None:
    pairs = [
        Example("feed the cows", "feed(cows)"),
        Example("close all valves", "close()"),
    ]
    made = joined_halves(pairs, 8, random.Random(0))
    assert {*made} == {"feed the all valves", "close all the cows"}
    assert joined_halves(pairs[:1], 8, random.Random(0)) == []


def test_a_seed_decides_which_sentences_are_made() -> None:
    sentences = [example.source for example in EXAMPLES]
    one, other = (
        made_out_of_scope(sentences, 10, random.Random(seed)) for seed in (1, 2)
    )
    assert len(one) == len(other) == 10
    assert one != other


# What a parser knows

STEPS = [Example("jump", "J"), Example("jump twice", "J J"), Example("walk", "W")]
STEPS_GRAMMAR = Grammar.parse("NT_1 twice ### NT_1 NT_1\njump ### J\nwalk ### W")


@pytest.fixture(scope="module")
def parser() -> Parser:
    return fit_parser(
        STEPS_GRAMMAR, STEPS, training=TrainingSettings(steps=1), device="cpu"
    )


def test_what_training_has_is_known_and_everything_is_answered(parser: Parser) -> None:
    known = knowledge(parser, STEPS, has_seq2seq=False)
    assert known.weights == PRIORS[False]
    assert known.threshold == 0
    assert known.vocabulary == ("jump", "twice", "walk")
    assert known.pairs.rows == (
        (-1, 0, 0, 1),
        (-1, 0, 1, 1),
        (-1, 0, 2, 1),
        (0, 0, 1, 1),
    )
    assert ("jump", "twice", 1) in known.words.rows
    assert not known.has_seq2seq
    assert knowledge(parser, STEPS, has_seq2seq=True).weights == PRIORS[True]


def test_what_a_parser_knows_of_pairs_does_not_depend_on_how_often_an_example_is_repeated(
    parser: Parser,
) -> None:
    once, often = (
        RulePairs.of(
            right_derivations(parser, [*STEPS[:2], *STEPS[2:] * times]),
            parser.grammar.numbers,
        )
        for times in (1, 9)
    )
    assert once == often


def test_rules_that_the_other_examples_do_not_need_could_not_have_been_learned() -> (
    None
):
    used = used_rules(STEPS_GRAMMAR, [Example("jump twice", "J J")])
    assert list(used) == list(STEPS_GRAMMAR)[:2]


# Weights and threshold


def sentence(probability: float, *, is_right: bool) -> HeldOutSentence:
    return HeldOutSentence((ProgramTrial(Evidence(probability), is_right),))


NONE_FITTED = Calibrator(PRIORS[False], RulePairs(()))
# Of those that are sure 95 of 100 are right, of the others 40.
MIXED = [sentence(0.9999, is_right=number % 20 > 0) for number in range(100)]
MIXED += [sentence(0.3, is_right=number % 20 < 8) for number in range(100)]
CONFIDENCES = st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0]) | st.floats(0, 1)


@given(st.lists(st.tuples(CONFIDENCES, st.booleans()), max_size=60), st.floats(0, 1))
def test_the_threshold_is_the_best_of_all_that_could_be_tried(
    answers: list[tuple[float, bool]], precision: float
) -> None:
    tried = [Outcome(confidence, right, False) for confidence, right in answers]
    expected = threshold_by_trying(answers, precision)
    assert chosen_threshold(tried, precision) == expected


@given(
    st.lists(st.tuples(CONFIDENCES, st.booleans()), max_size=30), st.floats(0.001, 1)
)
def test_what_is_expected_counts_answers_from_the_threshold_on(
    answers: list[tuple[float, bool]], threshold: float
) -> None:
    tried = [Outcome(confidence, right, False) for confidence, right in answers]
    verdicts = [right for confidence, right in answers if confidence >= threshold]
    expected = Expectation(len(answers), len(verdicts), sum(verdicts))
    assert expectation(tried, threshold) == expected


def test_where_both_abstain_nothing_is_answered_whatever_the_threshold() -> None:
    (silent,) = outcomes([HeldOutSentence(())], has_seq2seq=False)
    assert silent == Outcome(0.0, False, False)
    assert expectation([silent], 0.0) == Expectation(1, 0, 0)
    assert chosen_threshold([silent], 0.0) is None


def test_the_outcome_of_a_sentence_is_its_surest_candidate() -> None:
    right, wrong = ProgramTrial(Evidence(0.9), True), ProgramTrial(Evidence(0.2), False)
    tried = HeldOutSentence((wrong, right, wrong), is_new_template=True)
    out_of_scope = HeldOutSentence((wrong,), is_in_scope=False, is_made=True)
    (outcome,) = outcomes([tried, out_of_scope], has_seq2seq=False)
    assert (outcome.is_right, outcome.is_new_template) == (True, True)


def test_a_sentence_does_not_teach_the_confidence_in_itself() -> None:
    (outcome,) = outcomes([sentence(0.9, is_right=True)], has_seq2seq=False)
    assert outcome.confidence == PRIORS[False].confidence(Evidence(0.9))


def test_a_model_answers_from_the_confidence_on_from_which_held_out_answers_are_right_often_enough() -> (
    None
):
    all_answered, some = (fitted(NONE_FITTED, MIXED, share) for share in (0.3, 0.9))
    assert all_answered.expected == Expectation(200, 200, 135)
    assert all_answered.threshold < 0.5 < 0.9 < some.threshold
    assert not some.is_imprecise
    assert some.least_precision == 0.9
    assert some.expected.right / some.expected.answered >= 0.9
    assert some.weights == Weights.fit(MIXED, has_seq2seq=False)
    assert some.new_templates == Expectation()


def test_where_no_threshold_is_precise_enough_answers_that_are_rather_right_are_given() -> (
    None
):
    strict = fitted(NONE_FITTED, MIXED, 0.99)
    assert strict.is_imprecise
    assert strict.threshold == EVEN_ODDS
    assert 0 < strict.expected.answered < strict.expected.sentences
    assert fitted(NONE_FITTED, [], 0.95).is_imprecise


def test_answers_of_the_call_reader_alone_must_be_surer_than_others() -> None:
    call = CallEvidence(0.9, fit=2.0)
    alone, both = Evidence(None, False, call=call), Evidence(0.9, call=call)
    assert alone.least_confidence(0.6, 0.95) == LEAST_ALONE
    assert alone.least_confidence(0.6, 0.7) == 0.7
    assert alone.least_confidence(0.9, 0.95) == 0.9
    assert both.least_confidence(0.6, 0.95) == 0.6
    right, wrong = (
        HeldOutSentence((ProgramTrial(alone, is_right),)) for is_right in (True, False)
    )
    tried = [right, wrong, right] * 4
    (free, *_) = outcomes(tried, has_seq2seq=False)
    (strict, *_) = outcomes(tried, 0.95, has_seq2seq=False)
    assert 0.5 < free.confidence < LEAST_ALONE
    assert strict.confidence == 0


def test_an_unlucky_answer_among_few_does_not_silence_a_model() -> None:
    unlucky = [sentence(0.999, is_right=number > 0) for number in range(16)]
    unlucky += [sentence(0.999, is_right=True)] * 8
    assert not fitted(NONE_FITTED, unlucky, 0.9).is_imprecise
    assert fitted(NONE_FITTED, unlucky * 40, 0.99).is_imprecise


def test_a_few_lucky_answers_are_not_enough() -> None:
    lucky = [sentence(0.999, is_right=True)]
    assert fitted(NONE_FITTED, lucky * 4, 0.8).is_imprecise
    assert not fitted(NONE_FITTED, lucky * 40, 0.8).is_imprecise


@given(st.integers(0, 200), st.integers(0, 200), st.floats(0, 1))
def test_more_right_answers_are_precise_if_fewer_are(
    right: int, wrong: int, precision: float
) -> None:
    answers = right + wrong
    if are_precise(right, answers, precision):
        assert are_precise(right + 1, answers + 1, precision)
    if answers * (1 - precision) >= 1 and right / answers >= precision:
        assert are_precise(right, answers, precision)


def test_programs_of_a_new_template_have_figures_of_their_own() -> None:
    new = HeldOutSentence((ProgramTrial(Evidence(0.9999), True),), is_new_template=True)
    found = fitted(NONE_FITTED, [*MIXED, new, new], 0.9)
    assert found.new_templates == Expectation(2, 2, 2)
