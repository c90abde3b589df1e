"""A recipe's data as each system reads it, and what a system makes of it: trained, tried on the test part, timed."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from nqg.answers import GRAMMAR, ILLEGAL, Answer
from nqg.data.dataset import Dataset, Split, read_split
from nqg.data.example import Example, distinct_pairs
from nqg.data.example_files import required_examples
from nqg.errors import FormatError, NqgError
from nqg.evaluation.calibration import held_out
from nqg.evaluation.error_analysis import Cause, breakdown
from nqg.evaluation.evaluation import Judge, judge_named
from nqg.extensions import load_extension
from nqg.files import numbered_lines, strict_json, write_text
from nqg.grammar.grammar import Grammar
from nqg.induction.tuning import chosen_settings
from nqg.inference.decoding import DecodeOptions
from nqg.inference.parser import Parser
from nqg.model.settings import ModelSettings, TrainingSettings
from nqg.paper import presets
from nqg.paper.baselines import BASELINES
from nqg.paper.datasets import CATALOGUE, load_dataset, load_spider_schemas
from nqg.paper.funql import EntityKind, funql_target_grammar
from nqg.paper.geca import recombined
from nqg.paper.judges import DenotationJudge
from nqg.paper.recipe import PUBLISHED, Recipe, SystemName, SystemPlan
from nqg.paper.spider import database_of, nqg_examples, with_schemas
from nqg.pipeline.events import Event, WorkDone
from nqg.pipeline.grammar import learn_grammar
from nqg.pipeline.parser import fitting_threads, train_parser
from nqg.pipeline.run import Run
from nqg.pipeline.second_reader import SecondReader, teach, train_seq2seq
from nqg.pipeline.settings import RunSettings
from nqg.pipeline.task import ParserTask
from nqg.preprocessing.preprocessor import TextSettings
from nqg.preprocessing.training_text import fit_text, tokenized
from nqg.progress import Progress, silent
from nqg.seq2seq.augmentation import Augmentation, mixed
from nqg.seq2seq.legal_decoding import LegalSeq2seq, SubwordVocabulary, restricted
from nqg.seq2seq.seq2seq import Seq2seq
from nqg.seq2seq.settings import AugmentationSettings, FineTuningSettings, Seq2seqSettings
from nqg.splits.audit import audit
from nqg.splits.partition import Sizes, random_split
from nqg.sql.schema import Schema
from nqg.sql.target_grammar import SqlConstants, SqlForm, sql_target_grammar
from nqg.sql.tokens import sql_text, sql_tokens
from nqg.types.inference import infer_target_grammar
from nqg.types.target_grammar import Category, Production, TargetGrammar

BEST_LEGAL = "best_legal"  # where the paper's NQG abstains because its best derivation is illegal, this one looks on
LEGAL = "legal"  # what a fallback answers when it is decoded under the target grammar
WITH_KINDS = "kinds"  # when entities, too, stand only where things of their kinds may
PLACEHOLDER, NOBODY = Category("placeholder"), "nobody"
ERRORS = (
    Cause.UNSEEN_TRIGRAM,
    Cause.RARE_ATOM,
    Cause.UNSEEN_ATOM,
    Cause.LONGER_TARGET,
)  # the paper's, section 6.2
TRIED = 2000  # training examples that training accuracy is computed from
PAPERS_BATCH = 256
CANDIDATES = 8  # of T5, among which SQL is looked for that fits its database


@dataclass(frozen=True)
class RecipeData:
    """The examples of a recipe as they are published; Spider's have schemas beside them."""

    recipe: Recipe
    train: tuple[Example, ...]
    test: tuple[Example, ...]
    split_figures: Mapping[str, float]
    judges: Mapping[str, Judge]  # the first is the recipe's
    schemas: Mapping[str, Schema] = field(default_factory=dict)
    reads_schemas: bool = True  # the fallback, with each question

    @classmethod
    def load(
        cls, recipe: Recipe, mirror: Path | str | None = None, progress: Progress = silent
    ) -> RecipeData:
        examples, split = divided_examples(recipe, mirror, progress)
        if recipe.held_out:
            examples = distinct_pairs(split.parts(examples).train)
            split = held_out(examples, recipe.held_out)
        parts, figures = split.parts(examples), dict[str, float]()
        if recipe.dataset != "scan":  # whose programs have no compounds but their tokens
            audited = audit(examples, split)
            figures = {
                "unseen_atoms": audited.unseen_atom_share,
                "divergence": audited.compound_divergence,
            }
        metrics = [recipe.metric, *(["denotation"] if recipe.dataset == "geoquery" else [])]
        judges = {
            name: judge_named(name, None if mirror is None else Path(mirror), progress)
            for name in metrics
        }
        schemas = (
            load_spider_schemas(mirror, progress) if recipe.dataset.startswith("spider") else {}
        )
        return cls(recipe, tuple(parts.train), tuple(parts.test), figures, judges, schemas)

    @property
    def fingerprint(self) -> str:
        return Dataset(self.recipe.name, (*self.train, *self.test)).fingerprint

    def for_grammar(self, examples: Iterable[Example]) -> list[Example]:
        """Examples as the grammar reads them: SQL and questions about it cut into tokens."""
        named = self.recipe.names_aliases
        return nqg_examples(examples, names_aliases=named) if self.schemas else list(examples)

    def for_seq2seq(self, examples: Sequence[Example]) -> list[Example]:
        """Examples as T5 reads them: questions about a database with its whole schema, which the model may cut."""
        return (
            with_schemas(examples, self.schemas)
            if self.schemas and self.reads_schemas
            else list(examples)
        )

    def among(self, made: Sequence[Example], real_share: float) -> list[Example]:
        """Training examples among made ones, which come in the grammar's form, all as T5 reads them."""
        if self.schemas:
            written = (
                load_extension("nqg.sql.names:numbered_aliases")
                if self.recipe.names_aliases
                else str
            )
            made = [replace(pair, target=sql_text(written(pair.target).split())) for pair in made]
        return mixed(self.for_seq2seq(self.train), self.for_seq2seq(made), real_share)

    def is_fitting(self) -> Callable[[Example], bool]:
        """What tells whether the program of a made pair is legal."""
        is_legal, written = self.legality(), self.target_grammar
        return lambda pair: (
            is_legal(pair, pair.target) and (not written or written.accepts(pair.target_tokens))
        )

    @cached_property
    def target_grammar(self) -> TargetGrammar | None:
        """What every legal program follows, where one grammar can say it: that of FunQL, or the recipe's own."""
        if self.recipe.target_grammar is not None:
            return TargetGrammar.read(self.recipe.target_grammar)
        return funql_target_grammar() if self.recipe.dataset == "geoquery" else None

    def legality(self) -> Callable[[Example, str], bool]:
        """What tells whether the grammar's program for an example is legal: SQL must fit its database.

        Where aliases are called after their tables, columns must also be of the tables of their query.
        """
        if not self.schemas:
            return lambda example, target: True
        constants, named = (
            SqlConstants.of(example.target for example in self.train),
            self.recipe.names_aliases,
        )
        sql_problem = load_extension("nqg.sql.names:sql_problem")

        @cache
        def grammar(database: str) -> TargetGrammar:
            form = SqlForm.NAMED if named else SqlForm.PUBLISHED
            return TargetGrammar.parse(sql_target_grammar(self.schemas[database], constants, form))

        def is_legal(example: Example, target: str) -> bool:
            database = database_of(example.source)
            is_accepted = grammar(database).accepts(target.split())
            return is_accepted and not (named and sql_problem(target, self.schemas[database]))

        return is_legal

    def schema_check(self) -> Callable[[Answer], bool]:
        """What tells whether SQL as T5 writes it fits the database of its question, whatever its constants are.

        It must follow the grammar of the schema, and its columns must be of the tables of their query.
        """
        if not self.schemas:
            return lambda answer: True
        sql_problem = load_extension("nqg.sql.names:sql_problem")

        @cache
        def grammar(database: str) -> TargetGrammar:
            return TargetGrammar.parse(sql_target_grammar(self.schemas[database]))

        def is_fitting(answer: Answer) -> bool:
            database, query = database_of(answer.source), answer.target or ""
            try:
                is_accepted = grammar(database).accepts(sql_tokens(query))
            except FormatError:  # a string that is never closed
                return False
            return is_accepted and not sql_problem(query, self.schemas[database])

        return is_fitting


