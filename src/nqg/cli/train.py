"""`nqg train`: from a file of examples to a model folder, with a fallback if wanted; a killed run can be continued.

FOLDER.training holds what a run needs to continue: the grammar, forests, and the states of both trainings. It is
removed when the model is complete.
"""

from __future__ import annotations

import json
import random
import shutil
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import typer

from nqg.answers import Answer, System
from nqg.cli.induce import choose_settings
from nqg.cli.induce import run as run_induction
from nqg.cli.settings import LIKE, SETTINGS, ProjectSettings, in_words, project_settings, setting_option
from nqg.cli.terminal import (
    DEVICE,
    EXAMPLES,
    JSON,
    STOPPED,
    checked_device,
    complain,
    detail,
    err,
    out,
    progress_bar,
    report_written,
    tracked,
)
from nqg.cli.types import legal_examples, target_grammar_named
from nqg.data.dataset import Split
from nqg.data.examples import Example, MappedExamples, Values, distinct_pairs, fit_text, read_examples, tokenized
from nqg.errors import FormatError, MissingExtra, NqgError, Place, SettingsError, UnknownName
from nqg.evaluation.calibration import (
    MOST_EXAMPLES,
    GateTrial,
    HeldOut,
    calibrated_gate,
    fitted_calibrator,
    fold_trials,
    folds,
    used_rules,
    with_confidence,
)
from nqg.evaluation.data_checks import SERIOUS, flaws
from nqg.evaluation.metrics import Scores, score
from nqg.files import read_json, write_text
from nqg.grammar.grammar import SLOT, Grammar, Rule
from nqg.grammar.slots import with_number_slots, with_slots, with_values
from nqg.grammar.target_grammar import TargetGrammar
from nqg.grammar.type_inference import infer_target_grammar
from nqg.grammar.types import Signatures
from nqg.induction.choice import BUDGET
from nqg.induction.settings import InductionSettings
from nqg.induction.trace import grammar_comments, induction_config
from nqg.inference.hybrid import write_fallback
from nqg.inference.parser import Parser
from nqg.model.checkpoint import (
    MOST_NON_TERMINALS,
    RECORDS,
    RULES,
    Measurement,
    Provenance,
    SavedModel,
    record_lines,
)
from nqg.model.forests import PART_SIZE, ForestCache, ForestFolder, Forests, build_folder, forest_parts, joined
from nqg.model.settings import ModelSettings, TrainingSettings
from nqg.model_folder import held
from nqg.plotting import check_picture
from nqg.run_config import DataFingerprint, RunConfig, sha256
from nqg.seq2seq.settings import BASELINES, EMBEDDED, AugmentationSettings, FineTuningSettings, Seq2seqSettings
from nqg.settings_reader import read_dataclass
from nqg.text.preprocessing import FILE as TEXT
from nqg.text.preprocessing import Preprocessor, TextSettings
from nqg.training.parser_training import ParserTraining, distinct
from nqg.training.processes import Processes
from nqg.training.records import write_plot
from nqg.training.resume import restore, saved_steps

if TYPE_CHECKING:
    from nqg.data.sql_programs import SqlPrograms
    from nqg.seq2seq.fine_tuning import FineTuning
    from nqg.seq2seq.seq2seq import Seq2seq

INFERRED, NONE = "inferred", "none"  # instead of the file of a target grammar
HELD_OUT = [kind.value for kind in HeldOut]
Brief = TypeVar("Brief", TrainingSettings, FineTuningSettings)
FEWEST_TO_COMPRESS = 10  # examples; fewer need not have anything in common
NOTHING_SHARED = (
    "warning: these examples share so little that there are no fewer rules: few new sentences will be answered. Give "
    "two or three sentences for each construction, with different words; make values such as numbers and names slots; "
    "read the rules. docs/your-data.md tells more"
)
LEAST_BATCH, LEARNED_LOSS = 32, 0.01  # of a fallback from scratch, unless the user says otherwise
SECONDS_AN_EXAMPLE = 0.1  # of trials that choose the settings of induction
FOLD_STEPS = 1.75  # of all folds together, for each step of the model's own training

file_option = partial(typer.Option, rich_help_panel="Files")
OUTPUT = file_option(..., "-o", "--output", metavar="FOLDER", help="Where to write the model.")
PLOT = file_option(None, "--plot", metavar="FILE", help="Draw loss and dev accuracy over the steps, .png or .svg.")

model_option = partial(typer.Option, None, rich_help_panel="Model")
SYSTEM = model_option(
    "--system",
    metavar="NAME",
    help=f"Train a system without a grammar instead, for comparison: {' or '.join(BASELINES)}.",
)
GRAMMAR = model_option(
    "--grammar", metavar="FILE", help="Rules from `nqg induce`.", show_default="induced from the examples"
)
BY_HAND = model_option(
    "--rules",
    metavar="FILE|none",
    help="Rules written by hand: the search begins with them, and all are kept.",
    show_default="those of the model that is replaced",
)
TARGET_GRAMMAR = model_option(
    "--target-grammar",
    metavar="FILE|funql|inferred|none",
    help="A grammar of the legal programs; others are never answers.",
    show_default="inferred from TRAIN; none with --forests",
)
DATABASE = model_option(
    "--database",
    metavar="FILE",
    help="Programs are SQL over this SQLite database: its schema says which are legal, and goes into the model.",
)
TYPED = model_option(
    "--typed/--untyped",
    metavar="",
    help="Derive legal programs only; the paper's parser derives all, and abstains where an illegal one is best.",
    show_default="typed",
)
KEEP_GOING = typer.Option(
    False, "--keep-going", metavar="", help="Leave out examples with illegal programs.", rich_help_panel="Model"
)
ENCODER = model_option(
    "--encoder",
    metavar="NAME|FOLDER",
    help="A pre-trained encoder from Hugging Face.",
    show_default="a small one, from scratch",
)

