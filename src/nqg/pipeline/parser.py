"""The parser stage: forests of all derivations, and the training of a model that ranks them."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import torch

from nqg.data.example import Example, distinct_pairs
from nqg.grammar.grammar import Grammar
from nqg.inference.parser import Parser
from nqg.model.checkpoint import Provenance
from nqg.model.forests import TrainingForests
from nqg.model.settings import EMBEDDED, ModelSettings, TrainingSettings
from nqg.pipeline.run import Run
from nqg.pipeline.task import ParserTask
from nqg.preprocessing.preprocessor import Preprocessor
from nqg.preprocessing.training_text import tokenized
from nqg.training.parser_training import ParserTraining
from nqg.training.resume import PARSER_SAVE_EVERY, restore, saved_steps
from nqg.types.target_grammar import TargetGrammar

# A bound of work: of fewer examples one thread learns, which leaves the other cores to others.
FEW_EXAMPLES = 1000


def fit_parser(
    grammar: Grammar,
    examples: Sequence[Example],
    *,
    dev: Sequence[Example] = (),
    target_grammar: TargetGrammar | None = None,
    model: ModelSettings = ModelSettings(),  # noqa: B008 (frozen)
    training: TrainingSettings = TrainingSettings(),  # noqa: B008 (frozen)
    device: str | None = None,
    text: Preprocessor = Preprocessor(),  # noqa: B008 (frozen)
) -> Parser:
    """This stage alone: a parser whose derivations are those of `grammar`, without confidence.

    With `text`, examples are raw: the grammar must be one of `tokenized(examples, text)`.
    """
    # Without slots and search, the task has no more than this.
    task = ParserTask(
        examples=tokenized(examples, text),
        dev=tokenized(dev, text),
        rules=grammar,
        model=model,
        training=training,
        target_grammar=target_grammar,
    )
    trained = train_parser(task, grammar, Run(device=device))
    records = [step.to_dict() for step in trained.trainer.records]
    return Parser(
        replace(
            trained.model,
            provenance=Provenance.of(examples, training, records),
            text=text,
        )
    )


def train_parser(task: ParserTask, grammar: Grammar, run: Run) -> ParserTraining:
    """Train to the end, from the beginning or from the state that an interrupted run has saved."""
    # In training, slots know the values that were found in the examples.
    if task.values:
        grammar = replace(grammar, slots=task.values.slots)
    grammar = grammar.typed_by(task.target_grammar if task.model.typed else None)
    training = ParserTraining(
        grammar,
        task.examples,
        Parser,
        dev=task.dev,
        forests=_forests(task, grammar, run),
        target_grammar=task.target_grammar,
        model=task.model,
        training=task.training,
        device=run.device,
        processes=run.processes,
    )
    _train(training, run)
    # From here on the model only answers.
    scorer = training.scorer.for_inference(task.model)
    training.model = replace(training.model, scorer=scorer)
    return training


def _forests(task: ParserTask, grammar: Grammar, run: Run) -> TrainingForests:
    def report(done: int, total: int) -> None:
        run.progress("building forests", done, total)

    return TrainingForests.of(grammar, distinct_pairs(task.examples), report)


def _train(training: ParserTraining, run: Run) -> None:
    """Make the steps that are left, each reported with loss, dev accuracy and speed."""
    trainer, settings = training.trainer, training.settings
    state = run.path("state.safetensors")
    # Continue from a saved state, if there is one.
    steps = trainer.steps()
    if state:
        if state.exists():
            restore(state, trainer)
            run.note(f"{state}: continuing after step {trainer.made:,}")
        steps = saved_steps(
            trainer, state, run.settings.save_every or PARSER_SAVE_EVERY
        )
    # Report the speed of this run, not of the run before it.
    first, started, dev = trainer.made, time.monotonic(), ""
    batch_size = settings.batch(len(training.data))
    for step in steps:
        speed = (
            (step.number - first) * batch_size / max(time.monotonic() - started, 1e-9)
        )
        if step.dev:
            dev = f" · dev {step.dev.exact_match:.1%}"
        what = f"training · loss {step.loss:.4f}{dev} · {speed:,.0f} examples/s"
        run.progress(what, step.number, settings.steps)


@contextmanager
def fitting_threads(task: ParserTask) -> Iterator[None]:
    """One thread for a small model, because several would wait for each other."""
    before = torch.get_num_threads()
    if task.model.encoder == EMBEDDED and len(task.examples) < FEW_EXAMPLES:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