def divided_examples(
    recipe: Recipe, mirror: Path | str | None, progress: Progress
) -> tuple[Sequence[Example], Split]:
    """The examples of a recipe's dataset, which is known by name or a file, and how they are divided."""
    if recipe.dataset not in CATALOGUE and Path(recipe.dataset).is_file():
        return _divided_files(Path(recipe.dataset), Path(recipe.split))
    dataset = load_dataset(recipe.dataset, mirror, progress)
    if recipe.random_train_size is None:
        return dataset.examples, dataset.positions(recipe.split)
    sizes = Sizes(recipe.random_train_size, len(dataset.examples) - recipe.random_train_size)
    return dataset.examples, random_split(dataset.examples, sizes, random.Random(0))


def _divided_files(data: Path, split_file: Path) -> tuple[Sequence[Example], Split]:
    """Examples of files, as tokens; the split is one of `nqg split`, or a file of the test examples."""
    examples = required_examples(data)
    if split_file.suffix == ".json":
        split = read_split(split_file, len(examples))
    else:
        train_size = len(examples)
        examples = [*examples, *required_examples(split_file)]
        split = Split(train=tuple(range(train_size)), test=tuple(range(train_size, len(examples))))
    text = fit_text(split.parts(examples).train, TextSettings(slots="given"))
    return tokenized(examples, text), split


