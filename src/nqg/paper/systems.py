"""A recipe's data as each system reads it, and how each system is trained, timed and tested."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any

from nqg.answers import GRAMMAR, ILLEGAL, Answer, program_tokens
from nqg.data.dataset import Dataset, Split, read_split
from nqg.data.example import Example, distinct_pairs
from nqg.data.example_files import required_examples
from nqg.errors import FormatError, NqgError
from nqg.evaluation.calibration import HeldOut, held_out
from nqg.evaluation.error_analysis import breakdown
from nqg.evaluation.evaluation import Judge, judge_named
from nqg.extensions import load_extension
from nqg.files import numbered_lines, strict_json, write_text
from nqg.grammar.grammar import Grammar
from nqg.induction.tuning import chosen_settings
from nqg.inference.decoding import DecodeOptions
from nqg.inference.parser import Parser
from nqg.model.settings import (
    ModelSettings,
    TrainingSettings,
    default_learning_rate,
)
from nqg.paper import presets
from nqg.paper.baselines import BASELINES
from nqg.paper.datasets import (
    CATALOGUE,
    load_dataset,
    load_natural_names,
    load_spider_schemas,
)
from nqg.paper.funql import EntityKind, funql_target_grammar
from nqg.paper.geca import recombined
from nqg.paper.judges import DenotationJudge
from nqg.paper.recipe import PUBLISHED, Recipe, SystemName, SystemPlan
from nqg.paper.records import BEST_LEGAL, ERRORS, LEGAL, WITH_KINDS
from nqg.paper.schema_text import SchemaSettings, masked_target, query_of
from nqg.paper.spider import database_of, nqg_examples, with_schemas
from nqg.pipeline.grammar import learn_grammar
from nqg.pipeline.parser import fitting_threads, train_parser
from nqg.pipeline.run import Run
from nqg.pipeline.second_reader import SecondReader, teach, train_seq2seq
from nqg.pipeline.task import ParserTask
from nqg.preprocessing.preprocessor import TextSettings
from nqg.preprocessing.training_text import fit_text, tokenized
from nqg.progress import Progress, silent
from nqg.seq2seq.augmentation import Augmentation, mixed
from nqg.seq2seq.legal_decoding import LegalSeq2seq, SubwordVocabulary, restricted
from nqg.seq2seq.seq2seq import Seq2seq
from nqg.seq2seq.settings import (
    AugmentationSettings,
    FineTuningSettings,
    Seq2seqSettings,
)
from nqg.splits.audit import audit
from nqg.splits.compounds import language_of
from nqg.splits.partition import Sizes, random_split
from nqg.sql.schema import Schema
from nqg.sql.target_grammar import SqlConstants, SqlForm, sql_target_grammar
from nqg.sql.tokens import sql_text, sql_tokens
from nqg.types.inference import infer_target_grammar
from nqg.types.target_grammar import Category, Production, TargetGrammar

PLACEHOLDER, NOBODY = Category("placeholder"), "nobody"
# Training accuracy is computed from at most so many training examples.
TRIED = 2000
PAPERS_BATCH = 256
# A bound of work: candidates of T5 among which SQL is looked for that fits its database.
CANDIDATES = 8


@dataclass(frozen=True)
class RecipeData:
    """The examples of a recipe as they are published; Spider's have schemas beside them."""

    recipe: Recipe
    train: tuple[Example, ...]
    test: tuple[Example, ...]
    split_figures: Mapping[str, float]
    # The first is the recipe's.
    judges: Mapping[str, Judge]
    schemas: Mapping[str, Schema] = field(default_factory=dict)
    # Whether the fallback reads the schema with each question.
    reads_schemas: bool = True
    # What people call the tables and columns of each database, where that is asked for.
    natural_names: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @classmethod
    def load(
        cls,
        recipe: Recipe,
        mirror: Path | str | None = None,
        progress: Progress = silent,
    ) -> RecipeData:
        examples, split = divided_examples(recipe, mirror, progress)
        # A recipe that is held out tests on a part of its training examples.
        if recipe.held_out:
            examples = distinct_pairs(split.parts(examples).train)
            split = held_out(examples, HeldOut(recipe.held_out))
        figures = {}
        # Programs of SCAN have no compounds but their tokens.
        if recipe.dataset != "scan":
            audited = audit(examples, split)
            figures["unseen_atoms"] = audited.unseen_atom_share
            figures["divergence"] = audited.compound_divergence
        # GeoQuery's programs can also be executed.
        metrics: list[str] = [recipe.metric]
        if recipe.dataset == "geoquery":
            metrics.append("denotation")
        folder = Path(mirror) if mirror is not None else None
        judges = {name: judge_named(name, folder, progress) for name in metrics}
        divided = split.parts(examples)
        data = cls(recipe, tuple(divided.train), tuple(divided.test), figures, judges)
        if not recipe.dataset.startswith("spider"):
            return data
        needs_names = recipe.schema.relevant_first or recipe.schema.natural_names
        names = load_natural_names(mirror, progress) if needs_names else {}
        return replace(
            data, schemas=load_spider_schemas(mirror, progress), natural_names=names
        )

    @property
    def fingerprint(self) -> str:
        return Dataset(self.recipe.name, (*self.train, *self.test)).fingerprint

    @property
    def judge(self) -> Judge:
        return next(iter(self.judges.values()))

    def for_grammar(self, examples: Iterable[Example]) -> list[Example]:
        """Examples as the grammar reads them: SQL and questions about it as tokens."""
        return nqg_examples(examples) if self.schemas else list(examples)

    def for_seq2seq(self, examples: Iterable[Example]) -> list[Example]:
        """Examples as T5 reads them: questions about a database with its whole schema.

        The model may truncate them.
        """
        if self.is_masked:
            examples = [
                replace(example, target=masked_target(example.target))
                for example in examples
            ]
        if self.schemas and self.reads_schemas:
            settings = self.recipe.schema
            return with_schemas(examples, self.schemas, settings, self.natural_names)
        return list(examples)

    @property
    def is_masked(self) -> bool:
        """Whether T5 writes queries in the tokens of their schema's grammar."""
        return bool(self.schemas) and self.recipe.schema.masked

    def as_read(self, answers: Iterable[Answer]) -> tuple[Answer, ...]:
        """Answers of T5 as the programs that they mean."""
        if not self.is_masked:
            return tuple(answers)
        return tuple(
            replace(answer, target=answer.target and query_of(answer.target))
            for answer in answers
        )

    def among(self, made_pairs: Sequence[Example], real_share: float) -> list[Example]:
        """Training examples among made ones, which come in the grammar's form, as T5 reads them."""
        if self.schemas:
            # The grammar writes SQL in tokens, T5 as text.
            made_pairs = [
                replace(pair, target=sql_text(pair.target_tokens))
                for pair in made_pairs
            ]
        return mixed(
            self.for_seq2seq(self.train), self.for_seq2seq(made_pairs), real_share
        )

    def is_fitting(self) -> Callable[[Example], bool]:
        """What tells whether the program of a made pair is legal."""
        is_legal, grammar = self.legality(), self.target_grammar
        return lambda pair: (
            is_legal(pair, pair.target)
            and (not grammar or grammar.accepts(pair.target_tokens))
        )

    @cached_property
    def target_grammar(self) -> TargetGrammar | None:
        """The grammar of legal programs, where there is one: FunQL's, or the recipe's."""
        if self.recipe.target_grammar is not None:
            return TargetGrammar.read(self.recipe.target_grammar)
        return funql_target_grammar() if self.recipe.dataset == "geoquery" else None

    def schema_grammars(
        self,
        constants: SqlConstants | None = None,
        form: SqlForm = SqlForm.PUBLISHED,
    ) -> Callable[[str], TargetGrammar]:
        """The grammar of SQL over the database that a source names."""

        @cache
        def grammar(database: str) -> TargetGrammar:
            schema = self.schemas[database]
            return TargetGrammar.parse(sql_target_grammar(schema, constants, form))

        return lambda source: grammar(database_of(source))

    def legality(self) -> Callable[[Example, str], bool]:
        """What tells whether the grammar's program for an example is legal: SQL must fit its
        database.
        """
        if not self.schemas:
            return lambda example, target: True
        grammar = self.schema_grammars(
            SqlConstants.of(example.target for example in self.train)
        )
        return lambda example, target: grammar(example.source).accepts(target.split())

    def schema_check(self) -> Callable[[Answer], bool]:
        """What tells whether SQL as T5 writes it fits the database of its question, whatever its
        constants are.

        It must follow the grammar of the schema, and its columns must be of the tables of their
        query.
        """
        if not self.schemas:
            return lambda answer: True
        # Loads sqlglot, so it waits until queries are checked.
        sql_problem = load_extension("nqg.sql.names:sql_problem")
        grammar = self.schema_grammars()

        def is_fitting(answer: Answer) -> bool:
            query = answer.target or ""
            # A string that is never closed has no tokens.
            try:
                is_accepted = grammar(answer.source).accepts(sql_tokens(query))
            except FormatError:
                return False
            schema = self.schemas[database_of(answer.source)]
            return is_accepted and not sql_problem(query, schema)

        return is_fitting