text_setting = partial(setting_option, TextSettings(), panel="Text, which becomes tokens in the way that suits TRAIN")
SENTENCES = text_setting("sentences", "auto|words|spaces", "Cut raw sentences into words, or at spaces alone.")
CASING = text_setting("casing", "auto|lower|keep", "Ignore or keep capital letters.")
PROGRAMS = text_setting("programs", "auto|code|spaces", "Cut programs like code, `on(lamp)`, or at spaces alone.")

training_setting = partial(setting_option, TrainingSettings())
optimisation = partial(training_setting, panel="Optimisation")
STEPS = optimisation("steps", "N", "Number of training steps.")
BATCH_SIZE = optimisation("batch_size", "N", "Examples per step.", show_default="a quarter of all, but 32 to 256")
LEARNED = optimisation("learned", "LOSS", "Stop early when the loss stays below this.")
LEARNING_RATE = optimisation(
    "learning_rate", "R", "Peak learning rate.", show_default="0.001 from scratch, 0.0001 with --encoder"
)
WARM_UP = optimisation("warm_up", "N", "Steps until the peak learning rate.")
WEIGHT_DECAY = optimisation("weight_decay", "R", "Weight decay of AdamW.")
CLIP = optimisation("clip", "NORM", "Clip gradients to this norm.")
SEED = optimisation("seed", "S", "Seed of initial weights, batches and dropout.")

DEV = typer.Option(
    None,
    "--dev",
    metavar="FILE",
    help="Evaluate on these examples while training, and keep the best weights.",
    rich_help_panel="Early stopping",
)
stopping = partial(training_setting, panel="Early stopping")
EVALUATE_EVERY = stopping("evaluate_every", "N", "Steps between two evaluations.")
PATIENCE = stopping("patience", "N", "Stop after this many evaluations without improvement.")

running_option = partial(typer.Option, rich_help_panel="Running")
PRECISION = training_setting(
    "precision", "auto|bf16|float32", "Precision of the encoder; auto is bf16 on GPUs.", panel="Running"
)
SAVE_EVERY = running_option(32, "--save-every", metavar="N", min=1, help="Steps that a kill can cost at most.")
NO_CACHE = running_option(False, "--no-cache", metavar="", help="Rebuild forests, and do not keep them for next time.")
FORESTS = running_option(
    None,
    "--forests",
    metavar="FOLDER",
    help="Keep forests in this folder and read them batch by batch, for corpora larger than memory.",
)
TENSORBOARD = running_option(None, "--tensorboard", metavar="FOLDER", help="Write TensorBoard curves to this folder.")

fallback_option = partial(typer.Option, rich_help_panel="Fallback, for sentences that the grammar does not answer")
SEQ2SEQ = fallback_option(
    None,
    "--seq2seq",
    metavar="NAME|FOLDER",
    help="Also train a fallback: an encoder-decoder from Hugging Face, or 'embedded', a small one from scratch.",
)
SEQ2SEQ_STEPS = fallback_option(
    None, "--seq2seq-steps", metavar="N", help="Its training steps.", show_default=str(FineTuningSettings().steps)
)
SEQ2SEQ_BATCH_SIZE = fallback_option(
    None,
    "--seq2seq-batch-size",
    metavar="N",
    help="Its examples per step.",
    show_default=f"{FineTuningSettings().batch_size}; from scratch a quarter of all, but 32 to 128",
)
AUGMENT = fallback_option(
    None,
    "--augment",
    metavar="N",
    min=1,
    help="Also teach it what the grammar knows: of N pairs drawn from it, the likelier half (20000 is a good number).",
    show_default="the examples alone",
)
GATE = fallback_option(
    False,
    "--gate",
    metavar="",
    help="Also use it where the grammar is unsure; the threshold is learned from held-out examples.",
)

confidence_option = partial(typer.Option, rich_help_panel="Confidence, learned from examples that are held out in turn")
FOLDS_OPTION = confidence_option(
    None,
    "--folds",
    metavar="K",
    min=0,
    help="Hold out a K-th each time, and train on the rest; 0: no confidence.",
    show_default="8; of fewer than 200 examples 5, of more than 2,000 4",
)
HOLD_OUT = confidence_option(
    "template", "--hold-out", metavar="KIND", help=f"What is held out together: {', '.join(HELD_OUT)}."
)


