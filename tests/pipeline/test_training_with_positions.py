"""Programs whose variables are positions of words, from pairs to answers."""

from __future__ import annotations

from pathlib import Path

import pytest

import nqg
from nqg import Example, Parser, TrainingSettings
from nqg.pipeline.settings import ConfidenceSettings, TrainSettings

NOUNS = ("cat", "dog", "cake", "lion")
PAST = {"saw": "see", "found": "find"}


def program(verb: str, agent: str, theme: str, theme_at: int = 4) -> str:
    head = PAST[verb]
    atoms = [
        f"{agent} ( x _ 1 )",
        f"{head} . agent ( x _ 2 , x _ 1 )",
        f"{head} . theme ( x _ 2 , x _ {theme_at} )",
        f"{theme} ( x _ {theme_at} )",
    ]
    return " AND ".join(atoms)


def pairs() -> list[Example]:
    examples = []
    for verb in PAST:
        for agent in NOUNS:
            for theme in NOUNS:
                if agent != theme:
                    sentence = f"A {agent} {verb} a {theme}"
                    examples.append(Example(sentence, program(verb, agent, theme)))
    return examples


@pytest.fixture(scope="module")
def parser() -> Parser:
    settings = TrainSettings(
        training=TrainingSettings(steps=30), confidence=ConfidenceSettings(folds=0)
    )
    system = nqg.train(pairs(), settings=settings, dev=pairs()[:5])
    assert isinstance(system, Parser)
    return system


def test_the_rules_have_no_variables_and_the_answers_do(parser: Parser) -> None:
    for rule in parser.model.grammar:
        assert "_" not in rule.target
    answer = parser.parse("A lion found a lion")
    assert answer.target == program("found", "lion", "lion")


def test_a_model_keeps_the_positions(parser: Parser, tmp_path: Path) -> None:
    parser.save(tmp_path / "model")
    answer = Parser.load(tmp_path / "model").parse("A cat saw a cake")
    assert answer.target == program("saw", "cat", "cake")


def test_a_dev_set_is_read_with_positions(parser: Parser) -> None:
    (measured,) = parser.model.provenance.measurements
    assert measured.scores["accuracy"] == 1.0