@dataclass(frozen=True, slots=True)
class RunContext:
    """Where a run keeps what it has not finished, the device that it uses, and whom it tells how far it is."""

    folder: Path
    device: str | None = None
    progress: Progress = silent

    def pipeline_run(self) -> Run:
        """This run as the stages of `nqg.train` know it."""

        def listen(event: Event) -> None:
            if isinstance(event, WorkDone):
                self.progress(event.what, event.done, event.total)

        return Run(RunSettings(), self.folder, self.device, listener=listen)


@dataclass(frozen=True, slots=True)
class RunResult:
    answers: tuple[Answer, ...]
    figures: Mapping[str, float]
    settings: Mapping[str, Any]
    seconds: Mapping[str, float]
    others: Mapping[str, tuple[Answer, ...]] = field(
        default_factory=dict
    )  # of other ways to answer, by their names


@contextmanager
def timed(seconds: dict[str, float], name: str) -> Iterator[None]:
    begun = time.perf_counter()
    try:
        yield
    finally:
        seconds[name] = round(time.perf_counter() - begun, 3)


def run_nqg(data: RecipeData, weights: str, seed: int, context: RunContext) -> RunResult:
    """The paper's parser: untyped, it abstains where its best derivation is illegal."""
    return run_parser(data, weights, seed, context, data.target_grammar, typed=False)


def run_typed(data: RecipeData, weights: str, seed: int, context: RunContext) -> RunResult:
    if data.target_grammar is None:
        raise NqgError(
            f"{data.recipe.name}: there is no written target grammar of its programs; try --systems inferred"
        )
    return run_parser(data, weights, seed, context, data.target_grammar, typed=True)