def train(
    context: typer.Context,
    data: Path = EXAMPLES,
    output: Path = OUTPUT,
    settings: Path | None = SETTINGS,
    plot: Path | None = PLOT,
    system: str | None = SYSTEM,
    grammar: Path | None = GRAMMAR,
    like: str | None = LIKE,
    sentences: str | None = SENTENCES,
    casing: str | None = CASING,
    programs: str | None = PROGRAMS,
    rules: str | None = BY_HAND,
    target_grammar: str | None = TARGET_GRAMMAR,
    database: Path | None = DATABASE,
    typed: bool | None = TYPED,
    keep_going: bool = KEEP_GOING,
    encoder: str | None = ENCODER,
    steps: int | None = STEPS,
    batch_size: int | None = BATCH_SIZE,
    learned: float | None = LEARNED,
    learning_rate: float | None = LEARNING_RATE,
    warm_up: int | None = WARM_UP,
    weight_decay: float | None = WEIGHT_DECAY,
    clip: float | None = CLIP,
    seed: int | None = SEED,
    dev: Path | None = DEV,
    evaluate_every: int | None = EVALUATE_EVERY,
    patience: int | None = PATIENCE,
    precision: str | None = PRECISION,
    save_every: int = SAVE_EVERY,
    no_cache: bool = NO_CACHE,
    forests: Path | None = FORESTS,
    tensorboard: Path | None = TENSORBOARD,
    device: str | None = DEVICE,
    seq2seq: str | None = SEQ2SEQ,
    seq2seq_steps: int | None = SEQ2SEQ_STEPS,
    seq2seq_batch_size: int | None = SEQ2SEQ_BATCH_SIZE,
    augment: int | None = AUGMENT,
    gate: bool = GATE,
    fold_count: int | None = FOLDS_OPTION,
    hold_out: str = HOLD_OUT,
    as_json: bool = JSON,
) -> None:
    """Train a parser: a grammar, and a model that ranks its derivations.

    Example: nqg train train.tsv -o models/mine --like scan --dev dev.tsv

    Little is lost to Ctrl-C or a kill: FOLDER.training keeps the state, and the
    same command resumes from there and ends with the same model. FOLDER itself is
    written, or replaced, only when the model is complete.
    """
    _check(context.params)
    chosen = project_settings(context.params)
    fallback = FallbackOptions.chosen(chosen, gate=gate)
    if system is not None and fallback:
        _train_baseline(context, chosen, fallback)
        return
    validation = CrossValidation.chosen(fold_count, hold_out, gate=gate)
    task = TrainingTask.read(context.params, chosen)
    run = TrainingRun.towards(output, task.device, save_every=save_every, use_cache=not no_cache, curves=tensorboard)
    context.with_resource(run.locked())
    try:
        training = run.trained(task := run.with_settings(task))
        pairs, known = task.as_typed(task.examples), training.model.grammar
        second = fallback.fine_tuned(pairs, task.device, run.folder, grammar=known).seq2seq if fallback else None
        trials = validation.trials(task, run, training, fallback) if validation else []
    except KeyboardInterrupt:
        complain(f"interrupted; run the same command again to continue with what is in {run.folder}")
        raise typer.Exit(STOPPED) from None
    if run.processes.is_main:
        calibrator = fitted_calibrator(Parser(training.model), task.examples, trials) if trials else None
        training.model = task.with_rules_by_hand(replace(training.model, calibrator=calibrator))
        write_more = fallback.writer(second, training.model, trials) if fallback and second else None
        _print_report(training, _save(training, task, output, dev, write_more), output, as_json)
        shutil.rmtree(run.folder)
        _draw(plot, training, output)
    run.processes.close()


def _check(given: Mapping[str, Any]) -> None:
    """Refuse what cannot be written or makes no sense, before hours are spent."""
    output: Path = given["output"]
    check_picture(given["plot"])
    if given["system"] is not None:
        _check_baseline(given)
    if not output.name:
        raise NqgError(f"{output}: expected a folder of the model's own, found the current one; choose another with -o")
    if output.exists() and not output.is_dir():
        raise NqgError(f"{output}: expected a folder to write the model to, found a file")
    if output.is_dir() and any(output.iterdir()) and not (output / "nqg.json").exists():
        raise NqgError(f"{output}: the folder is not empty and not a model folder; choose another with -o")


