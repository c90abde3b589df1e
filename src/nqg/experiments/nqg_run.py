"""NQG on a task: induce, train, parse. Killed, it goes on from its last checkpoint."""

from __future__ import annotations

from dataclasses import asdict

from nqg.data.example import Example
from nqg.evaluation.evaluation import Reply
from nqg.experiments.outcome import BEST_LEGAL, Outcome, Progress, Stopwatch, Workplace
from nqg.experiments.recipe import Recipe
from nqg.experiments.task import Legal, Task
from nqg.grammar.grammar import Grammar
from nqg.induction.induce import induce
from nqg.induction.settings import InductionSettings
from nqg.inference.fitting import Fitting
from nqg.inference.parser import Parse, Parser
from nqg.model.resume import restore, saved_steps
from nqg.model.settings import ModelSettings, TrainingSettings

SAVE_EVERY = 64


def nqg_outcome(task: Task, weights: str, seed: int, place: Workplace) -> Outcome:
    """What NQG with an encoder of the given weights makes of a task."""
    watch = Stopwatch()
    train, test = task.for_grammar(task.train), task.for_grammar(task.test)
    with watch.timing("induction"):
        grammar = induced(task.recipe, train)
    with watch.timing("training"):
        parser = _trained(task, grammar, train, weights, seed, place)
    with watch.timing("parsing"):
        replies = _replies(task, parser, test)
    others = {BEST_LEGAL: _replies(task, parser, test, only_legal=True)} if task.target_grammar else {}
    figures = {"rules": float(len(grammar)), "train_examples": float(len(task.train))}
    settings = asdict(training_settings(task.recipe, weights, seed)) | {"induction": dict(task.recipe.induction)}
    return Outcome(replies, figures, settings, watch.seconds, others)


def induced(recipe: Recipe, train: list[Example]) -> Grammar:
    """The grammar of a recipe's training examples."""
    return induce(train, InductionSettings.named(recipe.dataset).changed(**recipe.induction))


def training_settings(recipe: Recipe, weights: str, seed: int) -> TrainingSettings:
    """How the recipe trains the parser."""
    return recipe.nqg.settings(TrainingSettings, weights, seed, f"[nqg] of {recipe.name}")


def _trained(task: Task, grammar: Grammar, train: list[Example], weights: str, seed: int, place: Workplace) -> Parser:
    settings = training_settings(task.recipe, weights, seed)
    fitting = Fitting(
        grammar,
        train,
        target_grammar=task.target_grammar,
        model=ModelSettings(encoder=weights),
        training=settings,
        device=place.device,
    )
    state = place.folder / "nqg.safetensors"
    if state.exists():
        restore(state, fitting.under_way, fitting.origin)
    for step in saved_steps(fitting.under_way, state, fitting.origin, SAVE_EVERY):
        place.tell(Progress("training", step.number, settings.steps, step.loss))
    return fitting.parser


def _replies(task: Task, parser: Parser, test: list[Example], *, only_legal: bool = False) -> tuple[Reply, ...]:
    parses, legal = parser.parse_all((example.source for example in test), only_legal=only_legal), task.legality()
    return tuple(_reply(parse, legal(example)) for parse, example in zip(parses, test, strict=True))


def _reply(parse: Parse, is_legal: Legal) -> Reply:
    if parse.target is None or not is_legal(parse.target):
        return Reply(None, "grammar", None, parse.reason or "illegal target")
    return Reply(parse.target, "grammar", parse.probability)
