"""Relative clauses and questions, from pairs to answers."""

from __future__ import annotations

from pathlib import Path

import pytest

import nqg
from nqg import Example, Parser, TrainingSettings
from nqg.pipeline.settings import ConfidenceSettings, TrainSettings

NAMES = ("Emma", "Liam", "Noah", "Ava")
NOUNS = ("cat", "dog", "cake", "frog", "lion")
PAST = {"saw": "see", "liked": "like", "found": "find", "ate": "eat"}


def pairs() -> list[Example]:
    examples = []
    for verb, head in PAST.items():
        for name in NAMES:
            for noun in NOUNS:
                clause = f"{head} ( agent = {name} , theme = {noun} )"
                examples.append(Example(f"{name} {verb} {noun} .", clause))
                bound = f"{noun} ( nmod = {clause} )"
                examples.append(
                    Example(
                        f"Noah saw {noun} that {name} {verb} .",
                        f"see ( agent = Noah , theme = {bound} )",
                    )
                )
                by_it = f"{head} ( agent = {noun} , theme = {name} )"
                examples.append(
                    Example(
                        f"{name} found {noun} that {verb} {name} .",
                        f"find ( agent = {name} , theme = {noun} ( nmod = {by_it} ) )",
                    )
                )
            examples.append(
                Example(
                    f"What did {name} {head} ?",
                    f"{head} ( agent = {name} , theme = ? )",
                )
            )
    return examples


@pytest.fixture(scope="module")
def parser() -> Parser:
    settings = TrainSettings(
        training=TrainingSettings(steps=60), confidence=ConfidenceSettings(folds=0)
    )
    system = nqg.train(pairs(), settings=settings)
    assert isinstance(system, Parser)
    return system


def test_the_rules_have_traces_and_the_answers_copies(parser: Parser) -> None:
    assert parser.model.text.programs.traces is not None
    assert any("↑" in rule.target for rule in parser.model.grammar)
    answer = parser.parse("Liam ate frog that Ava liked .")
    copied = "frog ( nmod = like ( agent = Ava , theme = frog ) )"
    assert answer.target == f"eat ( agent = Liam , theme = {copied} )"


def test_clauses_are_embedded_deeper_than_in_training(parser: Parser) -> None:
    answer = parser.parse("Emma saw cat that liked dog that Liam found .")
    dog = "dog ( nmod = find ( agent = Liam , theme = dog ) )"
    cat = f"cat ( nmod = like ( agent = cat , theme = {dog} ) )"
    assert answer.target == f"see ( agent = Emma , theme = {cat} )"


def test_a_model_keeps_its_traces(parser: Parser, tmp_path: Path) -> None:
    parser.save(tmp_path / "model")
    sentence = "What did Ava see ?"
    answer = Parser.load(tmp_path / "model").parse(sentence)
    assert answer.target == "see ( agent = Ava , theme = ? )"


def test_traces_can_be_switched_off() -> None:
    settings = TrainSettings(
        text=nqg.TextSettings(traces="none"),
        training=TrainingSettings(steps=1),
        confidence=ConfidenceSettings(folds=0),
    )
    system = nqg.train(pairs()[:60], settings=settings)
    assert isinstance(system, Parser)
    assert system.model.text.programs.traces is None
