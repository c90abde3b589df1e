"""Samples of a grammar beside training pairs: their shares, and the filter by a reverse model."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nqg.data.example import Example
from nqg.errors import SettingsError
from nqg.grammar.grammar import Grammar
from nqg.seq2seq.augmentation import Augmentation, likeliest, mixed
from nqg.seq2seq.seq2seq import Seq2seq
from nqg.seq2seq.settings import (
    AugmentationSettings,
    FineTuningSettings,
    Seq2seqSettings,
    SmallT5Settings,
)

GRAMMAR = Grammar.parse(
    "jump ### J\nwalk ### W\nNT_1 twice ### NT_1 NT_1\nNT_1 and NT_2 ### NT_1 NT_2"
)
EXAMPLES = [
    Example("jump twice", "J J"),
    Example("walk", "W"),
    Example("walk and jump", "W J"),
]
SMALL = Seq2seqSettings(
    embedded=SmallT5Settings(width=16, layers=1, heads=2, dropout=0.0)
)
BRIEF = FineTuningSettings(steps=30, learning_rate=0.01, batch_size=8)


@pytest.fixture(scope="module")
def greedy() -> Seq2seq:
    """A model that has learned the examples, and answers without a beam search."""
    return Seq2seq.train(EXAMPLES, SMALL, BRIEF, device="cpu")


@given(st.integers(1, 9), st.integers(1, 200), st.floats(0.1, 0.9))
def test_training_pairs_have_about_their_share(
    real: int, drawn: int, share: float
) -> None:
    pairs = mixed(
        [Example(f"r{number}", "x") for number in range(real)],
        [Example("s", "y")] * drawn,
        share,
    )
    assert pairs.count(Example("s", "y")) == drawn
    assert abs((len(pairs) - drawn) - share / (1 - share) * drawn) <= max(
        real, real / 2 + 1
    )
    assert len({pairs.count(Example(f"r{number}", "x")) for number in range(real)}) == 1


def test_without_a_filter_all_samples_are_kept_and_nothing_is_trained() -> None:
    augmentation = Augmentation(
        GRAMMAR, EXAMPLES, AugmentationSettings(samples=12, real_share=0.25)
    )
    assert not list(augmentation.steps(SMALL, BRIEF, "cpu"))
    assert len(augmentation.samples) == 12
    assert augmentation.mixture.count(EXAMPLES[0]) == 1 + (
        EXAMPLES[0] in augmentation.samples
    )


def test_the_reverse_model_keeps_the_sentences_that_it_finds_likeliest() -> None:
    reverse = Seq2seq.train(
        [Example("J J", "jump twice"), Example("W", "walk")], SMALL, BRIEF, device="cpu"
    )
    samples = [
        Example("twice jump", "J J"),
        Example("jump twice", "J J"),
        Example("jump", "W"),
        Example("walk", "W"),
    ]
    assert likeliest(samples, reverse, 0.5) == [samples[1], samples[3]]


def test_losses_are_those_of_the_probabilities_that_answers_have(
    greedy: Seq2seq,
) -> None:
    answers = greedy.answers(["jump twice", "walk"])
    pairs = [Example(answer.source, answer.target or "") for answer in answers]
    lengths = [len(pair.target_tokens) + 1 for pair in pairs]
    found = [
        2.718281828 ** (-loss * length)
        for loss, length in zip(greedy.losses(pairs), lengths, strict=True)
    ]
    assert found == pytest.approx([answer.probability for answer in answers], rel=1e-4)


def test_probabilities_of_a_beam_search_do_not_count_what_fills_up_short_targets(
    greedy: Seq2seq,
) -> None:
    beams = replace(greedy, settings=replace(greedy.settings, beams=3))
    answers = beams.answers(
        ["walk", "walk and jump", "jump twice"]
    )  # in one batch, of different lengths
    pairs = [Example(answer.source, answer.target or "") for answer in answers]
    lengths = [len(pair.target_tokens) + 1 for pair in pairs]
    assert len({*lengths}) > 1
    found = [
        2.718281828 ** (-loss * length)
        for loss, length in zip(greedy.losses(pairs), lengths, strict=True)
    ]
    assert found == pytest.approx([answer.probability for answer in answers], rel=1e-4)


def test_a_filter_trains_for_as_many_steps_as_asked() -> None:
    asked = AugmentationSettings(samples=10, kept=0.5, reverse_steps=3)
    augmentation = Augmentation(GRAMMAR, EXAMPLES, asked)
    assert [step.number for step in augmentation.steps(SMALL, BRIEF, "cpu")] == [
        1,
        2,
        3,
    ]
    assert len(augmentation.samples) == 5


def test_shares_beyond_all_are_refused() -> None:
    with pytest.raises(
        SettingsError, match="kept is 0; expected more than 0 and at most 1"
    ):
        AugmentationSettings(kept=0)