def divided_examples(
    recipe: Recipe, mirror: Path | str | None, progress: Progress
) -> tuple[Sequence[Example], Split]:
    """The examples of a recipe's dataset, which is known by name or a file, and how they are
    divided.
    """
    if recipe.dataset not in CATALOGUE and Path(recipe.dataset).is_file():
        return _divided_files(Path(recipe.dataset), Path(recipe.split))
    # A random split is drawn here, all others are part of the dataset.
    dataset = load_dataset(recipe.dataset, mirror, progress)
    examples, train_size = dataset.examples, recipe.random_train_size
    if train_size is None:
        return examples, dataset.positions(recipe.split)
    sizes = Sizes(train_size, len(examples) - train_size)
    return examples, random_split(examples, sizes, random.Random(0))


def _divided_files(data: Path, split_file: Path) -> tuple[Sequence[Example], Split]:
    """Examples of files, as tokens; the split is one of `nqg split`, or a file of the test
    examples.
    """
    examples = required_examples(data)
    if split_file.suffix == ".json":
        split = read_split(split_file, len(examples))
    else:
        train_size = len(examples)
        # The test examples come behind those of training.
        examples = [*examples, *required_examples(split_file)]
        split = Split(
            train=tuple(range(train_size)), test=tuple(range(train_size, len(examples)))
        )
    text = fit_text(
        split.parts(examples).train, TextSettings(slots="given", sequence="forbid")
    )
    return tokenized(examples, text), split


