"""A recipe's data, as each system reads it, and the judges of what they predict."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from nqg.answers import GRAMMAR, ILLEGAL, Answer
from nqg.data.catalogue import load_dataset, load_spider_schemas
from nqg.data.dataset import Dataset, Split
from nqg.data.examples import Example
from nqg.data.schema import Schema, SqlConstants, sql_target_grammar
from nqg.data.spider import database_of, nqg_examples, with_schemas
from nqg.errors import FormatError
from nqg.evaluation.evaluation import Judge, judge_named
from nqg.experiments.recipe import Recipe
from nqg.files import numbered_lines, strict_json, write_text
from nqg.grammar.grammar import Grammar
from nqg.grammar.target_grammar import TargetGrammar
from nqg.induction.induce import induce
from nqg.induction.settings import InductionSettings
from nqg.inference.fitting import Fitting
from nqg.inference.parser import DecodeOptions, Parser
from nqg.model.settings import ModelSettings, TrainingSettings
from nqg.progress import Progress as Report
from nqg.progress import silent
from nqg.seq2seq.fitting import Seq2seqFitting
from nqg.seq2seq.settings import FineTuningSettings, Seq2seqSettings
from nqg.splits.audit import audit
from nqg.splits.compounds import likely_language
from nqg.splits.partition import Sizes, random_split
from nqg.training.resume import restore, saved_steps

Legal = Callable[[str], bool]


@dataclass(frozen=True)
class Task:
    """The examples of a recipe as they are published; Spider's have schemas beside them."""

    recipe: Recipe
    train: tuple[Example, ...]
    test: tuple[Example, ...]
    split_facts: Mapping[str, float]
    judges: Mapping[str, Judge]  # the first is the recipe's
    schemas: Mapping[str, Schema] = field(default_factory=dict)

    @property
    def is_sql(self) -> bool:
        """Whether the programs are SQL about databases with schemas."""
        return bool(self.schemas)

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the examples, train before test."""
        return Dataset(self.recipe.name, (*self.train, *self.test)).fingerprint

    def for_grammar(self, examples: Iterable[Example]) -> list[Example]:
        """Examples as the grammar reads them: SQL and questions about it cut into tokens."""
        return nqg_examples(examples) if self.is_sql else list(examples)

    def for_seq2seq(self, examples: Sequence[Example]) -> list[Example]:
        """Examples as T5 reads them: questions about a database with its whole schema, which the model may cut."""
        if not self.is_sql:
            return list(examples)
        return list(with_schemas(examples, self.schemas, limit=1, length=lambda source: 0).examples)

    @property
    def target_grammar(self) -> TargetGrammar | None:
        """What every legal program of the task follows, where one grammar can say it: that is so for FunQL."""
        if self.recipe.dataset != "geoquery":
            return None
        from nqg.data.funql import funql_target_grammar

        return funql_target_grammar()

    def legality(self) -> Callable[[Example], Legal]:
        """For an example, what tells whether a program of the grammar is legal: SQL must fit its database."""
        if not self.is_sql:
            return lambda _: lambda _: True
        constants = SqlConstants.of(example.target for example in self.train)

        @cache
        def grammar(database: str) -> TargetGrammar:
            return TargetGrammar.parse(sql_target_grammar(self.schemas[database], constants))

        return lambda example: lambda target: grammar(database_of(example.source)).accepts(target.split())


def prepared(recipe: Recipe, mirror: Path | str | None = None, report: Report = silent) -> Task:
    """The task of a recipe, its data downloaded or taken from a mirror."""
    dataset = load_dataset(recipe.dataset, mirror, report)
    split = _split(recipe, dataset)
    parts = split.parts(dataset.examples)
    schemas = load_spider_schemas(mirror, report) if recipe.dataset.startswith("spider") else {}
    metrics = [recipe.metric, *(["denotation"] if recipe.dataset == "geoquery" else [])]
    judges = {name: judge_named(name, None if mirror is None else Path(mirror), report) for name in metrics}
    return Task(recipe, tuple(parts.train), tuple(parts.test), _split_facts(dataset, split), judges, schemas)


def _split(recipe: Recipe, dataset: Dataset) -> Split:
    if recipe.random_train_size is None:
        return dataset.positions(recipe.split)
    sizes = Sizes(train=recipe.random_train_size, test=len(dataset.examples) - recipe.random_train_size)
    return random_split(dataset.examples, sizes, random.Random(0))


def _split_facts(dataset: Dataset, split: Split) -> dict[str, float]:
    """What table 6 of the paper says of a split."""
    if dataset.name == "scan":
        return {}  # the paper has none; SCAN's programs have no compounds but their tokens
    found = audit(dataset.examples, split, likely_language(dataset.examples))
    return {"unseen_atoms": found.unseen_atom_share, "divergence": found.compound_divergence}


BEST_LEGAL = "best_legal"  # where the paper's NQG abstains because its best derivation is illegal, this one looks on


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run is: which part of it, and how much of that part."""

    part: str
    done: int
    total: int
    loss: float | None = None


