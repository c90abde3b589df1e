"""The confidence stage: parsers that are trained without a fold show how often such answers are right."""

from __future__ import annotations

import random
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from nqg.answers import System
from nqg.data.dataset import Split
from nqg.data.example import Example
from nqg.errors import SettingsError
from nqg.evaluation.calibration import MOST_EXAMPLES, GateTrial, fold_trials, folds, used_rules
from nqg.grammar.grammar import Grammar
from nqg.induction.settings import InductionSettings
from nqg.inference.parser import Parser
from nqg.model.settings import TrainingSettings
from nqg.pipeline.grammar import learn_grammar
from nqg.pipeline.parser import train_parser
from nqg.pipeline.run import Run
from nqg.pipeline.second_reader import AsWrittenSystem, SecondReader, train_seq2seq
from nqg.pipeline.settings import ConfidenceSettings
from nqg.pipeline.task import ParserTask
from nqg.run_config import RunConfig, sha256
from nqg.seq2seq.settings import FineTuningSettings
from nqg.slots.target_grammars import open_slot_categories
from nqg.training.parser_training import ParserTraining

Shortened = TypeVar("Shortened", TrainingSettings, FineTuningSettings)
FOLD_STEPS = 1.75  # of all folds together, for each step of the model's own training
# Where any words may be text, a model is the surer of itself the longer it was trained: then folds have all steps.
FREE_TEXT_FOLDS = 5


@dataclass(frozen=True, slots=True)
class FoldTrials:
    """What was seen on one fold."""

    trials: tuple[GateTrial, ...]


@dataclass(frozen=True, slots=True)
class FoldTraining:
    """How the models of a fold are trained: the task without dev examples, and a share of all steps."""

    task: ParserTask
    reader: SecondReader | None  # None where no gate asks for one
    share: float

    def trials(self, split: Split, run: Run) -> FoldTrials:
        """How models that are trained on the train part of a split do on its test part."""
        parsers: list[Parser] = []

        def parser(examples: Sequence[Example]) -> System:
            parsers.append(self._parser(examples, run))
            return parsers[0]

        def second(examples: Sequence[Example]) -> System:
            return self._second_reader(examples, parsers[0].model.grammar, run)

        found = fold_trials(self.task.examples, split, parser, second if self.reader else None)
        return FoldTrials(tuple(found))

    def _parser(self, examples: Sequence[Example], run: Run) -> Parser:
        rules = self.task.rules
        if isinstance(rules, Grammar):
            rules = used_rules(rules, examples)
        else:  # a simpler search will do: rules that are a little worse make confidence no higher
            rules = replace(rules or InductionSettings.automatic(), returning=False)
        task = replace(
            self.task, examples=examples, rules=rules, training=self._shortened(self.task.training)
        )
        with run.processes.main_first():
            grammar, _ = learn_grammar(task, run)
        return Parser(train_parser(task, grammar, run).model)

    def _second_reader(self, examples: Sequence[Example], grammar: Grammar, run: Run) -> System:
        from nqg.seq2seq.legal_decoding import LegalSeq2seq  # which loads transformers

        assert self.reader is not None, "asked for by a gate"
        task, reader = (
            self.task,
            replace(self.reader, training=self._shortened(self.reader.training)),
        )
        seq2seq = train_seq2seq(reader, task.as_written(examples), run, grammar=grammar).seq2seq
        system: System = seq2seq
        if task.target_grammar is not None:
            system = LegalSeq2seq(
                seq2seq, open_slot_categories(task.target_grammar, task.text.slots.quotes)
            )
        return AsWrittenSystem(system, task.values) if task.values is not None else system

    def _shortened(self, settings: Shortened) -> Shortened:
        steps, warm_up = (
            round(self.share * count) for count in (settings.steps, settings.warm_up or 0)
        )
        return replace(settings, steps=max(1, steps), warm_up=warm_up)


def held_out_trials(
    settings: ConfidenceSettings,
    task: ParserTask,
    trained: ParserTraining,
    reader: SecondReader | None,
    run: Run,
) -> list[GateTrial]:
    """What models that were trained without a fold say of it, fold by fold; an interrupted run keeps those done."""
    seed = task.training.seed
    count = min(len(task.examples), MOST_EXAMPLES)
    examples = [
        task.examples[number]
        for number in sorted(random.Random(seed).sample(range(len(task.examples)), count))
    ]
    has_free_text = bool(task.text.slots.free_text)
    if (
        has_free_text
    ):  # learned from little: it must not be judged by rules that a fold gave rise to
        steps, rules = task.training.steps, task.rules
    else:
        steps, rules = trained.trainer.made, trained.model.grammar
    if trained.trainer.best is not None:
        steps = trained.trainer.best.step
    training = replace(
        task.training, steps=steps, warm_up=task.training.warm_up_steps(task.model.encoder)
    )
    task = replace(
        task, examples=examples, dev=(), training=training, rules=rules, earlier_rules=()
    )
    try:
        splits = folds(
            examples,
            settings.hold_out,
            settings.folds or (FREE_TEXT_FOLDS if has_free_text else None),
            seed=seed,
        )
    except SettingsError as error:  # of examples too few, or too much alike
        if settings.gate:
            raise
        run.note(f"no confidence can be learned: {error}")
        return []
    share = 1.0 if has_free_text else min(1.0, FOLD_STEPS / len(splits))
    fold = FoldTraining(task, reader if settings.gate else None, share)
    fingerprint = _fingerprint(fold, settings)
    found: list[GateTrial] = []
    for number, split in enumerate(splits, start=1):
        name, fold_run = f"fold-{number}.json", run.for_fold(number, len(splits))
        result = run.recorded(name, FoldTrials, fingerprint)
        if result is None:
            result = fold.trials(split, fold_run)
            run.record(name, result, fingerprint)
            if fold_run.folder is not None and run.processes.is_main:
                shutil.rmtree(fold_run.folder, ignore_errors=True)
        found += result.trials
    return found


def _fingerprint(fold: FoldTraining, settings: ConfidenceSettings) -> str:
    """What stands for everything that the trials of a fold depend on."""
    task = fold.task
    return RunConfig.of(
        "folds",
        task.examples,
        task.model,
        task.training,
        rules=sha256(str(task.rules)),
        manual_rules=sha256(str(task.manual_rules)),
        target_grammar=sha256(str(task.target_grammar)),
        settings=str(settings),
        reader=str(fold.reader),
    ).fingerprint