@dataclass(frozen=True, slots=True)
class SystemTask:
    """What a system is trained on, from which weights, and the seconds that each stage took."""

    data: RecipeData
    weights: str
    seed: int
    run: Run
    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def timed(self, stage: str) -> Iterator[None]:
        begin = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[stage] = round(time.perf_counter() - begin, 3)


@dataclass(frozen=True, slots=True)
class RunResult:
    """Answers to the test examples; `others` has those of other ways to answer, by their names."""

    answers: tuple[Answer, ...]
    figures: dict[str, float]
    settings: dict[str, Any]
    seconds: Mapping[str, float]
    others: dict[str, tuple[Answer, ...]] = field(default_factory=dict)


def run_nqg(task: SystemTask) -> RunResult:
    """The paper's parser: untyped, it abstains where its best derivation is illegal."""
    return run_parser(task, task.data.target_grammar, typed=False)


def run_paper_induction(task: SystemTask) -> RunResult:
    """The paper's parser with the search of the authors' code, whose samples follow the seed."""
    search = {**presets.PAPER_SEARCH, "seed": task.seed}
    return run_parser(task, task.data.target_grammar, typed=False, search=search)


def run_typed(task: SystemTask) -> RunResult:
    grammar = task.data.target_grammar
    if grammar is None:
        raise NqgError(
            f"{task.data.recipe.name}: there is no written target grammar of its programs; "
            "name one with target_grammar in a recipe of yours, or try --systems inferred"
        )
    return run_parser(task, grammar, typed=True)