@dataclass(frozen=True, slots=True)
class TrainingTask:
    """What is to be learned and how; `rules` are a grammar, or settings to induce one with, or None: trials choose."""

    examples: Sequence[Example]  # tokenised by `text`
    dev: Sequence[Example]
    rules: Grammar | InductionSettings | None
    target_grammar: TargetGrammar | None
    model: ModelSettings
    training: TrainingSettings
    device: str | None
    forests: Path | None = None  # the folder to keep forests in, if memory is not to hold them
    by_hand: tuple[Rule, ...] = ()
    text: Preprocessor = Preprocessor()  # noqa: RUF009 (frozen)
    rule_types: TargetGrammar | None = None  # what a search for rules respects
    sql: SqlPrograms | None = None
    values: Values | None = None  # of slots

    @classmethod
    def read(cls, given: Mapping[str, Any], chosen: ProjectSettings) -> TrainingTask:
        """The task that the options ask for, with the files that they name."""
        for table, settings in chosen.tables():
            detail(f"[{table}] {in_words(settings)}")
        data, forests, grammar, dev = (given[name] for name in ("data", "forests", "grammar", "dev"))
        sql, induction = _sql(given) if given["database"] else None, chosen.induction
        if sql and induction is None:  # names of tables and columns are not values that sentences share
            induction = InductionSettings(identity_rules=False, repeated_targets=True)
        if sql and not chosen.slots and chosen.text.slots != "given":
            queries = zip(_read(data, sql), read_examples(data), strict=True)  # the former names what cannot be read
            pairs = [(example.source, example.target) for _, example in queries]
            chosen = replace(chosen, slots=sql.column_slots(given["database"], pairs))
        rules = Grammar.read(grammar, MOST_NON_TERMINALS) if grammar else induction
        if isinstance(rules, Grammar) and not any(str(rule.source[0]).startswith(SLOT) for rule in rules):
            chosen = replace(chosen, text=replace(chosen.text, slots="given"), slots={})  # its rules read no slots
        examples, text, values = _tokenized(data, chosen, sql, given["settings"], is_mapped=forests is not None)
        legal, named = None, given["target_grammar"] or (NONE if forests else INFERRED)
        if sql and given["target_grammar"] is None:
            numbers = [slot.name for slot in text.slots.slots if slot.kind == "number"]
            legal = with_number_slots(sql.target_grammar, numbers)
            examples = legal_examples(legal, examples, data, keep_going=given["keep_going"])
        elif named == INFERRED:
            programs = values.programs(examples) if values else [example.target_tokens for example in examples]
            legal = infer_target_grammar(programs)
            detail(f"the types of programs, inferred:\n{legal}")
        elif named != NONE:
            legal = target_grammar_named(named)
            examples = legal_examples(legal, examples, data, keep_going=given["keep_going"])
        return cls(
            examples,
            tokenized(_read(dev, sql), text) if dev else [],
            rules,
            legal,
            chosen.model,
            chosen.training,
            checked_device(given["device"]),
            forests,
            _rules_by_hand(given["rules"], given["output"], legal, text),
            text,
            legal if sql and chosen.model.typed else None,
            sql,
            values,
        )

    def searched(self) -> tuple[Sequence[Example], list[Rule], TargetGrammar | None]:
        """The examples that rules are searched in, the rules to begin with, and the types of their programs."""
        types = self.target_grammar if self.model.typed else None
        return self.values.searched(self.examples, types) if self.values else (self.examples, [], types)

    def as_typed(self, examples: Sequence[Example]) -> Sequence[Example]:
        """The examples for a model that copies: with slots, in the casing that somebody typed."""
        if self.values is None:
            return examples
        sources = self.values.as_typed(each.source for each in examples)
        return [replace(each, source=source) for each, source in zip(examples, sources, strict=True)]

    def with_rules_by_hand(self, model: SavedModel) -> SavedModel:
        """The trained model with its rules by hand, those that no example needs included."""
        if not self.by_hand:
            return model
        from nqg.inference.rules_by_hand import misfits

        found = model.with_rules_by_hand(self.by_hand)
        for rule, reason in misfits(found.grammar, self.target_grammar, self.by_hand).items():
            err.print(f"rule '{rule}' is kept, but cannot be used: {reason}")
        return found


def _sql(given: Mapping[str, Any]) -> SqlPrograms:
    """How queries over the database are written, as far as the examples show it."""
    from nqg.data.schema import read_database
    from nqg.data.sql_programs import SqlPrograms

    for name in ("forests", "seq2seq"):
        if given[name]:
            raise typer.BadParameter(f"cannot be combined with --database; omit --{name}", param_hint=f"--{name}")
    queries = [example.target for example in read_examples(given["data"])]
    sql = SqlPrograms.fit(read_database(given["database"]), queries)
    detail(f"[sql] {sql.schema}; columns are {sql.form.value}, {in_words(sql.aliases)}")
    return sql


def _read(path: Path, sql: SqlPrograms | None) -> list[Example]:
    """The examples in a file, queries in the form that a grammar learns from."""
    found = read_examples(path)
    if sql is None:
        return found
    for number, each in enumerate(found):
        try:
            found[number] = replace(each, target=" ".join(sql.tokenize(each.target)))
        except FormatError as error:
            raise error.at(Place(path, number + 1)) from None
    return found


def _tokenized(
    path: Path, chosen: ProjectSettings, sql: SqlPrograms | None, place: Path | None, *, is_mapped: bool
) -> tuple[Sequence[Example], Preprocessor, Values | None]:
    """The examples in a file, tokenised, how, and the values in them; what memory does not hold is taken as it is."""
    settings = replace(chosen.text, programs="spaces", slots="given") if sql else chosen.text
    if is_mapped:
        if not {settings.sentences, settings.programs} <= {"auto", "spaces"} or chosen.slots:
            raise NqgError(
                "with --forests, TRAIN must be tokenised already (with spaces between tokens), without slots"
            )
        return MappedExamples.of(path), Preprocessor(), None
    raw = _read(path, sql)
    text = fit_text(raw, settings, chosen.slots, place)
    detail(f"[text] {in_words(text.sentences)}, courtesy = {text.courtesy}, programs = {text.programs.scheme}")
    for slot in text.slots.slots:
        detail(f"[slots] {slot}")
    tokens = tokenized(raw, text)
    if not sql:
        found = [flaw for flaw in flaws(raw, tokens) if flaw.kind in SERIOUS]
        for flaw in {flaw.kind: flaw for flaw in reversed(found)}.values():  # the first of each kind
            err.print(f"warning: {path}:{flaw.line}: {flaw}; `nqg check {path}` shows all")
    return tokens, text, Values.of(raw, text)


