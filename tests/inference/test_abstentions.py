"""What an abstention tells: the program that was withheld, what is missing, what is nearest."""

from __future__ import annotations

from pathlib import Path

import pytest

import nqg
from nqg.cli.parse import abstention_to_dict
from nqg.grammar.hypergraph import Span
from nqg.inference.decoding import DecodeOptions
from nqg.inference.gaps import Misfit

PAIRS = [
    (f"turn {state} the {name}", f"turn_{state}({name})")
    for state in ("on", "off")
    for name in ("lamp", "radio", "heater", "fan", "oven", "kettle")
]


@pytest.fixture(scope="module")
def parser() -> nqg.Parser:
    parser = nqg.train(PAIRS)
    assert isinstance(parser, nqg.Parser)
    return parser


def test_an_answer_that_is_withheld_is_kept_and_explained(parser: nqg.Parser) -> None:
    strict = parser.with_options(DecodeOptions(least_confidence=1.0))
    answer = strict.parse("turn off the lamp")
    assert answer.target is None
    assert answer.kind == "unsure"
    assert answer.withheld
    assert answer.withheld.target == "turn_off(lamp)"
    lines = answer.explain().split("\n")
    assert lines[1] == "withheld: turn_off(lamp)"
    assert lines[2] == "nearest in training: 'turn off the lamp' is turn_off(lamp)"
    # The derivation of what was withheld is drawn.
    assert "turn off the lamp" in lines[5]
    values = abstention_to_dict(answer)
    assert values["kind"] == "unsure"
    assert values["withheld"]["target"] == "turn_off(lamp)"
    assert 0 < values["withheld"]["confidence"] < 1
    assert values["nearest"] == {
        "source": "turn off the lamp",
        "target": "turn_off(lamp)",
    }


def test_an_unknown_word_is_missing(parser: nqg.Parser) -> None:
    answer = parser.parse("turn off the dishwasher")
    assert answer.kind == "no rule"
    assert answer.missing == ("dishwasher",)
    assert answer.withheld is None
    assert answer.nearest
    assert answer.nearest.source.startswith("turn off the")


def test_phrases_that_no_rule_joins_are_missing(parser: nqg.Parser) -> None:
    answer = parser.parse("lamp radio")
    assert answer.kind in ("no rule", "illegal")
    assert answer.missing


def test_types_that_inference_named_are_not_shown() -> None:
    words = ("tell", "me")
    assert (
        Misfit(Span(0, 1), ("<program_head_2>", "<alert_argument_head>")).describe(
            words
        )
        == "'tell' does not fit there"
    )
    assert (
        Misfit(Span(0, 1), ("<time>", "<program_head>")).describe(words)
        == "'tell' is not a <time>"
    )


def test_an_answer_misses_nothing(parser: nqg.Parser, tmp_path: Path) -> None:
    answer = parser.parse("turn on the fan")
    assert (answer.kind, answer.missing, answer.nearest) == ("answered", (), None)