def run_inferred(task: SystemTask) -> RunResult:
    data = task.data
    grammar = inferred_grammar(data.for_grammar(data.train))
    result = run_parser(task, grammar, typed=True)
    # How many test programs are legal in the grammar that training programs show.
    test = data.for_grammar(data.test)
    accepted = sum(grammar.accepts(example.target_tokens) for example in test)
    result.figures["types"] = float(len(grammar.categories))
    result.figures["accepted"] = accepted / len(test)
    return result


def inferred_grammar(examples: Iterable[Example]) -> TargetGrammar:
    return infer_target_grammar(example.target_tokens for example in examples)


def run_parser(
    task: SystemTask,
    target_grammar: TargetGrammar | None,
    *,
    typed: bool,
    search: Mapping[str, Any] = MappingProxyType({}),
) -> RunResult:
    """The stages of `nqg.train` for a parser, with the recipe's settings, and its answers.

    Settings in `search` replace those of induction.
    """
    data = task.data
    recipe = replace(data.recipe, induction={**data.recipe.induction, **search})
    settings = training_settings(recipe, task.weights, task.seed)
    train, test = data.for_grammar(data.train), data.for_grammar(data.test)
    with task.timed("induction"):
        parser_task = replace(
            grammar_task(recipe, train, target_grammar if typed else None),
            model=ModelSettings(encoder=task.weights, typed=typed),
            training=settings,
            target_grammar=target_grammar,
        )
        grammar, _ = learn_grammar(parser_task, task.run)
    with task.timed("training"), fitting_threads(parser_task):
        training = train_parser(parser_task, grammar, task.run)
    parser, others = Parser(training.model), {}
    with task.timed("parsing"):
        answers = nqg_answers(data, parser, test, DecodeOptions(exact=True))
    # What the same model answers if illegal derivations are passed over.
    if target_grammar and not typed:
        options = DecodeOptions(typed=True, exact=True)
        others[BEST_LEGAL] = nqg_answers(data, parser, test, options)
    figures = {"rules": float(len(grammar)), "train_examples": float(len(train))}
    written = asdict(settings) | {"induction": dict(recipe.induction)}
    return RunResult(answers, figures, written, task.seconds, others)


def grammar_task(
    recipe: Recipe, train: Sequence[Example], types: TargetGrammar | None
) -> ParserTask:
    """The search for a grammar, with the settings for the paper's datasets or those that trials
    choose.

    The paper's search knows no types.
    """
    if recipe.dataset in presets.INDUCTION and not recipe.trials:
        # The paper's own settings.
        settings, types = presets.INDUCTION[recipe.dataset], None
    else:
        settings = chosen_settings(train, types)
    rules = settings.changed(**recipe.induction)
    return ParserTask(
        train, (), rules, ModelSettings(), TrainingSettings(), rule_types=types
    )


def induced(
    recipe: Recipe, train: Sequence[Example], types: TargetGrammar | None
) -> Grammar:
    grammar, _ = learn_grammar(grammar_task(recipe, train, types), Run())
    return grammar


def sources_of(examples: Iterable[Example]) -> list[str]:
    return [example.source for example in examples]


def nqg_answers(
    data: RecipeData, parser: Parser, test: list[Example], options: DecodeOptions
) -> tuple[Answer, ...]:
    """The parser's answers; SQL that does not fit its database is an abstention."""
    is_legal = data.legality()
    answers = []
    parsed = parser.with_options(options).answers(sources_of(test))
    for answer, example in zip(parsed, test):
        if answer.target is not None and not is_legal(example, answer.target):
            answer = Answer(answer.source, system=GRAMMAR, reason=ILLEGAL)
        answers.append(answer)
    return tuple(answers)