def _rules_by_hand(
    named: str | None, output: Path, legal: TargetGrammar | None, text: Preprocessor
) -> tuple[Rule, ...]:
    """The rules by hand in a file or, if none is named, of the model that is replaced; illegal ones are refused."""
    path = output / RULES if named is None else Path(named)
    if named == NONE or (named is None and not path.exists()):
        return ()
    from nqg.inference.rules_by_hand import illegal_token, read_rules  # which most trainings do not need

    places = read_rules(path, text)
    if named is None:
        err.print(f"{path}: {len(places):,} rules by hand are kept; --rules none drops them")
    if legal is not None:
        finder = Signatures(legal)
        for rule, place in places.items():
            if not finder.fits(rule.target):
                raise FormatError(f"rule '{rule}': {illegal_token(rule, finder)}; see --target-grammar", place)
    return tuple(places)


@dataclass(frozen=True, slots=True)
class ChoiceRecord:
    """What trials have chosen, for examples and types that `config` tells."""

    config: str
    settings: InductionSettings


@dataclass(frozen=True, slots=True)
class TrainingRun:
    """Where a training keeps what it needs to continue, how often it is saved, and which processes take part."""

    folder: Path
    save_every: int
    cache: ForestCache | None
    curves: Path | None  # where TensorBoard's files go
    processes: Processes
    label: str = ""  # what the bars begin with

    @classmethod
    def towards(
        cls, output: Path, device: str | None, *, save_every: int, use_cache: bool, curves: Path | None
    ) -> TrainingRun:
        """The run that leads to a model at `output`; of several processes, only the main one prints."""
        if curves:
            summary_writer()  # better missing now than after an hour
        processes = Processes.launched(device)
        if not processes.is_main:
            err.quiet = out.quiet = True
        cache = ForestCache.of_this_machine() if use_cache else None
        return cls(output.with_name(f"{output.name}.training"), save_every, cache, curves, processes)

    def locked(self) -> AbstractContextManager[None]:
        """Keep other trainings of the same model away until the block ends."""
        return held(self.folder, wait=False) if self.processes.is_main else nullcontext()

    def with_settings(self, task: TrainingTask) -> TrainingTask:
        """The task with the settings to induce rules with; a continued run finds those that trials have chosen."""
        if task.rules is not None:
            return task
        if task.values is not None:
            return replace(task, rules=InductionSettings.for_slots())
        (examples, _, legal), path = task.searched(), self.folder / "induction.json"
        with self.processes.main_first():
            config = RunConfig.of("choice", examples, target_grammar=sha256(str(legal))).fingerprint
            known = read_dataclass(ChoiceRecord, read_json(path), "the choice", path) if path.exists() else None
            if known is None or known.config != config:
                seconds = min(BUDGET, SECONDS_AN_EXAMPLE * len(examples))
                known = ChoiceRecord(config, choose_settings(examples, {}, legal, seconds))
                self.folder.mkdir(parents=True, exist_ok=True)
                write_text(path, json.dumps(asdict(known)) + "\n")
        detail(f"[induction] {in_words(known.settings)}")
        return replace(task, rules=known.settings, rule_types=legal)

    def trained(self, task: TrainingTask) -> ParserTraining:
        """Train to the end, from the beginning or from the saved state."""
        self.folder.mkdir(parents=True, exist_ok=True)
        try:
            with self.processes.main_first():
                grammar = task.rules if isinstance(task.rules, Grammar) else self._induced(task)
                if task.values is not None:
                    grammar = replace(grammar, slots=task.values.mentions)
                grammar = grammar.typed_by(task.target_grammar if task.model.typed else None)
                forests = self._forests(grammar, distinct(task.examples), task.forests)
            training = Parser.training(
                grammar,
                task.examples,
                dev=task.dev,
                forests=forests,
                target_grammar=task.target_grammar,
                model=task.model,
                training=task.training,
                device=task.device,
                processes=self.processes,
            )
            self._train(training)
        finally:
            if self.processes.is_main and not any(self.folder.iterdir()):
                self.folder.rmdir()
        return training

    def _induced(self, task: TrainingTask) -> Grammar:
        """The grammar of the examples, which a continued run finds in the folder."""
        (examples, slot_rules, types), settings = task.searched(), task.rules
        assert isinstance(settings, InductionSettings), "a grammar needs no search"
        types = types if task.values else task.rule_types
        seeds = [rule for rule in task.by_hand if rule.arity <= settings.max_non_terminals] + slot_rules
        comments = grammar_comments(induction_config(examples, settings, seeds, types))
        path = self.folder / "grammar.txt"
        if path.exists() and path.read_text().startswith("\n".join(comments) + "\n"):
            grammar = Grammar.read(path, settings.max_non_terminals)
        else:
            found = run_induction(examples, settings, seeds, types)
            if not found.is_finished:
                raise KeyboardInterrupt("the search was stopped")
            found.write(path)
            grammar = found.grammar
            if not self.label:
                err.print(f"{len(grammar):,} rules induced from {len(examples):,} examples")
                if not task.values and len(grammar) >= len(distinct_pairs(examples)) >= FEWEST_TO_COMPRESS:
                    err.print(NOTHING_SHARED)
        return (
            Grammar.of(with_slots(grammar, task.text.slots.free_text), MOST_NON_TERMINALS) if task.values else grammar
        )

    def _forests(self, grammar: Grammar, examples: Sequence[Example], folder: Path | None) -> Forests | ForestFolder:
        """In memory, cached between runs; or in a folder, if wanted, or if processes would each have to hold all."""
        if folder or self.processes.count > 1:
            folder = folder or self.folder / "forests"
            with progress_bar() as progress:
                for done in build_folder(folder, grammar, examples):
                    progress("building forests", done, len(examples))
            return ForestFolder.open(folder)
        if self.cache and (found := self.cache.find(grammar, examples)):
            return found
        forests = joined(tracked(forest_parts(grammar, examples), "building forests", -(-len(examples) // PART_SIZE)))
        if self.cache:
            try:
                self.cache.add(grammar, examples, forests)
            except NqgError as error:
                err.print(f"{error}; continuing without it")
        return forests

    def _train(self, training: ParserTraining) -> None:
        """Make the steps that are left, under a bar with loss, dev accuracy and speed."""
        trainer, settings, state = training.trainer, training.settings, self.folder / "state.safetensors"
        if state.exists():
            restore(state, trainer)
            err.print(f"{state}: continuing after step {trainer.made:,}")
        first, started, dev = trainer.made, time.monotonic(), ""
        draws = self.curves and self.processes.is_main
        writer: Any = summary_writer()(self.curves, purge_step=first + 1) if draws else None
        with progress_bar() as progress, writer or nullcontext():
            for step in saved_steps(trainer, state, self.save_every):
                speed = (
                    (step.number - first) * settings.batch(len(training.data)) / max(time.monotonic() - started, 1e-9)
                )
                dev = f" · dev {step.dev.exact_match:.1%}" if step.dev else dev
                progress(
                    f"{self.label}training · loss {step.loss:.4f}{dev} · {speed:,.0f} examples/s",
                    step.number,
                    settings.steps,
                )
                for name, value in step.to_dict().items() if writer else ():
                    if name != "step" and value is not None:
                        writer.add_scalar(name.replace("dev_", "dev/"), value, step.number)


def summary_writer() -> Any:
    """TensorBoard's class of writers, if it is installed."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise MissingExtra("drawing curves with TensorBoard", "tensorboard") from error
    return SummaryWriter


@dataclass(frozen=True, slots=True)
class FallbackOptions:
    """The fallback that the user wants, perhaps with a gate."""

    settings: Seq2seqSettings
    training: FineTuningSettings
    has_gate: bool
    augmentation: AugmentationSettings | None = None
    fits_data: bool = False  # the user left it to the examples how large batches are, and when training ends

    @classmethod
    def chosen(cls, settings: ProjectSettings, *, gate: bool) -> FallbackOptions | None:
        if settings.seq2seq is None and gate:
            raise typer.BadParameter("a gate needs a fallback; name one with --seq2seq", param_hint="--gate")
        if settings.seq2seq is None and settings.augmentation:
            raise typer.BadParameter("samples teach a fallback; name one with --seq2seq", param_hint="--augment")
        if settings.seq2seq is None:
            return None
        training, defaults = settings.fine_tuning, FineTuningSettings()
        is_default = (training.batch_size, training.learned) == (defaults.batch_size, defaults.learned)
        fits_data = is_default and settings.seq2seq.model == EMBEDDED
        return cls(settings.seq2seq, training, gate, settings.augmentation, fits_data)

    def training_of(self, examples: int) -> FineTuningSettings:
        """The settings that suit so many examples: a small model on few of them needs small batches, and ends early."""
        if not self.fits_data:
            return self.training
        size = min(self.training.batch_size, max(examples // 4, LEAST_BATCH))
        return replace(self.training, batch_size=size, learned=LEARNED_LOSS)

    def fine_tuned(
        self,
        examples: Sequence[Example],
        device: str | None,
        folder: Path,
        label: str = "",
        dev: Sequence[Example] = (),
        grammar: Grammar | None = None,
    ) -> FineTuning:
        from nqg.seq2seq.fine_tuning import FineTuning  # which loads transformers

        folder.mkdir(parents=True, exist_ok=True)
        if self.augmentation and grammar:
            examples = self._taught(self.augmentation, examples, grammar, device, label)
        training = self.training_of(len(examples))
        fine_tuning = FineTuning(examples, self.settings, training, dev=dev, device=device)
        if fine_tuning.truncation.first is not None:
            err.print(str(fine_tuning.truncation))
        steps = fine_tuning.steps(folder / "seq2seq.safetensors")
        for _ in tracked(steps, f"{label}fine-tuning", training.steps):
            pass
        return fine_tuning

    def _taught(
        self,
        settings: AugmentationSettings,
        examples: Sequence[Example],
        grammar: Grammar,
        device: str | None,
        label: str,
    ) -> Sequence[Example]:
        """The examples among pairs that the grammar knows; rules that read slots have no words to teach."""
        from nqg.seq2seq.augmentation import Augmentation

        if grammar.slots is not None:
            fixed = (rule for rule in grammar if not any(str(each).startswith(SLOT) for each in rule.source))
            grammar = replace(grammar, rules=tuple(fixed), slots=None)
        augmentation = Augmentation(grammar, examples, settings, self.training.seed)
        steps = augmentation.steps(self.settings, self.training, device)
        for _ in tracked(steps, f"{label}reverse model", augmentation.steps_in_all(self.training)):
            pass
        if not label:
            err.print(f"the fallback also learns from {len(augmentation.added):,} pairs that the grammar knows")
        return augmentation.mixture

    def writer(self, seq2seq: Seq2seq, model: SavedModel, trials: Sequence[GateTrial]) -> Callable[[Path], None]:
        """What writes the fallback, and the gate that the trials lead to, into a model folder."""
        gate = None
        if self.has_gate:
            weights = model.calibrator and model.calibrator.weights
            gate = calibrated_gate(with_confidence(trials, weights) if weights else trials)
            err.print(f"{gate}; {gate.calibration}")
        return lambda folder: write_fallback(folder, seq2seq, gate)


OF_A_GRAMMAR = (
    *("grammar", "like", "rules", "target_grammar", "database", "typed", "keep_going", "encoder", "forests"),
    *("seq2seq", "seq2seq_steps", "seq2seq_batch_size", "augment", "gate", "fold_count", "tensorboard"),
)


def _check_baseline(given: Mapping[str, Any]) -> None:
    """Refuse a system that nobody knows, and options that it would pass over in silence."""
    if given["system"] not in BASELINES:
        raise UnknownName("system", given["system"], BASELINES)
    for name in OF_A_GRAMMAR:
        if given[name] not in (None, False):
            flag = "--folds" if name == "fold_count" else f"--{name.replace('_', '-')}"
            raise typer.BadParameter(
                f"is for models with a grammar; omit it with --system {given['system']}", param_hint=flag
            )


def _train_baseline(context: typer.Context, chosen: ProjectSettings, baseline: FallbackOptions) -> None:
    """Train a system without a grammar into a folder that `nqg parse` and `nqg evaluate` read like any other."""
    given, device = context.params, checked_device(context.params["device"])
    output, dev, plot = given["output"], given["dev"], given["plot"]
    examples, text, _ = _tokenized(given["data"], chosen, None, given["settings"], is_mapped=False)
    held_out = tokenized(read_examples(dev), text) if dev else []
    run = TrainingRun.towards(output, device, save_every=given["save_every"], use_cache=False, curves=None)
    context.with_resource(run.locked())
    try:
        tuning = baseline.fine_tuned(examples, device, run.folder, dev=held_out)
    except KeyboardInterrupt:
        complain(f"interrupted; run the same command again to continue with what is in {run.folder}")
        raise typer.Exit(STOPPED) from None
    records, best, seq2seq = tuning.trainer.records, tuning.trainer.best, tuning.seq2seq
    if run.processes.is_main:

        def write_more(folder: Path) -> None:
            text.write(folder / TEXT)
            write_text(folder / RECORDS, record_lines(step.to_dict() for step in records))

        seq2seq.save(output, write_more)
        shutil.rmtree(run.folder)
        values = {
            "system": given["system"],
            "examples": len(examples),
            "steps": len(records),
            "loss": records[-1].loss,
            "best_step": best.step if best else None,
            "dev": {"accuracy": best.scores.exact_match} if best else None,
            "folder": str(output),
        }
        if given["as_json"]:
            out.print_json(data=values)
        else:
            out.print("{system}: {examples:,} examples, {steps:,} steps, loss {loss:.4f} in the last".format(**values))
            if best:
                out.print(f"dev examples, best after step {best.step:,}: {best.scores.exact_match:.1%} right")
        if plot:
            write_plot(plot, records)
        report_written(output, *filter(None, [plot]))
    run.processes.close()


@dataclass(frozen=True, slots=True)
class TypedSystem:
    """A system that is asked for tokenised sentences in the casing that somebody typed."""

    system: System
    values: Values

    def answers(self, sentences: Iterable[str]) -> Iterable[Answer]:
        return self.system.answers(self.values.as_typed(sentences))


@dataclass(frozen=True, slots=True)
class FoldRecord:
    """What came of one fold, and the fingerprint of what it began with."""

    config: str
    trials: tuple[GateTrial, ...]


@dataclass(frozen=True, slots=True)
class CrossValidation:
    """How confidence is learned: for each fold a parser, and for a gate a fallback too, is trained without it."""

    folds: int | None  # None: as many as suit the number of examples
    kind: HeldOut

    @classmethod
    def chosen(cls, count: int | None, kind: str, *, gate: bool) -> CrossValidation | None:
        if kind not in HELD_OUT:
            raise typer.BadParameter(f"'{kind}' is none of {', '.join(HELD_OUT)}", param_hint="--hold-out")
        if count == 1 or (gate and count == 0):
            expected = "2 or more" if gate else "2 or more, or 0 for no confidence"
            raise typer.BadParameter(f"expected {expected}, found {count}", param_hint="--folds")
        return None if count == 0 else cls(count, HeldOut(kind))

    def trials(
        self, task: TrainingTask, run: TrainingRun, trained: ParserTraining, fallback: FallbackOptions | None
    ) -> list[GateTrial]:
        """What parts that were trained without a fold say of it, fold by fold; those done are in the run's folder."""
        seed, best = task.training.seed, trained.trainer.best
        chosen = sorted(random.Random(seed).sample(range(len(task.examples)), min(len(task.examples), MOST_EXAMPLES)))
        examples = [task.examples[number] for number in chosen]
        training = replace(task.training, steps=best.step if best else task.training.steps)
        task = replace(task, examples=examples, dev=(), forests=None, training=training)
        config = RunConfig.of(
            "folds",
            examples,
            task.model,
            task.training,
            rules=sha256(str(task.rules)),
            by_hand=sha256(str(task.by_hand)),
            target_grammar=sha256(str(task.target_grammar)),
            folds=str(self),
            fallback=str(fallback),
        ).fingerprint
        try:
            splits = folds(examples, self.kind, self.folds, seed=seed)
        except SettingsError as error:  # of examples too few, or too much alike
            if fallback and fallback.has_gate:
                raise
            err.print(f"no confidence can be learned: {error}")
            return []
        found: list[GateTrial] = []
        for number, split in enumerate(splits, start=1):
            label, folder = f"fold {number} of {len(splits)} · ", run.folder / f"fold-{number}"
            record = folder.with_suffix(".json")
            known = read_dataclass(FoldRecord, read_json(record), "the fold", record) if record.exists() else None
            if known is None or known.config != config:
                apart = replace(run, folder=folder, cache=None, curves=None, label=label)
                share = min(1.0, FOLD_STEPS / len(splits))
                known = FoldRecord(config, tuple(self._tried(task, apart, split, fallback, share)))
                if run.processes.is_main:
                    write_text(record, json.dumps(asdict(known)) + "\n")
                    shutil.rmtree(folder, ignore_errors=True)
            found += known.trials
        return found

    def _tried(
        self, task: TrainingTask, run: TrainingRun, split: Split, fallback: FallbackOptions | None, share: float
    ) -> list[GateTrial]:
        """What comes of one fold, with a `share` of the steps."""

        def shorter(settings: Brief) -> Brief:
            steps, warm_up = (round(share * each) for each in (settings.steps, settings.warm_up))
            return replace(settings, steps=max(1, steps), warm_up=warm_up)

        grammars: list[Grammar] = []  # that of the fold's parser, which teaches its fallback

        def parser(examples: Sequence[Example]) -> System:
            if isinstance(task.rules, Grammar):
                rules: Grammar | InductionSettings = used_rules(task.rules, examples)
            else:  # a simpler search will do: rules that are a little worse make confidence no higher
                rules = replace(task.rules or InductionSettings.automatic(), returning=False)
            brief = replace(task, examples=examples, rules=rules, training=shorter(task.training))
            trained = run.trained(brief).model
            grammars.append(trained.grammar)
            return Parser(trained)

        def second(examples: Sequence[Example]) -> System:
            from nqg.seq2seq.legal_decoding import LegalSeq2seq

            assert fallback is not None, "asked for by a gate"
            brief = replace(fallback, training=shorter(fallback.training))
            learned = task.as_typed(examples)
            seq2seq = brief.fine_tuned(learned, task.device, run.folder, run.label, grammar=grammars[-1]).seq2seq
            legal = task.target_grammar and with_values(task.target_grammar, task.text.slots.quotes)
            system: System = LegalSeq2seq(seq2seq, legal) if legal else seq2seq
            return TypedSystem(system, task.values) if task.values else system

        return fold_trials(task.examples, split, parser, second if fallback and fallback.has_gate else None)


def _save(
    training: ParserTraining,
    task: TrainingTask,
    output: Path,
    dev: Path | None,
    write_more: Callable[[Path], None] | None,
) -> Scores | None:
    """Write the model folder, with the records of all steps and the scores on the dev examples, if there are any."""
    parser, scores = Parser(training.model), None  # of tokens; the model that is saved takes raw text
    provenance = Provenance.of(task.examples, training.settings, (step.to_dict() for step in training.trainer.records))
    if dev:
        answers = parser.answers(example.source for example in task.dev)
        scores = score([answer.target for answer in answers], [example.target for example in task.dev])
        shares = {"accuracy": scores.accuracy, "coverage": scores.coverage, "precision": scores.precision}
        provenance = replace(provenance, measurements=(Measurement(DataFingerprint.of(task.dev, dev.name), shares),))
    model = replace(training.model, text=task.text, sql=task.sql)
    if task.values is not None:
        model = replace(model, grammar=replace(model.grammar, slots=task.text.slots))
    Parser(model).save(output, provenance=provenance, also=write_more)
    return scores


def _draw(plot: Path | None, training: ParserTraining, output: Path) -> None:
    if plot:
        write_plot(plot, training.trainer.records)
    report_written(output, *filter(None, [plot]))


def _print_report(training: ParserTraining, scores: Scores | None, output: Path, as_json: bool) -> None:
    records, best, calibrator = training.trainer.records, training.trainer.best, training.model.calibrator
    values: dict[str, Any] = {
        "rules": len(training.model.grammar),
        "examples": len(training.data),
        "steps": len(records),
        "loss": records[-1].loss,
        "best_step": best.step if best else None,
        "dev": scores.to_dict() if scores else None,
        "held_out": {"answers": calibrator.trials, "right": calibrator.right} if calibrator else None,
        "folder": str(output),
    }
    if as_json:
        out.print_json(data=values)
        return
    out.print("{examples:,} examples, {rules:,} rules, {steps:,} steps, loss {loss:.4f} in the last".format(**values))
    if scores:
        out.print(f"{scores.examples:,} dev examples, best after step {values['best_step']:,}: {scores}")
    if calibrator:
        out.print(str(calibrator))
