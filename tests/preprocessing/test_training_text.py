"""The text of training data, read once."""

from __future__ import annotations

from collections import Counter

import pytest

from nqg.data.example import Example
from nqg.evaluation.data_checks import flaws
from nqg.preprocessing.training_text import TrainingText, fit_training_text, tokenized
from nqg.text.programs import ProgramTokenizer
from nqg.text.sentences import SentenceTokenizer

RAW = [
    Example("Wake me at 6:30, please!", 'alarm(time="6:30")', "a"),
    Example("Wake me at half past seven.", 'alarm(time="7:30")', "b"),
    Example("Play Hey Jude", 'play(song="Hey Jude")', "c"),
    Example("Play Yellow Submarine now", 'play(song="Yellow Submarine")', "d"),
    Example("Play Help", 'play(song="Help")', "e"),
]


def test_every_pair_is_tokenised_once(monkeypatch: pytest.MonkeyPatch) -> None:
    sentences, programs = Counter[str](), Counter[str]()
    tokens, normalized = SentenceTokenizer.tokens, ProgramTokenizer.normalized

    def counted_tokens(self: SentenceTokenizer, text: str) -> object:
        sentences[text] += 1
        return tokens(self, text)

    def counted_programs(self: ProgramTokenizer, program: str) -> object:
        programs[program] += 1
        return normalized(self, program)

    monkeypatch.setattr(SentenceTokenizer, "tokens", counted_tokens)
    monkeypatch.setattr(ProgramTokenizer, "normalized", counted_programs)
    text = fit_training_text(RAW)
    list(flaws(text.raw, text.examples))
    searched, _, _ = text.searched(text.examples, None)
    text.programs(text.examples)
    text.as_written(each.source for each in text.examples)
    assert text.slots is not None
    assert [text.slots.mentions(each.source_tokens) for each in text.examples]
    assert len(searched) == len(RAW)
    assert {each.source: sentences[each.source] for each in RAW} == {
        each.source: 1 for each in RAW
    }
    assert {each.target: programs[each.target] for each in RAW} == {
        each.target: 1 for each in RAW
    }


def test_what_is_fitted_is_what_the_text_reads_again() -> None:
    fitted = fit_training_text(RAW)
    again = TrainingText.of(RAW, fitted.text)
    assert again.pairs == fitted.pairs
    assert again.examples == fitted.examples == tokenized(RAW, fitted.text)
    assert [each.id for each in again.examples] == ["a", "b", "c", "d", "e"]
    assert fitted.delexicalize(fitted.examples)[0] == Example(
        "wake me at @time_1", 'alarm ( time = " @time_1 " )', "a"
    )
    assert fitted.as_written(["play hey jude", "never seen"]) == [
        "Play Hey Jude",
        "never seen",
    ]


def test_text_without_slots_is_passed_on_as_it_is() -> None:
    raw = [Example("jump twice", "I_JUMP I_JUMP"), Example("jump", "I_JUMP")]
    text = fit_training_text(raw)
    assert not text.has_slots
    assert text.slots is None
    assert text.searched(text.examples, None) == (text.examples, [], None)
    assert text.programs(text.examples) == [("I_JUMP", "I_JUMP"), ("I_JUMP",)]
    assert text.delexicalize(text.examples) == list(text.examples)