def run_seq2seq(task: SystemTask) -> RunResult:
    settings = fine_tuning_settings(task, "seq2seq")
    return fine_tuned(task, task.data.for_seq2seq(task.data.train), settings)


def run_schemaless(task: SystemTask) -> RunResult:
    """The fallback that reads no schemas: "T5 - schema" in the paper."""
    return run_seq2seq(replace(task, data=replace(task.data, reads_schemas=False)))


def run_baseline(task: SystemTask) -> RunResult:
    """A system that others have published, whose name stands for its weights."""
    settings = replace(BASELINES[task.weights].training, seed=task.seed)
    return fine_tuned(task, task.data.for_grammar(task.data.train), settings)


def run_geca(task: SystemTask) -> RunResult:
    """The fallback with recombined examples instead of samples (`nqg.paper.geca`)."""
    data, settings = task.data, task.data.recipe.augmentation
    train = data.for_grammar(data.train)
    with task.timed("recombining"):
        pairs = recombined(train, settings.samples, data.is_fitting(), task.seed)
    mixture = data.among(pairs, settings.real_share)
    result = fine_tuned(task, mixture, fine_tuning_settings(task, "augmented"))
    result.figures.update(sample_figures(data, pairs))
    return result


def run_augmented(task: SystemTask) -> RunResult:
    """The fallback, taught by the grammar; a grammar of legal targets, written or inferred, types
    its samples.
    """
    augmentation = drawn_samples(task, task.data.recipe.augmentation)
    result = taught(task, augmentation, "augmented", "filtering")
    result.figures.update(sample_figures(task.data, augmentation.samples))
    return result


def drawn_samples(
    task: SystemTask, settings: AugmentationSettings, **more: Any
) -> Augmentation:
    data = task.data
    train = data.for_grammar(data.train)
    with task.timed("induction and sampling"):
        target_grammar = data.target_grammar or inferred_grammar(train)
        # Samples are typed even where the parser is not.
        grammar = induced(data.recipe, train, target_grammar).typed_by(target_grammar)
        augmentation = Augmentation(grammar, train, settings, task.seed, **more)
        augmentation.samples = list(filter(data.is_fitting(), augmentation.samples))
    return augmentation


def taught(
    task: SystemTask,
    augmentation: Augmentation,
    name: str,
    stage: str,
    *,
    has_kinds: bool = False,
) -> RunResult:
    """The answers of a model that learns from training examples and what the augmentation adds."""
    settings = fine_tuning_settings(task, name)
    with task.timed(stage):
        teach(
            augmentation,
            SecondReader(Seq2seqSettings(model=task.weights), settings),
            task.run,
        )
    mixture = task.data.among(augmentation.added, augmentation.settings.real_share)
    result = fine_tuned(task, mixture, settings, has_kinds=has_kinds)
    result.settings.update(asdict(augmentation.settings))
    return result


def sample_figures(data: RecipeData, samples: Sequence[Example]) -> dict[str, float]:
    """How many samples there are, and which shares of test pairs and of test programs are among
    them.
    """
    test = data.for_grammar(data.test)
    pairs = {(sample.source, sample.target) for sample in samples}
    programs = {sample.target for sample in samples}
    sampled_pairs = sampled_programs = 0
    for example in test:
        sampled_pairs += (example.source, example.target) in pairs
        sampled_programs += example.target in programs
    return {
        "samples": float(len(pairs)),
        "sampled_pairs": sampled_pairs / len(test),
        "sampled_programs": sampled_programs / len(test),
    }


