"""A training of `nqg train`: what is to be learned, read from the files that options name, and its run to the end.

FOLDER.training holds what a run needs to continue: the grammar, forests, and the states of both trainings.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import typer

from nqg.cli.induce import choose_settings
from nqg.cli.induce import run as run_induction
from nqg.cli.settings import ProjectSettings, in_words
from nqg.cli.terminal import checked_device, detail, err, interruptible, out, progress_bar, report_written, tracked
from nqg.cli.types import legal_examples, target_grammar_named
from nqg.data.examples import (
    Example,
    MappedExamples,
    Values,
    distinct_pairs,
    fit_text,
    read_examples,
    required_examples,
    tokenized,
)
from nqg.errors import FormatError, MissingExtra, NqgError, Place, counted
from nqg.evaluation.data_checks import SERIOUS, flaws
from nqg.files import read_json, write_text
from nqg.grammar.grammar import SLOT, Grammar, Rule
from nqg.grammar.slots import with_number_slots, with_numbers, with_slots
from nqg.grammar.target_grammar import TargetGrammar
from nqg.grammar.type_inference import infer_target_grammar
from nqg.grammar.types import Signatures
from nqg.induction.choice import BUDGET
from nqg.induction.corpus import underivable
from nqg.induction.settings import InductionSettings
from nqg.induction.trace import grammar_comments, induction_config
from nqg.inference.parser import Parser
from nqg.model.checkpoint import MOST_NON_TERMINALS, RULES, SavedModel, load_model
from nqg.model.forests import PART_SIZE, ForestCache, ForestFolder, Forests, build_folder, forest_parts, joined
from nqg.model.settings import EMBEDDED, ModelSettings, TrainingSettings
from nqg.model_folder import held
from nqg.run_config import RunConfig, sha256
from nqg.settings_reader import read_dataclass
from nqg.text.preprocessing import Preprocessor
from nqg.training.parser_training import ParserTraining, distinct
from nqg.training.processes import Processes
from nqg.training.records import TrainingStep, write_plot
from nqg.training.resume import restore, saved_steps

if TYPE_CHECKING:
    from nqg.data.sql_programs import SqlPrograms

INFERRED, NONE = "inferred", "none"  # instead of the file of a target grammar
FEWEST_TO_COMPRESS = 10  # examples; fewer need not have anything in common
NOTHING_SHARED = (
    "warning: these examples share so little that there are no fewer rules: few new sentences will be answered. Give "
    "two or three sentences for each construction, with different words; make values such as numbers and names slots; "
    "read the rules. docs/your-data.md tells more"
)
TEXT_WARM_UP = 100  # steps; where any words may be free text, a model that learns fast is sure too soon
FEW = 1000  # examples, of which one thread learns as fast as several
TEXT_OPTIONS = ("sentences", "casing", "programs", "today")
SAVE_EVERY = 32  # steps of a parser, unless the user says otherwise
EVALUATIONS_AN_EXAMPLE = 100  # in trials that choose the settings of induction


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
    seeds: tuple[Rule, ...] = ()  # rules of an earlier model, with which a search begins

    @classmethod
    def read(cls, given: Mapping[str, Any], chosen: ProjectSettings, earlier: SavedModel | None = None) -> TrainingTask:
        """The task that the options ask for, with the files that they name, and what an `earlier` model has."""
        for table, settings in chosen.tables():
            detail(f"[{table}] {in_words(settings)}")
        data, forests, grammar, dev = (given[name] for name in ("data", "forests", "grammar", "dev"))
        sql, induction = _sql(given) if given["database"] else None, chosen.induction
        sql = earlier.sql if earlier and sql is None else sql
        if sql and induction is None:  # names of tables and columns are not values that sentences share
            induction = InductionSettings(identity_rules=False, repeated_targets=True, data_weight=0.25)
        rules = Grammar.read(grammar, MOST_NON_TERMINALS) if grammar else induction
        if isinstance(rules, Grammar) and not any(str(rule.source[0]).startswith(SLOT) for rule in rules):
            chosen = replace(chosen, text=replace(chosen.text, slots="given"), slots={})  # its rules read no slots
        is_kept = earlier is not None and not any(given[name] for name in ("settings", "database", *TEXT_OPTIONS))
        examples, text, values = tokenized_data(given, chosen, sql, earlier.text if earlier and is_kept else None)
        is_untyped = forests or (earlier and is_kept and earlier.target_grammar is None)
        if earlier:
            check_fits(earlier, examples, values, str(given["earlier"]))
        legal, named = None, given["target_grammar"] or (NONE if is_untyped else INFERRED)
        if sql and given["target_grammar"] is None:
            numbers = [slot.name for slot in text.slots.slots if slot.kind == "number"]
            legal = with_number_slots(sql.target_grammar, numbers)
            examples = legal_examples(legal, examples, data, keep_going=given["keep_going"])
        elif named == INFERRED:
            programs = values.programs(examples) if values else [example.target_tokens for example in examples]
            legal = earlier.target_grammar if earlier and is_kept else None
            if legal is None or not all(map(legal.accepts, programs)):
                legal = infer_target_grammar(programs)
                detail(f"the types of programs, inferred:\n{legal}")
        elif named != NONE:
            legal = target_grammar_named(named)
            examples = legal_examples(legal, examples, data, keep_going=given["keep_going"])
        by_hand, legal = _rules_by_hand(given["rules"], given["earlier"] or given["output"], legal, text)
        training = chosen.training
        if text.slots.free_text and training.warm_up is None:
            training = replace(training, warm_up=TEXT_WARM_UP)
        return cls(
            examples,
            tokenized(_read(dev, sql), text) if dev else [],
            rules,
            legal,
            chosen.model,
            training,
            checked_device(given["device"]),
            forests,
            by_hand,
            text,
            legal if (sql or earlier) and chosen.model.typed else None,
            sql,
            values,
            tuple(filter(has_words, earlier.trained_rules)) if earlier else (),
        )

    def searched(self) -> tuple[Sequence[Example], list[Rule], TargetGrammar | None]:
        """The examples that rules are searched in, the rules to begin with, and the types of their programs."""
        types = self.target_grammar if self.model.typed else None
        if self.values is None:
            return self.examples, list(self.seeds), types
        examples, rules, types = self.values.searched(self.examples, types)
        return examples, rules + list(with_numbers(self.seeds, (each.source_tokens for each in examples))), types

    @contextmanager
    def threads(self) -> Iterator[None]:
        """As many threads as PyTorch takes, but one for a small model: more would wait for each other."""
        before = torch.get_num_threads()
        if self.model.encoder == EMBEDDED and len(self.examples) < FEW:
            torch.set_num_threads(1)
        try:
            yield
        finally:
            torch.set_num_threads(before)

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


def continued(settings: InductionSettings, rules: Sequence[Rule]) -> InductionSettings:
    """The settings for a search that goes on from `rules`, which may have more non-terminals and know the frame."""
    bound = max([settings.max_non_terminals, *(rule.arity for rule in rules)])
    return settings.changed(max_non_terminals=bound, frame=False, shortest=None)


def has_words(rule: Rule) -> bool:
    """Whether both sides have terminals; other rules join anything, so that whatever is new is read in odd parts."""
    return all(any(isinstance(symbol, str) for symbol in side) for side in (rule.source, rule.target))


def earlier_model(given: Mapping[str, Any]) -> SavedModel | None:
    """The model that `--from` names, which must be one of a part of the training examples."""
    folder: Path | None = given["earlier"]
    if folder is None:
        return None
    for name in ("grammar", "like", "forests"):
        if given[name]:
            raise typer.BadParameter(f"cannot be combined with --from; omit --{name}", param_hint=f"--{name}")
    model = load_model(folder, "cpu")
    before, now = model.provenance.data, len(read_examples(given["data"]))
    if before and before.examples > now:
        found = f"{folder} was trained on {counted(before.examples, 'example')}, {given['data']} has {now:,}"
        err.print(f"warning: {found}; what only the others show is forgotten")
    return model


def check_fits(model: SavedModel, examples: Sequence[Example], values: Values | None, named: str) -> None:
    """Refuse a model whose rules derive nothing of the examples: it is one of other data."""
    marked, rules = values.mark(examples) if values else examples, model.trained_rules
    known = with_numbers(rules, (each.source_tokens for each in marked)) if values else rules
    derived = len(marked) - len(underivable(Grammar.of(known, MOST_NON_TERMINALS), marked))
    found = f"{named}: its rules derive {derived:,} of {counted(len(examples), 'example')}"
    if not derived:
        raise NqgError(f"{found}; --from expects a model of some of these, train without it")
    err.print(found)


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
    found = required_examples(path)
    if sql is None:
        return found
    for number, each in enumerate(found):
        try:
            found[number] = replace(each, target=" ".join(sql.tokenize(each.target)))
        except FormatError as error:
            raise error.at(Place(path, number + 1)) from None
    return found


def tokenized_data(
    given: Mapping[str, Any], chosen: ProjectSettings, sql: SqlPrograms | None = None, text: Preprocessor | None = None
) -> tuple[Sequence[Example], Preprocessor, Values | None]:
    """The training examples, tokenised, how, and the values in them; what memory does not hold is taken as it is.

    Unless `text` says how they are tokenised, it is fitted to them.
    """
    path, settings, slots = given["data"], chosen.text, chosen.slots
    if given["forests"]:
        if not {settings.sentences, settings.programs} <= {"auto", "spaces"} or slots:
            raise NqgError(
                "with --forests, TRAIN must be tokenised already (with spaces between tokens), without slots"
            )
        return MappedExamples.of(path), Preprocessor(), None
    raw = _read(path, sql)
    if sql and text is None:
        if not slots and settings.slots != "given":
            slots = sql.column_slots(given["database"], [(each.source, each.target) for each in read_examples(path)])
        settings = replace(settings, programs="spaces", slots="given")
    text = text or fit_text(raw, settings, slots, given["settings"])
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
    named: str | None, model: Path, legal: TargetGrammar | None, text: Preprocessor
) -> tuple[tuple[Rule, ...], TargetGrammar | None]:
    """The rules by hand in a file or, if none is named, of a model that is replaced or gone on from.

    Illegal ones are refused. Values that they write down where programs have slots are legal from now on.
    """
    path = model / RULES if named is None else Path(named)
    if named == NONE or (named is None and not path.exists()):
        return (), legal
    from nqg.inference.rules_by_hand import illegal_token, legal_with, read_rules  # which most trainings do not need

    places = read_rules(path, text)
    if named is None:
        err.print(f"{path}: {len(places):,} rules by hand are kept; --rules none drops them")
    legal = legal_with(places, legal, text.slots)
    if legal is not None:
        finder = Signatures(legal)
        for rule, place in places.items():
            if not finder.fits(rule.target):
                raise FormatError(f"rule '{rule}': {illegal_token(rule, finder)}; see --target-grammar", place)
    return tuple(places), legal


@dataclass(frozen=True, slots=True)
class ChoiceRecord:
    """What trials have chosen, for examples and types that `config` tells."""

    config: str
    settings: InductionSettings


@dataclass(frozen=True, slots=True)
class TrainingRun:
    """Where a training keeps what it needs to continue, how often it is saved, and which processes take part."""

    folder: Path
    save_every: int | None  # steps; None: as suits what is trained
    cache: ForestCache | None
    curves: Path | None  # where TensorBoard's files go
    processes: Processes
    label: str = ""  # what the bars begin with

    @classmethod
    def towards(
        cls, output: Path, device: str | None, *, save_every: int | None, use_cache: bool, curves: Path | None
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

    def continued_later(self) -> AbstractContextManager[None]:
        return interruptible(f"run the same command again to continue with what is in {self.folder}")

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
                settings, _ = choose_settings(examples, {}, legal, min(BUDGET, EVALUATIONS_AN_EXAMPLE * len(examples)))
                known = ChoiceRecord(config, settings)
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
        (examples, first_rules, types), settings = task.searched(), task.rules
        assert isinstance(settings, InductionSettings), "a grammar needs no search"
        types = types if task.values else task.rule_types
        if task.seeds:
            settings = continued(settings, first_rules)
        seeds = [rule for rule in task.by_hand if rule.arity <= settings.max_non_terminals] + first_rules
        comments = grammar_comments(induction_config(examples, settings, seeds, types))
        path = self.folder / "grammar.txt"
        if path.exists() and path.read_text(encoding="utf-8").startswith("\n".join(comments) + "\n"):
            grammar = Grammar.read(path, settings.max_non_terminals)
        else:
            found = run_induction(examples, settings, seeds, types)
            if not found.is_finished:
                raise KeyboardInterrupt("the search was stopped")
            found.write(path)
            grammar = found.grammar
            if not self.label:
                err.print(f"{counted(len(grammar), 'rule')} induced from {counted(len(examples), 'example')}")
                if not task.values and len(grammar) >= len(distinct_pairs(examples)) >= FEWEST_TO_COMPRESS:
                    err.print(NOTHING_SHARED)
        if task.values:
            return Grammar.of(with_slots(grammar, task.text.slots.free_text), MOST_NON_TERMINALS)
        return grammar

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
        first, started, dev, size = trainer.made, time.monotonic(), "", settings.batch(len(training.data))
        draws = self.curves and self.processes.is_main
        writer: Any = summary_writer()(self.curves, purge_step=first + 1) if draws else None
        with progress_bar() as progress, writer or nullcontext():
            for step in saved_steps(trainer, state, self.save_every or SAVE_EVERY):
                speed = (step.number - first) * size / max(time.monotonic() - started, 1e-9)
                dev = f" · dev {step.dev.exact_match:.1%}" if step.dev else dev
                what = f"{self.label}training · loss {step.loss:.4f}{dev} · {speed:,.0f} examples/s"
                progress(what, step.number, settings.steps)
                for name, value in step.to_dict().items() if writer else ():
                    if name != "step" and value is not None:
                        writer.add_scalar(name.replace("dev_", "dev/"), value, step.number)


def draw(plot: Path | None, records: Sequence[TrainingStep], output: Path) -> None:
    """Draw the steps, if wanted, and name what was written."""
    if plot:
        write_plot(plot, records)
    report_written(output, *filter(None, [plot]))


def summary_writer() -> Any:
    """TensorBoard's class of writers, if it is installed."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise MissingExtra("drawing curves with TensorBoard", "tensorboard") from error
    return SummaryWriter
