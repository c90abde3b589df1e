"""Parsers in the making: what dev examples say of them, and which examples have a loss."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from nqg.data.example import Example
from nqg.grammar.grammar import Grammar
from nqg.inference.parser import Parser
from nqg.model.forest_crf import batch_loss
from nqg.model.settings import EncoderSettings, ModelSettings, TrainingSettings
from nqg.training import parser_training
from nqg.training.parser_training import DevSet, ParserTraining, batches
from nqg.training.records import DevScores
from nqg.training.trainer import LEARNED_STEPS
from nqg.types.target_grammar import TargetGrammar

GRAMMAR = Grammar.parse(
    "jump ### J\nwalk ### W\njump ### W\nNT_1 twice ### NT_1 NT_1\nNT_1 after NT_2 ### NT_2 NT_1"
)
EXAMPLES = [
    Example("jump", "J"),
    Example("walk twice", "W W"),
    Example("jump after walk twice", "W W J"),
    Example("walk after jump after walk", "W J W"),
]
MODEL = ModelSettings(
    dimension=16, embedded=EncoderSettings(hidden_size=16, layers=1, heads=2, longest=8)
)
SETTINGS = TrainingSettings(
    steps=40, batch_size=4, warm_up=4, learning_rate=0.01, evaluate_every=4
)
CPU = torch.device("cpu")


def fitting(
    dev: list[Example],
    target_grammar: TargetGrammar | None = None,
    learned: float = SETTINGS.learned,
) -> ParserTraining:
    training = replace(SETTINGS, learned=learned)
    return ParserTraining(
        GRAMMAR,
        EXAMPLES,
        Parser,
        dev=dev,
        target_grammar=target_grammar,
        model=MODEL,
        training=training,
        device="cpu",
    )


def dev_set(training: ParserTraining, examples: list[Example]) -> DevSet:
    return DevSet.of(training.model, training.scorer, examples, Parser(training.model))


def test_the_parser_ends_with_the_weights_that_did_best_on_dev_examples() -> None:
    model = fitting(dev=[Example("jump twice", "J J"), Example("hop", "H")])
    steps = list(model.steps())
    best = model.trainer.best
    assert best is not None
    assert (
        best.scores.exact_match
        == max(step.dev.exact_match for step in steps if step.dev)
        == 0.5
    )
    assert Parser(model.model).parse("jump twice").target == "J J"
    assert all(
        torch.equal(best.weights[name], tensor)
        for name, tensor in model.scorer.state_dict().items()
    )


def test_without_dev_examples_the_last_weights_stay() -> None:
    model = fitting(dev=[])
    steps = list(model.steps())
    assert not any(step.dev for step in steps)
    assert model.trainer.best is None


def test_training_ends_when_nothing_is_left_to_learn() -> None:
    brief = [step.loss for step in fitting(dev=[]).steps()]
    whole = [step.loss for step in fitting(dev=[], learned=0.0).steps()]
    assert len(whole) == SETTINGS.steps
    assert brief == whole[: len(brief)]
    assert max(brief[-LEARNED_STEPS:]) < SETTINGS.learned <= brief[-LEARNED_STEPS - 1]


@pytest.mark.parametrize(
    ("count", "made"), [(4, LEARNED_STEPS), (LEARNED_STEPS + 4, LEARNED_STEPS + 4)]
)
def test_training_does_not_end_before_every_example_was_seen(
    count: int, made: int
) -> None:
    examples = [Example(f"w{number}", f"T{number}") for number in range(count)]
    grammar = Grammar.parse(
        "\n".join(f"{each.source} ### {each.target}" for each in examples)
    )
    settings = replace(SETTINGS, batch_size=1, learned=1e6)  # which every loss is below
    training = ParserTraining(
        grammar, examples, Parser, model=MODEL, training=settings, device="cpu"
    )
    assert len(list(training.steps())) == made


def test_a_step_learns_from_a_quarter_of_the_examples() -> None:
    settings = TrainingSettings(steps=9)
    assert {len(batch) for batch in batches(200, settings)} == {50}
    assert {len(batch) for batch in batches(9, settings)} == {9}


def test_dev_scores_count_right_answers_and_average_the_losses_of_what_is_derived(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(parser_training, "DEV_BATCH", 3)
    model = fitting(dev=[])
    list(model.steps())
    wrong, unknown, long = (
        Example("walk", "J"),
        Example("hop", "H"),
        Example("walk after " * 9 + "walk", "W " * 10),
    )
    scores = dev_set(model, [*EXAMPLES, wrong, unknown, long]).scores()
    assert scores.exact_match == 4 / 7
    model.scorer.eval()
    expected = batch_loss(model.scorer, model.data.collate([0, 1, 2, 3], CPU)).item()
    assert scores.loss == pytest.approx(expected, rel=1e-5)


def test_dev_examples_that_the_grammar_does_not_derive_have_no_loss() -> None:
    assert dev_set(fitting(dev=[]), [Example("hop", "H")]).scores() == DevScores(
        0.0, None
    )


def test_an_illegal_answer_is_not_right() -> None:
    only_walking = TargetGrammar.parse("<s> ::= W | W W")
    free, bound = (
        fitting([Example("jump", "J")], legal) for legal in (None, only_walking)
    )
    for model in (free, bound):
        list(model.steps())
    assert free.trainer.best is not None
    assert bound.trainer.best is not None
    assert (
        free.trainer.best.scores.exact_match,
        bound.trainer.best.scores.exact_match,
    ) == (
        1.0,
        0.0,
    )


def test_everything_that_decides_the_course_is_part_of_the_configuration() -> None:
    plain, tried = fitting(dev=[]), fitting(dev=EXAMPLES[:1])
    assert plain.trainer.config.difference(fitting(dev=[]).trainer.config) is None
    assert "dev_examples was " in (
        plain.trainer.config.difference(tried.trainer.config) or ""
    )
    legal = fitting(dev=[], target_grammar=TargetGrammar.parse("<s> ::= W | W W"))
    assert "target_grammar was " in (
        plain.trainer.config.difference(legal.trainer.config) or ""
    )


def test_an_error_names_sentences_by_their_place_among_those_that_are_learned_from() -> (
    None
):
    examples = [Example("hop", "H"), EXAMPLES[1]]
    model = ParserTraining(
        GRAMMAR, examples, Parser, model=MODEL, training=SETTINGS, device="cpu"
    )
    with torch.no_grad():
        model.scorer.rules.fill_(math.nan)
    with pytest.raises(Exception, match=r"for a batch of 1 example \('walk twice'\);"):
        next(model.steps())