def run_inferred(data: RecipeData, weights: str, seed: int, context: RunContext) -> RunResult:
    inferred = infer_target_grammar(
        example.target_tokens for example in data.for_grammar(data.train)
    )
    result = run_parser(data, weights, seed, context, inferred, typed=True)
    accepted = sum(
        inferred.accepts(example.target_tokens) for example in data.for_grammar(data.test)
    )
    figures = {"types": float(len(inferred.categories)), "accepted": accepted / len(data.test)}
    return replace(result, figures={**result.figures, **figures})


def run_parser(
    data: RecipeData,
    weights: str,
    seed: int,
    context: RunContext,
    target_grammar: TargetGrammar | None,
    *,
    typed: bool,
) -> RunResult:
    """The stages of `nqg.train` for a parser, with the recipe's settings, and its answers to the test examples."""
    seconds: dict[str, float] = {}
    recipe, settings = data.recipe, training_settings(data.recipe, weights, seed)
    train, test = data.for_grammar(data.train), data.for_grammar(data.test)
    run = context.pipeline_run()
    with timed(seconds, "induction"):
        task = replace(
            grammar_task(recipe, train, target_grammar if typed else None),
            model=ModelSettings(encoder=weights, typed=typed),
            training=settings,
            target_grammar=target_grammar,
        )
        grammar, _ = learn_grammar(task, run)
    with timed(seconds, "training"), fitting_threads(task):
        training = train_parser(task, grammar, run)
    parser, others = Parser(training.model), {}
    with timed(seconds, "parsing"):
        answers = nqg_answers(data, parser, test, DecodeOptions(exact=True))
    if target_grammar and not typed:
        others[BEST_LEGAL] = nqg_answers(data, parser, test, DecodeOptions(typed=True, exact=True))
    figures = {"rules": float(len(grammar)), "train_examples": float(len(data.train))}
    return RunResult(
        answers, figures, asdict(settings) | {"induction": dict(recipe.induction)}, seconds, others
    )


def grammar_task(
    recipe: Recipe, train: Sequence[Example], types: TargetGrammar | None
) -> ParserTask:
    """The search for a grammar, with the settings for the paper's datasets or those that trials choose.

    The paper's search knows no types.
    """
    if recipe.dataset in presets.INDUCTION and not recipe.trials:
        settings, types = presets.INDUCTION[recipe.dataset], None
    else:
        settings = chosen_settings(train, types)
    rules = settings.changed(**recipe.induction)
    return ParserTask(train, (), rules, ModelSettings(), TrainingSettings(), rule_types=types)


def induced(recipe: Recipe, train: Sequence[Example], types: TargetGrammar | None) -> Grammar:
    grammar, _ = learn_grammar(grammar_task(recipe, train, types), Run())
    return grammar


def nqg_answers(
    data: RecipeData, parser: Parser, test: list[Example], options: DecodeOptions
) -> tuple[Answer, ...]:
    """The parser's answers; SQL that does not fit its database is an abstention."""
    answers, is_legal = (
        parser.with_options(options).answers(example.source for example in test),
        data.legality(),
    )
    found: list[Answer] = []
    for answer, example in zip(answers, test, strict=True):
        if answer.target is not None and not is_legal(example, answer.target):
            answer = Answer(answer.source, system=GRAMMAR, reason=ILLEGAL)
        if answer.target is not None and data.recipe.names_aliases:
            answer = replace(
                answer, target=load_extension("nqg.sql.names:numbered_aliases")(answer.target)
            )
        found.append(answer)
    return tuple(found)


def run_seq2seq(data: RecipeData, weights: str, seed: int, context: RunContext) -> RunResult:
    settings = fine_tuning_settings(data.recipe, weights, seed, "seq2seq")
    return fine_tuned(data, data.for_seq2seq(data.train), weights, settings, context, {})


def run_schemaless(data: RecipeData, weights: str, seed: int, context: RunContext) -> RunResult:
    """The fallback that reads no schemas: "T5 − schema" in the paper."""
    return run_seq2seq(replace(data, reads_schemas=False), weights, seed, context)


