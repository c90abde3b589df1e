"""Held-out examples, and the gate that comes of fitting both parts to the others."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nqg.answers import Answer
from nqg.data.example import Example, distinct_pairs
from nqg.errors import SettingsError
from nqg.evaluation.calibration import (
    GateTrial,
    HeldOut,
    folds,
    held_out,
    least_confidence,
    right_derivations,
    trials,
    used_rules,
)
from nqg.grammar.grammar import Grammar
from nqg.model.confidence import LEAST_CONFIDENCE, Evidence, RulePairs
from nqg.model.settings import TrainingSettings
from nqg.pipeline.parser import fit_parser
from nqg.splits.compounds import likely_language
from strategies import program_examples

EXAMPLES = [
    Example(
        f"{word} of m{number} {'please ' * number}", f"answer ( {word} ( m{number} ) )"
    )
    for word in ("size", "area", "capital", "river")
    for number in range(5)
]


class Memory:
    """As a parser and as a fallback: knows what it was shown, and guesses `guess` otherwise."""

    def __init__(
        self, examples: Iterable[Example], guess: str | None, probability: float = 0.3
    ) -> None:
        self.known = {example.source: example.target for example in examples}
        self.guess, self.probability = guess, probability

    def answers(self, sentences: Iterable[str]) -> list[Answer]:
        return [self._answer(sentence) for sentence in sentences]

    def _answer(self, sentence: str) -> Answer:
        target = self.known.get(sentence, self.guess)
        return Answer(
            sentence, target, 1.0 if sentence in self.known else self.probability
        )


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


def test_trials_say_who_is_right_and_how_sure_the_grammar_was() -> None:
    one, two, three = EXAMPLES[:3]
    parser = Memory([one], guess="wrong")
    assert list(trials(parser, Memory([one, two], guess=None), [one, two, three])) == [
        GateTrial(1.0, True, True),
        GateTrial(0.3, False, True),
        GateTrial(0.3, False, False),
    ]


def test_where_the_fallback_is_silent_handing_over_changes_nothing() -> None:
    one = EXAMPLES[0]
    assert list(trials(Memory([one], None), Memory([], None), [one])) == [
        GateTrial(1.0, True, True)
    ]
    assert list(trials(Memory([], None), Memory([], None), [one])) == [
        GateTrial(None, False, False)
    ]


def test_what_a_parser_knows_of_pairs_does_not_depend_on_how_often_an_example_is_repeated() -> (
    None
):
    examples = [
        Example("jump", "J"),
        Example("jump twice", "J J"),
        Example("walk", "W"),
    ]
    grammar = Grammar.parse("NT_1 twice ### NT_1 NT_1\njump ### J\nwalk ### W")
    parser = fit_parser(
        grammar, examples, training=TrainingSettings(steps=1), device="cpu"
    )
    once, often = (
        RulePairs.of(
            right_derivations(parser, [*examples[:2], *examples[2:] * times]),
            parser.grammar.numbers,
        )
        for times in (1, 9)
    )
    assert once == often
    assert once.rows == ((-1, 0, 0, 1), (-1, 0, 1, 1), (-1, 0, 2, 1), (0, 0, 1, 1))


def test_rules_that_the_other_examples_do_not_need_could_not_have_been_learned() -> (
    None
):
    grammar = Grammar.parse("NT_1 twice ### NT_1 NT_1\njump ### J\nwalk ### W")
    assert (
        list(used_rules(grammar, [Example("jump twice", "J J")])) == list(grammar)[:2]
    )


def trial(probability: float, *, is_right: bool) -> GateTrial:
    return GateTrial(None, is_right, False, Evidence(probability, support=3))


def test_a_model_answers_from_the_confidence_on_from_which_held_out_answers_are_right_often_enough() -> (
    None
):
    sure = [trial(0.999, is_right=number % 20 > 0) for number in range(100)]
    unsure = [trial(0.3, is_right=number % 20 < 8) for number in range(100)]
    low, middle, high = (
        least_confidence([*sure, *unsure], precision) for precision in (0.5, 0.8, 0.9)
    )
    assert (
        low < 0.45 < 0.9 < middle == high < 0.95
    )  # 67.5 % of all are right, 95 % of those that are sure
    assert (
        least_confidence([*sure, *unsure], 0.99) == LEAST_CONFIDENCE
    )  # no confidence is high enough
    assert least_confidence([]) == LEAST_CONFIDENCE


def test_a_few_lucky_answers_are_not_enough() -> None:
    assert least_confidence([trial(0.999, is_right=True)] * 2, 0.8) == LEAST_CONFIDENCE
    assert least_confidence([trial(0.999, is_right=True)] * 20, 0.8) != LEAST_CONFIDENCE
