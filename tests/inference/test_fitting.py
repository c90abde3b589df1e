"""Parsers in the making: what dev examples say of them, and which examples have a loss."""

from __future__ import annotations

import doctest
import math

import pytest
import torch

from conftest import PROJECT
from nqg.data.examples import Example
from nqg.grammar.grammar import Grammar
from nqg.grammar.target_grammar import TargetGrammar
from nqg.inference.fitting import DevSet, Fitting
from nqg.model.forest_crf import batch_loss
from nqg.model.settings import EncoderSettings, ModelSettings, TrainingSettings
from nqg.training.records import DevScores

GRAMMAR = Grammar.parse("jump ### J\nwalk ### W\njump ### W\nNT_1 twice ### NT_1 NT_1\nNT_1 after NT_2 ### NT_2 NT_1")
EXAMPLES = [
    Example("jump", "J"),
    Example("walk twice", "W W"),
    Example("jump after walk twice", "W W J"),
    Example("walk after jump after walk", "W J W"),
]
MODEL = ModelSettings(dimension=16, embedded=EncoderSettings(hidden_size=16, layers=1, heads=2, longest=8))
SETTINGS = TrainingSettings(steps=40, batch_size=4, warm_up=4, learning_rate=0.01, evaluate_every=4)
CPU = torch.device("cpu")


def fitting(dev: list[Example], target_grammar: TargetGrammar | None = None) -> Fitting:
    return Fitting(
        GRAMMAR, EXAMPLES, dev=dev, target_grammar=target_grammar, model=MODEL, training=SETTINGS, device="cpu"
    )


def test_the_parser_ends_with_the_weights_that_did_best_on_dev_examples() -> None:
    model = fitting(dev=[Example("jump twice", "J J"), Example("hop", "H")])
    steps = list(model.steps())
    best = model.under_way.best
    assert best is not None
    assert best.scores.exact_match == max(step.dev.exact_match for step in steps if step.dev) == 0.5
    assert model.parser.parse("jump twice").target == "J J"
    assert all(
        torch.equal(best.weights[name], tensor) for name, tensor in model.parser.model.scorer.state_dict().items()
    )


def test_without_dev_examples_the_last_weights_stay() -> None:
    model = fitting(dev=[])
    steps = list(model.steps())
    assert len(steps) == SETTINGS.steps
    assert not any(step.dev for step in steps)
    assert model.under_way.best is None


def test_dev_scores_count_right_answers_and_average_the_losses_of_what_is_derived() -> None:
    model = fitting(dev=[])
    list(model.steps())
    wrong, unknown, long = Example("walk", "J"), Example("hop", "H"), Example("walk after " * 9 + "walk", "W " * 10)
    scores = DevSet.of(model.parser, [*EXAMPLES, wrong, unknown, long], batch_size=3).scores()
    assert scores.exact_match == 4 / 7
    model.parser.model.scorer.eval()
    data, rows = model.data.rows([0, 1, 2, 3])
    expected = batch_loss(model.parser.model.scorer, data.collate(rows, CPU)).item()
    assert scores.loss == pytest.approx(expected, rel=1e-5)


def test_dev_examples_that_the_grammar_does_not_derive_have_no_loss() -> None:
    assert DevSet.of(fitting(dev=[]).parser, [Example("hop", "H")], 8).scores() == DevScores(0.0, None)


def test_an_illegal_answer_is_not_right() -> None:
    only_walking = TargetGrammar.parse("<s> ::= W")
    free, bound = (fitting([Example("jump", "J")], legal) for legal in (None, only_walking))
    for model in (free, bound):
        list(model.steps())
    assert free.under_way.best is not None
    assert bound.under_way.best is not None
    assert (free.under_way.best.scores.exact_match, bound.under_way.best.scores.exact_match) == (1.0, 0.0)


def test_everything_that_decides_the_course_is_part_of_the_origin() -> None:
    plain, tried = fitting(dev=[]), fitting(dev=EXAMPLES[:1])
    assert plain.origin.difference(fitting(dev=[]).origin) is None
    assert "the fingerprint of the dev examples" in (plain.origin.difference(tried.origin) or "")
    legal = fitting(dev=[], target_grammar=TargetGrammar.parse("<s> ::= W"))
    assert "the fingerprint of the target grammar" in (plain.origin.difference(legal.origin) or "")


def test_an_error_names_sentences_by_their_place_among_those_that_are_learned_from() -> None:
    model = Fitting(GRAMMAR, [Example("hop", "H"), EXAMPLES[1]], model=MODEL, training=SETTINGS, device="cpu")
    with torch.no_grad():
        model.parser.model.scorer.rules.fill_(math.nan)
    with pytest.raises(Exception, match=r"for a batch of 1 examples \('walk twice'\);"):
        next(model.steps())


def test_the_page_on_training_is_true() -> None:
    result = doctest.testfile(str(PROJECT / "docs" / "training.md"), module_relative=False)
    assert result.attempted > 10
    assert result.failed == 0