def run_baseline(data: RecipeData, weights: str, seed: int, context: RunContext) -> RunResult:
    """A system that others have published, whose name stands for its weights."""
    settings = replace(BASELINES[weights].training, seed=seed)
    return fine_tuned(data, data.for_grammar(data.train), weights, settings, context, {})


def run_geca(data: RecipeData, weights: str, seed: int, context: RunContext) -> RunResult:
    """The fallback with recombined examples in the place of samples (`nqg.paper.geca`)."""
    seconds: dict[str, float] = {}
    train, recipe = data.for_grammar(data.train), data.recipe
    with timed(seconds, "recombining"):
        pairs = recombined(train, recipe.augmentation.samples, data.is_fitting(), seed)
    settings = fine_tuning_settings(recipe, weights, seed, "geca")
    mixture = data.among(pairs, recipe.augmentation.real_share)
    found = fine_tuned(data, mixture, weights, settings, context, seconds)
    return replace(found, figures={**found.figures, **sample_figures(data, pairs)})


def run_augmented(data: RecipeData, weights: str, seed: int, context: RunContext) -> RunResult:
    """The fallback, taught by the grammar; a grammar of legal targets, written or inferred, types its samples."""
    settings, seconds = (
        fine_tuning_settings(data.recipe, weights, seed, "augmented"),
        dict[str, float](),
    )
    augmentation = drawn_samples(data, data.recipe.augmentation, seed, seconds)
    with timed(seconds, "filtering"):
        teach(
            augmentation,
            SecondReader(Seq2seqSettings(model=weights), settings),
            context.pipeline_run(),
        )
    mixture = data.among(augmentation.added, augmentation.settings.real_share)
    found = fine_tuned(data, mixture, weights, settings, context, seconds)
    figures = {**found.figures, **sample_figures(data, augmentation.samples)}
    return replace(
        found, figures=figures, settings={**found.settings, **asdict(augmentation.settings)}
    )


def drawn_samples(
    data: RecipeData,
    settings: AugmentationSettings,
    seed: int,
    seconds: dict[str, float],
    **more: Any,
) -> Augmentation:
    recipe, train = data.recipe, data.for_grammar(data.train)
    with timed(seconds, "induction and sampling"):
        target_grammar = data.target_grammar or infer_target_grammar(
            example.target_tokens for example in train
        )
        grammar = induced(recipe, train, target_grammar)
        found = Augmentation(grammar.typed_by(target_grammar), train, settings, seed, **more)
        found.samples = list(filter(data.is_fitting(), found.samples))
        return found


def sample_figures(data: RecipeData, samples: Sequence[Example]) -> dict[str, float]:
    """How many samples there are, and which shares of test pairs and of test programs are among them."""
    pairs, test = (
        {(sample.source, sample.target) for sample in samples},
        data.for_grammar(data.test),
    )
    programs, count = {sample.target for sample in samples}, len(test)
    return {
        "samples": float(len(pairs)),
        "sampled_pairs": sum((each.source, each.target) in pairs for each in test) / count,
        "sampled_programs": sum(each.target in programs for each in test) / count,
    }


