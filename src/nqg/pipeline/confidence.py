"""The confidence stage: parsers trained without a fold show how often such answers are right."""

from __future__ import annotations

import random
import shutil
from dataclasses import dataclass, replace
from typing import TypeVar

from nqg.answers import System
from nqg.data.dataset import Split
from nqg.data.example import distinct_pairs
from nqg.errors import SettingsError
from nqg.evaluation.calibration import (
    MOST_EXAMPLES,
    GateTrial,
    NoFallback,
    folds,
    trials,
    used_rules,
)
from nqg.grammar.grammar import Grammar
from nqg.induction.settings import InductionSettings
from nqg.inference.parser import Parser
from nqg.model.settings import TrainingSettings
from nqg.pipeline.grammar import learn_grammar
from nqg.pipeline.parser import train_parser
from nqg.pipeline.run import Run
from nqg.pipeline.second_reader import SecondReader, trained_fallback
from nqg.pipeline.settings import ConfidenceSettings
from nqg.pipeline.task import ParserTask
from nqg.run_config import sha256
from nqg.seq2seq.settings import FineTuningSettings
from nqg.training.parser_training import ParserTraining

Shortened = TypeVar("Shortened", TrainingSettings, FineTuningSettings)
# The steps of all folds together, for each step of the model's own training. docs/hybrid.md names
# it; not measured.
FOLD_STEPS = 1.75
# Where any words may be free text, confidence grows with the steps of a training: then all folds
# have all steps.
FREE_TEXT_FOLDS = 5


@dataclass(frozen=True)
class FoldTrials:
    """The trials of one fold, as the run folder keeps them."""

    trials: tuple[GateTrial, ...]


def held_out_trials(
    settings: ConfidenceSettings,
    task: ParserTask,
    trained: ParserTraining,
    reader: SecondReader | None,
    run: Run,
) -> list[GateTrial]:
    """How models that are trained without a fold answer it, fold by fold.

    An interrupted run keeps the folds that it has finished.
    """
    # Divide the examples.
    seed, count = task.training.seed, settings.folds
    population = range(len(task.examples))
    numbers = random.Random(seed).sample(
        population, min(len(population), MOST_EXAMPLES)
    )
    examples = [task.examples[number] for number in sorted(numbers)]
    has_free_text = bool(task.text.slots.free_text)
    if has_free_text and count is None:
        count = FREE_TEXT_FOLDS
    try:
        splits = folds(examples, settings.hold_out, count, seed=seed)
    except SettingsError as error:
        # The examples are too few, or too much alike.
        if settings.gate:
            raise
        run.note(f"no confidence can be learned: {error}")
        return []

    # Choose how the models of folds are trained: as long as the model was, shared among the folds.
    steps = trained.trainer.made
    rules: Grammar | InductionSettings | None = trained.model.grammar
    share = min(1.0, FOLD_STEPS / len(splits))
    if has_free_text:
        # Free text is learned from few examples: it must not be judged by rules that a fold gave
        # rise to.
        steps, rules, share = task.training.steps, task.rules, 1.0
    if trained.trainer.best:
        steps = trained.trainer.best.step
    warm_up = task.training.warm_up_steps(task.model.encoder)
    training = _shortened(replace(task.training, steps=steps, warm_up=warm_up), share)
    task = replace(
        task,
        examples=examples,
        dev=(),
        training=training,
        rules=rules,
        earlier_rules=(),
    )
    if reader:
        reader = replace(reader, training=_shortened(reader.training, share))
    if not settings.gate:
        reader = None

    # Try each fold, unless an interrupted run has done so with the same input.
    grammars = f"{task.rules}{task.manual_rules}{task.target_grammar}"
    fingerprint = sha256(
        f"{examples}{task.model}{training}{grammars}{settings}{reader}"
    )
    everything: list[GateTrial] = []
    for number, split in enumerate(splits, start=1):
        name, fold_run = f"fold-{number}.json", run.for_fold(number, len(splits))
        result = run.recorded(name, FoldTrials, fingerprint)
        if result is None:
            result = FoldTrials(tuple(fold_trials(task, reader, split, fold_run)))
            run.record(name, result, fingerprint)
            if fold_run.folder and run.processes.is_main:
                shutil.rmtree(fold_run.folder, ignore_errors=True)
        everything += result.trials
    return everything


def fold_trials(
    task: ParserTask, reader: SecondReader | None, split: Split, run: Run
) -> list[GateTrial]:
    """How models that are trained on the train examples of a split answer its test examples."""
    parts = split.parts(distinct_pairs(task.examples))
    rules = task.rules
    if isinstance(rules, Grammar):
        rules = used_rules(rules, parts.train)
    else:
        # A simpler search will do: rules that are a little worse make confidence no higher.
        rules = replace(rules or InductionSettings.automatic(), returning=False)
    task = replace(task, examples=parts.train, rules=rules)
    grammar, _ = learn_grammar(task, run)
    parser = Parser(train_parser(task, grammar, run).model)
    fallback: System = NoFallback()
    if reader:
        fallback = trained_fallback(reader, task, parser.model.grammar, run)
    return list(trials(parser, fallback, parts.test, parts.train))


def _shortened(settings: Shortened, share: float) -> Shortened:
    # 0 steps of a fine-tuning follow from the number of examples.
    steps = settings.steps and max(1, round(share * settings.steps))
    return replace(
        settings, steps=steps, warm_up=round(share * (settings.warm_up or 0))
    )
