"""Training on flat calls: what the grammar does not derive, the call reader may read."""

from dataclasses import replace
from pathlib import Path

import pytest

import nqg
from nqg.answers import CALLS, GRAMMAR
from nqg.model.confidence import (
    OUT_OF_SCOPE_SHARE,
    PRIORS,
    Calibrator,
    RulePairs,
)

ROOMS = ("den", "attic", "hall", "study", "kitchen")
PAIRS = [
    *((f"turn on the lights in the {room}", f'on(room="{room}")') for room in ROOMS),
    *((f"turn off the lights in the {room}", f'off(room="{room}")') for room in ROOMS),
    *(
        (
            f"dim the lights in the {room} to {level} percent",
            f'dim(room="{room}", percent={level})',
        )
        for room, level in zip(ROOMS, (10, 25, 40, 60, 75))
    ),
]
# New words, and another order.
SENTENCE = "kitchen lights quickly dim to 30 percent thanks"
EXPECTED = 'dim(room="kitchen", percent=30)'


def settings(call_reader: str = "auto") -> nqg.TrainSettings:
    return nqg.TrainSettings(
        text=nqg.TextSettings(call_reader=call_reader),  # type: ignore[arg-type]
        training=nqg.TrainingSettings(steps=20),
        confidence=nqg.ConfidenceSettings(folds=0),
    )


@pytest.fixture(scope="module")
def parser() -> nqg.Parser:
    system = nqg.train(PAIRS, settings=settings())
    assert isinstance(system, nqg.Parser)
    return system


def calibrated(parser: nqg.Parser, threshold: float) -> nqg.Parser:
    calibrator = Calibrator(
        PRIORS[False],
        RulePairs(()),
        threshold=threshold,
        vocabulary=tuple(" ".join(source for source, _ in PAIRS).split()),
    )
    return nqg.Parser(replace(parser.model, calibrator=calibrator))


def test_a_sentence_without_derivation_is_read_as_a_call(parser: nqg.Parser) -> None:
    (grammar,) = parser.grammar_answers([SENTENCE])
    assert grammar.target is None
    answer = calibrated(parser, 0.0).parse(SENTENCE)
    assert answer.target == EXPECTED
    assert answer.system == CALLS
    assert answer.reading is None
    assert answer.reason.startswith("the grammar has no program: no derivation")
    assert "by the call reader: the grammar has no program" in answer.explain()


def test_an_answer_says_which_words_were_not_read(parser: nqg.Parser) -> None:
    answer = calibrated(parser, 0.0).parse(SENTENCE)
    assert answer.unread == ("quickly", "thanks")
    assert "not read: 'quickly', 'thanks'" in answer.explain()
    withheld = calibrated(parser, 1.0).parse(SENTENCE)
    assert "not read: 'quickly', 'thanks'" in withheld.explain()


def test_an_answer_that_ignores_words_is_never_sure(parser: nqg.Parser) -> None:
    sure = calibrated(parser, 0.0)
    certain = replace(PRIORS[False], bias=100.0)
    calibrator = replace(sure.model.calibrator, weights=certain)  # type: ignore[type-var]
    system = nqg.Parser(replace(sure.model, calibrator=calibrator))
    assert system.parse(SENTENCE).confidence == 1 - OUT_OF_SCOPE_SHARE
    known = "turn on the lights in the attic"
    assert (system.parse(known).confidence or 0) > 0.99


def test_where_both_agree_the_answer_is_the_grammars(parser: nqg.Parser) -> None:
    answer = calibrated(parser, 0.0).parse("turn on the lights in the attic")
    assert answer.target == 'on(room="attic")'
    assert answer.system == GRAMMAR
    assert answer.reading


def test_an_unsure_reading_is_withheld_and_the_abstention_is_the_grammars(
    parser: nqg.Parser,
) -> None:
    answer = calibrated(parser, 1.0).parse(SENTENCE)
    assert answer.target is None
    assert answer.system == GRAMMAR
    assert answer.kind == "no rule"
    assert answer.withheld is not None
    assert answer.withheld.target == EXPECTED
    assert 0 < (answer.withheld.confidence or 0) < 1
    assert "(by the call reader, not sure enough: " in answer.explain()
    assert answer.nearest is not None


def test_agreement_of_grammar_and_call_reader_adds_confidence(
    parser: nqg.Parser,
) -> None:
    sure = calibrated(parser, 0.0)
    known = sure.parse("turn on the lights in the attic").confidence or 0
    alone = replace(sure.model, call_reader=None)
    derived = nqg.Parser(alone).parse("turn on the lights in the attic").confidence or 0
    assert 0 < derived < known


def test_a_negation_is_not_read_as_a_call(parser: nqg.Parser) -> None:
    sure = calibrated(parser, 0.0)
    assert sure.parse("please do not dim the attic to 30 percent").target is None


def test_without_confidence_the_grammar_alone_answers(parser: nqg.Parser) -> None:
    assert parser.model.calibrator is None
    assert parser.parse(SENTENCE).target is None


@pytest.mark.parametrize("name", ["O'Hare", "Rome\\"])
def test_a_value_that_would_end_its_quotes_is_not_read(name: str) -> None:
    cities = ("Paris", "San Jose", "Oslo", "New York")
    pairs = [(f"fly to {city}", f"fly(to='{city}')") for city in cities]
    parser = nqg.train([*pairs, *PAIRS], settings=settings())
    assert isinstance(parser, nqg.Parser)
    sure = calibrated(parser, 0.0)
    text = sure.model.text
    assert "fly(to='Lima')" in (sure.calls_in(text.tokenized("fly to Lima")[0]) or {})
    for program in sure.calls_in(text.tokenized(f"fly to {name}")[0]) or {}:
        assert name not in program


def test_a_sentence_of_several_clauses_is_not_read_as_one_call() -> None:
    pairs = [
        *PAIRS,
        (
            "turn on the lights in the den and dim the lights in the hall to 5 percent",
            'on(room="den"); dim(room="hall", percent=5)',
        ),
    ]
    text = settings().text
    chosen = replace(settings(), text=replace(text, sequence="allow"))
    trained = nqg.train(pairs, settings=chosen)
    assert isinstance(trained, nqg.Parser)
    parser = calibrated(trained, 0.0)
    both = parser.model.text.tokenized(
        "kitchen lights on and please dim the den to 5 percent"
    )
    assert parser.calls_in(both[0]) == {}
    one = parser.model.text.tokenized("please dim the den to 5 percent")
    assert parser.calls_in(one[0])


def test_a_saved_model_reads_the_same(parser: nqg.Parser, tmp_path: Path) -> None:
    parser.save(tmp_path / "model")
    again = nqg.Parser.load(tmp_path / "model")
    assert again.model.call_reader == parser.model.call_reader
    assert calibrated(again, 0.0).parse(SENTENCE).target == EXPECTED


def test_without_it_there_is_none() -> None:
    assert nqg.TextSettings().call_reader == "auto"
    parser = nqg.train(PAIRS, settings=settings("none"))
    assert isinstance(parser, nqg.Parser)
    assert parser.model.call_reader is None
    assert parser.parse(SENTENCE).target is None