def run_taught(data: RecipeData, weights: str, seed: int, context: RunContext) -> RunResult:
    """The fallback with samples, filter, round trips; it answers under the target grammar, with kinds of entities.

    What it answers after fewer rounds, freely, or without kinds is there as well.
    """
    settings, seconds = (
        fine_tuning_settings(data.recipe, weights, seed, "taught"),
        dict[str, float](),
    )
    earlier: dict[str, tuple[Answer, ...]] = {}

    def after_round(number: int, forward: Seq2seq) -> None:
        free = tuple(forward.answers(example.source for example in data.for_seq2seq(data.test)))
        earlier[f"round_{number}"] = kinds_answers(data, forward, free)

    judge = data.judges.get("denotation")
    sense = {"is_sensible": judge.is_sensible} if isinstance(judge, DenotationJudge) else {}
    augmentation = drawn_samples(
        data, data.recipe.teaching, seed, seconds, after_round=after_round, **sense
    )
    with timed(seconds, "filtering and round trips"):
        teach(
            augmentation,
            SecondReader(Seq2seqSettings(model=weights), settings),
            context.pipeline_run(),
        )
    mixture = data.among(augmentation.added, augmentation.settings.real_share)
    found = fine_tuned(data, mixture, weights, settings, context, seconds, has_kinds=True)
    figures = {**found.figures, **sample_figures(data, augmentation.added)}
    figures["round_trips"] = len(augmentation.round_trips)
    others = {**found.others, "free": found.answers, **earlier}
    best, chosen = others.pop(WITH_KINDS), asdict(augmentation.settings)
    return replace(
        found, answers=best, others=others, figures=figures, settings={**found.settings, **chosen}
    )


def legal_answers(data: RecipeData, seq2seq: Seq2seq, free: Sequence[Answer]) -> tuple[Answer, ...]:
    """What a model answers under the target grammar or, where questions are about databases, under their schemas.

    T5 writes SQL as text, not in tokens that a schema's grammar could mask. So where it does not fit, the likeliest of
    some candidates that does is taken; if none does, the free answer stands.
    """
    if data.target_grammar:
        return tuple(LegalSeq2seq(seq2seq, data.target_grammar).corrected(free))
    is_fitting = data.schema_check()
    unfit = {answer.source: answer for answer in free if not is_fitting(answer)}
    candidates = zip(unfit.values(), seq2seq.candidates(list(unfit), CANDIDATES), strict=True)
    corrected = {
        answer.source: next(filter(is_fitting, found), answer) for answer, found in candidates
    }
    return tuple(corrected.get(answer.source, answer) for answer in free)


def kinds_answers(data: RecipeData, seq2seq: Seq2seq, free: Sequence[Answer]) -> tuple[Answer, ...]:
    """What it answers under a target grammar in which entities, if there are any, have the places of their kinds."""
    judge, grammar = data.judges.get("denotation"), data.target_grammar
    if grammar is None or not isinstance(judge, DenotationJudge):
        return legal_answers(data, seq2seq, free)
    kinds = [judge.kinds(example) for example in data.test]
    vocabulary = SubwordVocabulary.of(seq2seq.tokenizer, seq2seq.spelling)
    found: dict[int, Answer] = {}
    for same in dict.fromkeys(kinds):
        numbers = [number for number, each in enumerate(kinds) if each == same]
        system = LegalSeq2seq(seq2seq, with_kinds(grammar, same), vocabulary)
        found.update(
            zip(numbers, system.corrected(free[number] for number in numbers), strict=True)
        )
    return tuple(found[number] for number in range(len(kinds)))


def with_kinds(grammar: TargetGrammar, kinds: Sequence[Collection[EntityKind]]) -> TargetGrammar:
    """FunQL's grammar with each placeholder only in the place of things that it may be; of no kinds, anywhere."""
    entities = {Category(kind.value): kind for kind in EntityKind}
    names = {
        category: [f"m{number}" for number, own in enumerate(kinds) if not own or kind in own]
        or [NOBODY]
        for category, kind in entities.items()
    }
    kept = [production for production in grammar.productions if production.left not in entities]
    kept = [production for production in kept if production.left != PLACEHOLDER]
    new = [Production(category, (name,)) for category, own in names.items() for name in own]
    bound = TargetGrammar((*kept, *new))
    return restricted(bound, bound.terminals - {NOBODY})


