"""Sentences whose contractions are not those of training."""

from __future__ import annotations

import pytest

import nqg
from nqg import ConfidenceSettings, TrainSettings
from nqg.inference.parser import Parser

PLACES = ["harbour", "island", "ferry", "castle", "market", "museum"]


@pytest.fixture(scope="module")
def parser() -> Parser:
    pairs = [(f"Where is the {place}?", f'find(place="{place}")') for place in PLACES]
    pairs += [
        (f"I'll visit the {place}.", f'plan(place="{place}")') for place in PLACES
    ]
    settings = TrainSettings(confidence=ConfidenceSettings(folds=0))
    trained = nqg.train(pairs, settings=settings, device="cpu")
    assert isinstance(trained, Parser)
    return trained


@pytest.mark.parametrize(
    ("sentence", "program"),
    [
        ("Where's the castle?", 'find(place="castle")'),
        ("where is the castle", 'find(place="castle")'),
        ("I will visit the market", 'plan(place="market")'),
        ("I'll visit the market", 'plan(place="market")'),
    ],
)
def test_a_verb_may_be_contracted_or_not(
    parser: Parser, sentence: str, program: str
) -> None:
    assert parser.parse(sentence).target == program


def test_other_words_stay_unknown(parser: Parser) -> None:
    answer = parser.parse("what's the castle")
    assert answer.target is None
    assert "what" in answer.reason
