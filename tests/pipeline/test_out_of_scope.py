"""Sentences out of scope: what training learns from them."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import nqg
from nqg.evaluation.calibration import fitted
from nqg.model.confidence import (
    PRIORS,
    Calibrator,
    Evidence,
    HeldOutSentence,
    ProgramTrial,
    RulePairs,
    Weights,
)
from nqg.pipeline.sources import read_source

NAMES = ("lamp", "radio", "heater", "fan", "oven", "kettle")
PAIRS = [
    (f"turn {state} the {name}", f"turn_{state}({name})")
    for state in ("on", "off")
    for name in NAMES
]


def test_a_source_keeps_sentences_out_of_scope_apart_and_knows_its_lines() -> None:
    source = read_source([("sing", ""), ("stop", "stop()"), ("fly", "OUT_OF_SCOPE")])
    assert source.out_of_scope == ("sing", "fly")
    assert [example.source for example in source.examples] == ["stop"]
    assert source.place(0).line == 2


def test_a_sentence_that_is_out_of_scope_in_training_is_refused(tmp_path: Path) -> None:
    parser = nqg.train([*PAIRS, ("turn the fan on the lamp please", "")])
    parser.save(tmp_path / "model")
    loaded = nqg.load(tmp_path / "model")
    assert isinstance(loaded, nqg.Parser)
    answer = loaded.parse("Turn the fan on the lamp")
    assert answer.target is None
    assert answer.reason == "out of scope: training has the sentence without a program"
    assert loaded.parse("turn on the oven").target == "turn_on(oven)"
    assert loaded.model.calibrator
    assert loaded.model.calibrator.out_of_scope.sentences == 1


def held_out(
    probability: float, is_right: bool, *, in_scope: bool = True, made: bool = False
) -> HeldOutSentence:
    trial = ProgramTrial(Evidence(probability), is_right)
    return HeldOutSentence((trial,), is_in_scope=in_scope, is_made=made)


def test_given_sentences_count_more_than_made_ones() -> None:
    right = [held_out(1.0, True)] * 20
    made = [held_out(1.0, False, in_scope=False, made=True)] * 10
    given = [replace(sentence, is_made=False) for sentence in made]
    sure = Weights.fit([*right, *made], has_seq2seq=False).confidence(Evidence(1.0))
    unsure = Weights.fit([*right, *given], has_seq2seq=False).confidence(Evidence(1.0))
    assert unsure < sure


def test_the_threshold_keeps_answers_to_given_sentences_out() -> None:
    right = [held_out(0.999, True)] * 60
    given = [held_out(0.9, False, in_scope=False)] * 40
    sentences = random.Random(0).sample([*right, *given], 100)
    calibrator = Calibrator(PRIORS[False], RulePairs(()))
    learned = fitted(calibrator, sentences, 0.95)
    assert learned.out_of_scope.sentences == 40
    assert learned.out_of_scope.answered == 0
    assert learned.expected.sentences == learned.expected.answered == 60
    assert "sentences out of scope: 0 of 40 answered" in str(learned)