def fine_tuned(
    data: RecipeData,
    train: Sequence[Example],
    weights: str,
    settings: FineTuningSettings,
    context: RunContext,
    seconds: dict[str, float],
    *,
    has_kinds: bool = False,
) -> RunResult:
    """What a model answers that was fine-tuned on `train`, freely and, where there is one, under a target grammar.

    One that `has_kinds` is also asked to respect the kinds of entities.
    """
    is_baseline = weights in BASELINES
    read = data.for_grammar if is_baseline else data.for_seq2seq
    test = read(data.test)
    with timed(seconds, "training"):
        fine_tuning = train_seq2seq(
            SecondReader(Seq2seqSettings.of(weights), settings), train, context.pipeline_run()
        )
    seq2seq, others = fine_tuning.seq2seq, dict[str, tuple[Answer, ...]]()
    with timed(seconds, "predicting"):
        answers = tuple(seq2seq.answers(example.source for example in test))
    if (data.target_grammar or data.schemas) and not is_baseline:
        with timed(seconds, "predicting legal targets"):
            others[LEGAL] = legal_answers(data, seq2seq, answers)
    if has_kinds:
        with timed(seconds, "predicting with kinds of entities"):
            others[WITH_KINDS] = kinds_answers(data, seq2seq, answers)
    with timed(seconds, "predicting training examples"):
        known = train_accuracy(data, seq2seq, read)
    cut = float(fine_tuning.truncation.sources)
    figures = {
        "train_examples": float(len(data.train)),
        "cut_sources": cut,
        "train_accuracy": known,
    }
    return RunResult(answers, figures, asdict(settings), seconds, others)


SystemRun = Callable[[RecipeData, str, int, RunContext], RunResult]
RUNS: Mapping[SystemName, SystemRun] = {
    "nqg": run_nqg,
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
    """How many answers of a system without a grammar are wrong, and for what share of them each of `ERRORS` holds."""
    found = breakdown(
        data.test, answers, train=data.train, judge=next(iter(data.judges.values()))
    ).findings
    shares = {
        cause: sum(cause in each.traits for each in found) / max(len(found), 1) for cause in ERRORS
    }
    return {"errors": float(len(found))} | {
        f"error_{cause.name.lower()}": shares[cause] for cause in ERRORS
    }


def train_accuracy(
    data: RecipeData, seq2seq: Seq2seq, read: Callable[[Sequence[Example]], Sequence[Example]]
) -> float:
    """The share of training examples that come out right, of a sample where they are many."""
    different = distinct_pairs(data.train)
    tried = random.Random(0).sample(different, min(TRIED, len(different)))
    predictions = seq2seq.predict([example.source for example in read(tried)])
    judge = next(iter(data.judges.values()))
    pairs = zip(predictions, tried, strict=True)
    return sum(judge.is_right(target, example) for target, example in pairs) / len(tried)


def training_settings(recipe: Recipe, weights: str, seed: int) -> TrainingSettings:
    """Those of the recipe, else the paper's: all steps, however little is left to learn."""
    found = recipe.nqg.settings(TrainingSettings, weights, seed, f"[nqg] of {recipe.name}")
    return replace(found, batch_size=found.batch_size or PAPERS_BATCH, learned=0.0)


def fine_tuning_settings(
    recipe: Recipe, weights: str, seed: int, system: SystemName
) -> FineTuningSettings:
    name = {"geca": "augmented", "schemaless": "seq2seq"}.get(system, system)
    plan: SystemPlan = getattr(recipe, name)
    return plan.settings(FineTuningSettings, weights, seed, f"[{name}] of {recipe.name}")


def write_answers(path: Path, examples: Sequence[Example], answers: Iterable[Answer]) -> None:
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
        for example, answer in zip(examples, answers, strict=True)
    )
    write_text(path, "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines))


def read_answers(path: Path, examples: Sequence[Example]) -> tuple[Answer, ...]:
    lines = [(place, strict_json(line, place)) for place, line in numbered_lines(path)]
    if len(lines) != len(examples):
        raise FormatError(f"expected {len(examples)} answers, found {len(lines)}", path)
    answers = []
    for (place, line), example in zip(lines, examples, strict=True):
        match line:
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