@dataclass(frozen=True, slots=True)
class Workplace:
    """Where a run keeps what it has not finished, the device that it uses, and whom it tells how far it is."""

    folder: Path
    device: str | None = None
    tell: Callable[[Progress], None] = lambda _: None


@dataclass(frozen=True, slots=True)
class Outcome:
    """The answers to a task's test sentences, and facts of the run."""

    answers: tuple[Answer, ...]
    figures: Mapping[str, float]
    settings: Mapping[str, Any]
    seconds: Mapping[str, float]
    others: Mapping[str, tuple[Answer, ...]] = field(default_factory=dict)  # of other ways to answer, by their names


@dataclass(slots=True)
class Stopwatch:
    """Seconds by the name of what took them."""

    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def timing(self, name: str) -> Iterator[None]:
        """Add the time that a block takes."""
        begun = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = round(self.seconds.get(name, 0.0) + time.perf_counter() - begun, 3)


def write_answers(path: Path, task: Task, answers: Iterable[Answer]) -> None:
    """Write answers as lines of JSON, each with its sentence and the right program."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = (
        {
            "source": example.source,
            "reference": example.target,
            "target": answer.target,
            "by": answer.system,
            "probability": answer.probability,
            "reason": answer.reason,
        }
        for example, answer in zip(task.test, answers, strict=True)
    )
    write_text(path, "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines))


def read_answers(path: Path, task: Task) -> tuple[Answer, ...]:
    """The answers in a file to the test sentences of a task; those to others are refused."""
    lines = [(place, strict_json(line, place)) for place, line in numbered_lines(path)]
    if len(lines) != len(task.test):
        raise FormatError(f"expected {len(task.test)} answers, found {len(lines)}", path)
    answers = []
    for (place, line), example in zip(lines, task.test, strict=True):
        match line:
            case {"source": example.source, "target": target, "by": str(by), "probability": chance, "reason": str(why)}:
                answers.append(Answer(example.source, target, chance, by, why))
            case _:
                raise FormatError(f"expected an answer to '{example.source}'", place)
    return tuple(answers)


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
        answers = _answers(task, parser, test)
    others = {BEST_LEGAL: _answers(task, parser, test, only_legal=True)} if task.target_grammar else {}
    figures = {"rules": float(len(grammar)), "train_examples": float(len(task.train))}
    settings = asdict(training_settings(task.recipe, weights, seed)) | {"induction": dict(task.recipe.induction)}
    return Outcome(answers, figures, settings, watch.seconds, others)


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


def _answers(task: Task, parser: Parser, test: list[Example], *, only_legal: bool = False) -> tuple[Answer, ...]:
    """The parser's answers; SQL that does not fit its database is an abstention."""
    answers = parser.with_options(DecodeOptions(only_legal=only_legal)).answers(example.source for example in test)
    is_legal = task.legality()
    return tuple(
        answer
        if answer.target is None or is_legal(example)(answer.target)
        else Answer(answer.source, system=GRAMMAR, reason=ILLEGAL)
        for answer, example in zip(answers, test, strict=True)
    )


def seq2seq_outcome(task: Task, weights: str, seed: int, place: Workplace) -> Outcome:
    """What a model that begins with the given weights makes of a task."""
    watch = Stopwatch()
    settings = fine_tuning_settings(task.recipe, weights, seed)
    train, test = task.for_seq2seq(task.train), task.for_seq2seq(task.test)
    with watch.timing("training"):
        fitting = Seq2seqFitting(train, Seq2seqSettings(model=weights), settings, device=place.device)
        for step in fitting.steps(place.folder / "seq2seq.safetensors"):
            place.tell(Progress("fine-tuning", step.number, settings.steps, step.loss))
    with watch.timing("predicting"):
        answers = tuple(fitting.seq2seq.answers(example.source for example in test))
    figures = {"train_examples": float(len(train)), "cut_sources": float(fitting.cut.sources)}
    return Outcome(answers, figures, asdict(settings), watch.seconds)


def fine_tuning_settings(recipe: Recipe, weights: str, seed: int) -> FineTuningSettings:
    """How the recipe fine-tunes the model."""
    return recipe.seq2seq.settings(FineTuningSettings, weights, seed, f"[seq2seq] of {recipe.name}")