def run_taught(task: SystemTask) -> RunResult:
    """The fallback with samples, filter, round trips, decoded under the target grammar with kinds.

    What it answers after fewer rounds, freely, or without kinds is there as well.
    """
    data = task.data
    earlier: dict[str, tuple[Answer, ...]] = {}

    def after_round(number: int, forward: Seq2seq) -> None:
        free = tuple(forward.answers(sources_of(data.for_seq2seq(data.test))))
        earlier[f"round_{number}"] = data.as_read(kinds_answers(data, forward, free))

    # Programs that answer nothing are not sensible; only GeoQuery's can be asked.
    hooks: dict[str, Any] = {"after_round": after_round}
    judge = data.judges.get("denotation")
    if isinstance(judge, DenotationJudge):
        hooks["is_sensible"] = judge.is_sensible
    augmentation = drawn_samples(task, data.recipe.teaching, **hooks)
    stage = "filtering and round trips"
    result = taught(task, augmentation, "taught", stage, has_kinds=True)
    result.figures.update(sample_figures(data, augmentation.added))
    result.figures["round_trips"] = len(augmentation.round_trips)
    others = result.others | {"free": result.answers} | earlier
    return replace(result, answers=others.pop(WITH_KINDS), others=others)


def legal_answers(
    data: RecipeData, seq2seq: Seq2seq, free: Sequence[Answer]
) -> tuple[Answer, ...]:
    """What a model answers under the target grammar or, where questions are about databases, under
    their schemas.

    As the paper's T5 writes SQL as text, not in tokens that a schema's grammar could mask, the
    likeliest of some candidates that fits is taken where it does not fit; if none does, the free
    answer stands. Where it writes tokens, the grammar masks them.
    """
    if data.target_grammar:
        return tuple(LegalSeq2seq(seq2seq, data.target_grammar).corrected(free))
    if data.is_masked:
        return masked_answers(data, seq2seq, free)
    is_fitting = data.schema_check()
    corrected = {answer.source: answer for answer in free if not is_fitting(answer)}
    candidates = seq2seq.candidates(list(corrected), CANDIDATES)
    for answer, others in zip(list(corrected.values()), candidates):
        corrected[answer.source] = next(filter(is_fitting, others), answer)
    return tuple(corrected.get(answer.source, answer) for answer in free)


def masked_answers(
    data: RecipeData, seq2seq: Seq2seq, free: Sequence[Answer]
) -> tuple[Answer, ...]:
    """What a model answers under the grammar of the schema of each question.

    A free answer that is legal is what a greedy search under the grammar would find; only the
    others are searched again.
    """
    vocabulary = SubwordVocabulary.of(seq2seq.tokenizer, seq2seq.spelling)
    grammar = data.schema_grammars(form=SqlForm.NAMED)
    # Questions about the same database are decoded together.
    groups: dict[str, list[int]] = {}
    for number, answer in enumerate(free):
        groups.setdefault(database_of(answer.source), []).append(number)
    answers: dict[int, Answer] = {}
    for numbers in groups.values():
        legal = grammar(free[numbers[0]].source)
        system = LegalSeq2seq(seq2seq, legal, vocabulary)
        corrected = system.corrected(free[number] for number in numbers)
        answers.update(zip(numbers, corrected))
    return tuple(answers[number] for number in range(len(free)))


def kinds_answers(
    data: RecipeData, seq2seq: Seq2seq, free: Sequence[Answer]
) -> tuple[Answer, ...]:
    """What it answers under a target grammar in which entities, if there are any, stand only where
    their kinds may.
    """
    judge, grammar = data.judges.get("denotation"), data.target_grammar
    if grammar is None or not isinstance(judge, DenotationJudge):
        return legal_answers(data, seq2seq, free)
    vocabulary = SubwordVocabulary.of(seq2seq.tokenizer, seq2seq.spelling)
    # Examples whose entities are of the same kinds are decoded together.
    groups: dict[tuple[frozenset[EntityKind], ...], list[int]] = {}
    for number, example in enumerate(data.test):
        groups.setdefault(judge.kinds(example), []).append(number)
    answers: dict[int, Answer] = {}
    for kinds, numbers in groups.items():
        system = LegalSeq2seq(seq2seq, with_kinds(grammar, kinds), vocabulary)
        corrected = system.corrected(free[number] for number in numbers)
        answers.update(zip(numbers, corrected))
    return tuple(answers[number] for number in range(len(free)))


def with_kinds(
    grammar: TargetGrammar, kinds: Sequence[Collection[EntityKind]]
) -> TargetGrammar:
    """FunQL's grammar with each placeholder only where things that it may be stand; of no kinds,
    anywhere.
    """
    replaced = {PLACEHOLDER}
    new: list[Production] = []
    for kind in EntityKind:
        category = Category(kind.value)
        replaced.add(category)
        names = [
            f"m{at}"
            for at, possible in enumerate(kinds)
            if not possible or kind in possible
        ]
        # A category needs a production; one with a token that no target has is taken out again.
        new += [Production(category, (name,)) for name in names or [NOBODY]]
    old = (
        production
        for production in grammar.productions
        if production.left not in replaced
    )
    bound = TargetGrammar((*old, *new))
    return restricted(bound, bound.terminals - {NOBODY})


def fine_tuned(
    task: SystemTask,
    train: Sequence[Example],
    settings: FineTuningSettings,
    *,
    has_kinds: bool = False,
) -> RunResult:
    """What a model answers that was fine-tuned on `train`, freely and, where there is one, under a
    target grammar.

    One that `has_kinds` is also asked to respect the kinds of entities.
    """
    data, is_baseline = task.data, task.weights in BASELINES
    read = data.for_grammar if is_baseline else data.for_seq2seq
    with task.timed("training"):
        # The name of a baseline stands in the place of weights.
        reader = SecondReader(Seq2seqSettings.of(task.weights), settings)
        fine_tuning = train_seq2seq(reader, train, task.run)
    seq2seq = fine_tuning.seq2seq
    with task.timed("predicting"):
        answers = tuple(seq2seq.answers(sources_of(read(data.test))))
    others = {}
    if (data.target_grammar or data.schemas) and not is_baseline:
        with task.timed("predicting legal targets"):
            others[LEGAL] = data.as_read(legal_answers(data, seq2seq, answers))
    if has_kinds:
        with task.timed("predicting with kinds of entities"):
            others[WITH_KINDS] = data.as_read(kinds_answers(data, seq2seq, answers))
    with task.timed("predicting training examples"):
        # The share of training examples that come out right, of a sample where they are many.
        different = distinct_pairs(data.train)
        tried = random.Random(0).sample(different, min(TRIED, len(different)))
        tried_answers = data.as_read(seq2seq.answers(sources_of(read(tried))))
        predictions = [answer.target or "" for answer in tried_answers]
        accuracy = sum(map(data.judge.is_right, predictions, tried)) / len(tried)
    figures = {
        "train_examples": float(len(data.train)),
        "cut_sources": float(fine_tuning.truncation.sources),
        "train_accuracy": accuracy,
    }
    written = asdict(settings)
    if data.recipe.schema != SchemaSettings():
        written["schema"] = asdict(data.recipe.schema)
    return RunResult(data.as_read(answers), figures, written, task.seconds, others)


SystemRun = Callable[[SystemTask], RunResult]
RUNS: Mapping[SystemName, SystemRun] = {
    "nqg": run_nqg,
    "paper-induction": run_paper_induction,
    "typed": run_typed,
    "inferred": run_inferred,
    **dict.fromkeys(PUBLISHED, run_baseline),
    "seq2seq": run_seq2seq,
    "schemaless": run_schemaless,
    "geca": run_geca,
    "augmented": run_augmented,
    "taught": run_taught,
}


def error_figures(data: RecipeData, answers: Sequence[Answer]) -> dict[str, float]:
    """How many answers of a system without a grammar are wrong, and for what share of them each of
    `ERRORS` holds.
    """
    findings = breakdown(
        data.test, answers, train=data.train, judge=data.judge
    ).findings
    figures = {"errors": float(len(findings))}
    for cause in ERRORS:
        # An error may have several causes.
        holds = [cause in finding.causes for finding in findings]
        figures[f"error_{cause.name.lower()}"] = sum(holds) / max(len(holds), 1)
    return figures


def unseen_figures(data: RecipeData, answers: Sequence[Answer]) -> dict[str, float]:
    """Sections 6.1 and 6.2 of the paper: accuracy on the test examples with an atom that training
    lacks and on the others, and how long answers are beside the longest program of training.

    A share of no examples is left out. Lengths are in the tokens of programs.
    """
    atoms = language_of(data.train).decomposition.atoms
    known: set[str] = set()
    for example in data.train:
        known.update(atoms(example.target))
    right: dict[str, list[bool]] = {}
    for example, answer in zip(data.test, answers, strict=True):
        name = "seen" if known.issuperset(atoms(example.target)) else "unseen"
        target = answer.target
        is_right = target is not None and data.judge.is_right(target, example)
        right.setdefault(name, []).append(is_right)
    figures = {}
    for name, verdicts in right.items():
        figures[f"{name}_atoms_accuracy"] = sum(verdicts) / len(verdicts)
    trained = max(program_lengths(example.target for example in data.train))
    written = program_lengths(answer.target or "" for answer in answers)
    figures["longest_trained"] = float(trained)
    tested = program_lengths(example.target for example in data.test)
    figures["longest_tested"] = float(max(tested))
    figures["longest_answer"] = float(max(written))
    longer = 0
    for length in written:
        longer += length > trained
    figures["longer_answers"] = longer / len(written)
    return figures


def program_lengths(programs: Iterable[str]) -> list[int]:
    return [len(program_tokens(program)) for program in programs]


def training_settings(recipe: Recipe, weights: str, seed: int) -> TrainingSettings:
    """Those of the recipe, else the paper's: all steps, however little is left to learn."""
    settings = recipe.nqg.settings(
        TrainingSettings, weights, seed, f"[nqg] of {recipe.name}"
    )
    return replace(
        settings, batch_size=settings.batch_size or PAPERS_BATCH, learned=0.0
    )


def fine_tuning_settings(task: SystemTask, name: str) -> FineTuningSettings:
    """The settings that the recipe's table `name` has for a fine-tuning from the weights."""
    recipe = task.data.recipe
    plan: SystemPlan = getattr(recipe, name)
    rate = default_learning_rate(task.weights)
    return plan.settings(
        FineTuningSettings,
        task.weights,
        task.seed,
        f"[{name}] of {recipe.name}",
        asdict(replace(presets.FINE_TUNING, learning_rate=rate)),
    )


def write_answers(
    path: Path, examples: Sequence[Example], answers: Iterable[Answer]
) -> None:
    """Write answers as lines of JSON, each with its sentence and the right program."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = []
    for example, answer in zip(examples, answers):
        line = {
            "source": example.source,
            "reference": example.target,
            "target": answer.target,
            "by": answer.system,
            "probability": answer.probability,
            "reason": answer.reason,
        }
        lines.append(json.dumps(line, ensure_ascii=False) + "\n")
    write_text(path, "".join(lines))


def read_answers(path: Path, examples: Sequence[Example]) -> tuple[Answer, ...]:
    lines = list(numbered_lines(path))
    if len(lines) != len(examples):
        raise FormatError(f"expected {len(examples)} answers, found {len(lines)}", path)
    answers = []
    for (place, line), example in zip(lines, examples):
        # Answers to other sentences would be of an older test set.
        match strict_json(line, place):
            case {
                "source": example.source,
                "target": str() | None as target,
                "by": str(by),
                "probability": float() | None as chance,
                "reason": str(why),
            }:
                answers.append(Answer(example.source, target, chance, by, why))
            case _:
                raise FormatError(f"expected an answer to '{example.source}'", place)
    return tuple(answers)
