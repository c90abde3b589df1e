"""What a parser is learned from: the text stage, and the `ParserTask` of the stages behind it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from nqg.data.example import Example
from nqg.errors import FormatError, NqgError, counted
from nqg.evaluation.data_checks import SERIOUS, flaws
from nqg.extensions import load_extension
from nqg.grammar.grammar import SLOT, Grammar, Rule
from nqg.induction.corpus import underivable
from nqg.induction.settings import InductionSettings
from nqg.inference.rules_by_hand import illegal_token, read_rules
from nqg.model.checkpoint import MOST_NON_TERMINALS, SavedModel
from nqg.model.settings import ModelSettings, TrainingSettings
from nqg.pipeline.run import Run
from nqg.pipeline.settings import AUTOMATIC, INFERRED, NONE, TrainSettings, in_words
from nqg.pipeline.sources import NamedExamples
from nqg.preprocessing.preprocessor import Preprocessor, TextSettings
from nqg.preprocessing.training_text import TrainingText, fit_training_text, tokenized
from nqg.slots.delexicalize import index_placeholders
from nqg.slots.target_grammars import encoded_grammar, legal_with
from nqg.types.target_grammar import TargetGrammar
from nqg.types.tools import Tool
from nqg.types.tree_automaton import Signatures

if TYPE_CHECKING:
    from nqg.preprocessing.program_language import ProgramLanguage

# Steps of warm-up where any words may be free text: a model that learns fast is sure too soon.
# benchmarks/constants.py varies it.
FREE_TEXT_WARM_UP = 100
# Names of tables and columns are not values that sentences share.
SQL_INDUCTION = InductionSettings(
    identity_rules=False, repeated_targets=True, data_weight=0.25, budget=1.0
)


@dataclass(frozen=True)
class TrainingInput:
    """What a user gives to a training besides its settings."""

    train: NamedExamples
    dev: NamedExamples | None = None
    grammar: Grammar | None = None
    manual_rules: Path | None = None
    database: str | None = None
    tools: tuple[Tool, ...] = ()
    target_grammar: TargetGrammar | None = None
    earlier: SavedModel | None = None
    earlier_folder: Path | None = None


@dataclass(frozen=True)
class PreparedText:
    """What the text stage found: how text is tokenised, and the examples so read.

    `is_kept` says that the text is that of the model that training goes on from.
    """

    training: TrainingText
    dev: Sequence[Example]
    language: ProgramLanguage | None
    is_kept: bool

    @property
    def examples(self) -> Sequence[Example]:
        return self.training.examples

    @property
    def preprocessor(self) -> Preprocessor:
        return self.training.text

    @property
    def values(self) -> TrainingText | None:
        """The examples with the values of slots, if there are slots."""
        return self.training if self.training.has_slots else None


@dataclass(frozen=True)
class ParserTask:
    """What a parser is learned from.

    `rules` are a grammar, or settings to find one with, or None: trials choose these. `rule_types`
    are what a search with given settings respects, and `earlier_rules` those of the model that
    training goes on from.
    """

    examples: Sequence[Example]
    dev: Sequence[Example]
    rules: Grammar | InductionSettings | None
    model: ModelSettings
    training: TrainingSettings
    text: Preprocessor = Preprocessor()  # noqa: RUF009 (frozen)
    values: TrainingText | None = None
    target_grammar: TargetGrammar | None = None
    rule_types: TargetGrammar | None = None
    manual_rules: tuple[Rule, ...] = ()
    earlier_rules: tuple[Rule, ...] = ()
    language: ProgramLanguage | None = None
    tools: tuple[Tool, ...] = ()

    def searched(self) -> tuple[Sequence[Example], list[Rule], TargetGrammar | None]:
        """The examples that rules are searched in, the rules to begin with, and their types."""
        types = self.target_grammar if self.model.typed else None
        if not self.values:
            return self.examples, list(self.earlier_rules), types
        examples, rules, types = self.values.searched(self.examples, types)
        sources = (example.source_tokens for example in examples)
        return (
            examples,
            [*rules, *index_placeholders(self.earlier_rules, sources)],
            types,
        )


def read_text(inputs: TrainingInput, settings: TrainSettings, run: Run) -> PreparedText:
    """The text stage: how raw text becomes tokens and values, fitted to the training examples."""
    earlier, train, database = inputs.earlier, inputs.train, inputs.database
    text_settings, slots = settings.text, settings.slots
    if inputs.grammar is not None and not reads_slots(inputs.grammar):
        text_settings, slots = replace(text_settings, slots="given"), {}
    has_other_tools = earlier is not None and inputs.tools != earlier.tools
    is_changed = text_settings != TextSettings() or database is not None
    is_changed |= bool(slots) or has_other_tools

    # Read the queries over a database.
    language = earlier.language if earlier else None
    if database:
        language = _fitted_language(database, train, run)
    examples = _tokenized_programs(train, language)

    # Fit the text, unless that of an earlier model is kept.
    if earlier and not is_changed:
        text = TrainingText.of(examples, earlier.text)
    else:
        if language:
            if database and not slots and text_settings.slots != "given":
                pairs = [(example.source, example.target) for example in train.examples]
                slots, left_out = language.column_slots(database, pairs, run.progress)
                for reason in left_out:
                    run.warn(f"left out: {reason}")
            text_settings = replace(text_settings, programs="spaces", slots="given")
        if earlier and earlier.text.programs.calls is None:
            # The rules of the earlier model write JSON.
            text_settings = replace(text_settings, calls="none")
        fit = partial(
            fit_training_text,
            examples,
            slots=slots,
            place=settings.file,
            tools=inputs.tools,
        )
        text = fit(text_settings)
        if not _suits_calls(inputs, text):
            run.note("programs stay JSON: what is given cannot be written as calls")
            text = fit(replace(text_settings, calls="none"))
        # Rules and types that are given are those of whole programs.
        is_given = inputs.grammar is not None or inputs.tools or language
        has_types = settings.types.target_grammar in (AUTOMATIC, INFERRED, NONE)
        is_free = has_types and not is_given
        if text_settings.positions == "auto" and is_free:
            text = text.with_positions()
        if text_settings.traces == "auto" and is_free:
            text = text.with_traces()

    # Tell what was found.
    preprocessor = text.text
    schemes = (
        f"courtesy = {preprocessor.courtesy}, programs = {preprocessor.programs.scheme}"
    )
    run.detail(f"[text] {in_words(preprocessor.sentences)}, {schemes}")
    if preprocessor.sequence:
        run.detail(f"[text] sequence = {preprocessor.sequence}")
    if preprocessor.programs.traces:
        run.detail(f"[text] {preprocessor.programs.traces}")
    if preprocessor.programs.positions:
        run.detail("[text] variables are positions of words")
    if preprocessor.programs.calls:
        run.detail(f"[text] JSON is learned as calls: {preprocessor.programs.calls}")
    for slot in preprocessor.slots.slots:
        run.detail(f"[slots] {slot}")
    if not language:
        _warn_of_flaws(train, text.examples, run)
    dev: Sequence[Example] = ()
    if inputs.dev:
        dev = tokenized(_tokenized_programs(inputs.dev, language), preprocessor)
    return PreparedText(text, dev, language, is_kept=bool(earlier and not is_changed))


def _suits_calls(inputs: TrainingInput, text: TrainingText) -> bool:
    """Whether rules and types that are given are those of the calls that JSON is learned as."""
    calls, given = text.text.programs.calls, inputs.target_grammar
    if calls is None:
        return True
    if inputs.grammar is not None:
        # Keywords and keys of objects tell calls and JSON apart.
        marks = Counter(chain.from_iterable(rule.target for rule in inputs.grammar))
        if marks[":"] > marks["="]:
            return False
    if given is None:
        return True
    programs = {pair.program for pair in text.pairs}
    programs.update(text.programs(text.examples))
    encoded = encoded_grammar(given, text.text.programs)
    return all(
        encoded.accepts(program) or not given.accepts(calls.decode(program))
        for program in programs
    )


def reads_slots(grammar: Grammar) -> bool:
    """Whether a grammar has rules that read the values of slots."""
    return any(str(rule.source[0]).startswith(SLOT) for rule in grammar)


def _warn_of_flaws(train: NamedExamples, examples: Sequence[Example], run: Run) -> None:
    """Tell the first of each kind of flaw that teaches something wrong."""
    reported: set[str] = set()
    for flaw in flaws(train.examples, examples):
        if flaw.kind in SERIOUS and flaw.kind not in reported:
            reported.add(flaw.kind)
            advice = f"`nqg check-data {train.path}` shows all"
            run.warn(f"{train.place(flaw.line - 1)}: {flaw}; {advice}")


def _fitted_language(database: str, train: NamedExamples, run: Run) -> ProgramLanguage:
    """How queries over the database are written, as far as the examples show it."""
    reader = load_extension("nqg.sql.reader:DatabaseReader")(database)
    schema = reader.schema
    for reason in reader.contents.left_out:
        run.warn(f"left out: {reason}")
    queries = [example.target for example in train.examples]
    language: ProgramLanguage = load_extension("nqg.sql.programs:SqlPrograms").fit(
        schema, queries
    )
    run.detail(f"[sql] {language}")
    return language


def _tokenized_programs(
    source: NamedExamples, language: ProgramLanguage | None
) -> tuple[Example, ...]:
    """The examples with their queries in the form that a grammar learns from."""
    if not language:
        return source.examples
    examples = []
    for number, example in enumerate(source.examples):
        try:
            tokens = language.tokenize(example.target)
        except FormatError as error:
            raise error.at(source.place(number)) from None
        examples.append(replace(example, target=" ".join(tokens)))
    return tuple(examples)


def parser_task(
    inputs: TrainingInput,
    text: PreparedText,
    legal: TargetGrammar | None,
    examples: Sequence[Example],
    settings: TrainSettings,
    run: Run,
) -> ParserTask:
    """All that grammar and parser need, given the legal programs and the examples that have such."""
    assert settings.model is not None, "a task is that of a parser"
    earlier, language = inputs.earlier, text.language
    earlier_rules: tuple[Rule, ...] = ()
    if earlier:
        _check_fits(earlier, text, str(inputs.earlier_folder), run)
        earlier_rules = tuple(filter(has_words_on_both_sides, earlier.trained_rules))
    # The programs of rules by hand are legal, too.
    manual_rules, legal = _manual_rules(inputs.manual_rules, legal, text.preprocessor)
    training = settings.training
    if text.preprocessor.slots.free_text and training.warm_up is None:
        training = replace(training, warm_up=FREE_TEXT_WARM_UP)
    # A given grammar, or given settings, or those for SQL; else trials choose.
    rules: Grammar | InductionSettings | None = inputs.grammar or settings.induction
    if rules is None and language:
        rules = SQL_INDUCTION
    # Types restrict a search with given settings only where they are known from elsewhere.
    rule_types = None
    if settings.model.typed and (language or earlier):
        rule_types = legal
    return ParserTask(
        examples=examples,
        dev=text.dev,
        rules=rules,
        model=settings.model,
        training=training,
        text=text.preprocessor,
        values=text.values,
        target_grammar=legal,
        rule_types=rule_types,
        manual_rules=manual_rules,
        earlier_rules=earlier_rules,
        language=language,
        tools=inputs.tools,
    )


def _manual_rules(
    path: Path | None, legal: TargetGrammar | None, text: Preprocessor
) -> tuple[tuple[Rule, ...], TargetGrammar | None]:
    """The rules written by hand in a file; illegal ones are refused.

    Values that the rules write down where programs have slots are legal from now on.
    """
    if path is None:
        return (), legal
    places = read_rules(path, text)
    legal = legal_with(places, legal, text.slots)
    if legal is not None:
        signatures = Signatures(legal)
        for rule, where in places.items():
            if not signatures.fits(rule.target):
                reason = illegal_token(rule, signatures)
                advice = "see the setting types.target_grammar"
                raise FormatError(f"rule '{rule}': {reason}; {advice}", where)
    return tuple(places), legal


def has_words_on_both_sides(rule: Rule) -> bool:
    """Whether both sides have terminals; other rules join anything and misread what is new."""
    return str in map(type, rule.source) and str in map(type, rule.target)


def _check_fits(model: SavedModel, text: PreparedText, name: str, run: Run) -> None:
    """Refuse a model whose rules derive nothing of the examples: it is one of other data."""
    # With slots, both rules and examples have numbered placeholders.
    rules: Iterable[Rule] = model.trained_rules
    examples = text.examples
    if text.values:
        examples = text.values.delexicalize(examples)
        rules = index_placeholders(
            rules, (example.source_tokens for example in examples)
        )
    derived = len(examples) - len(
        underivable(Grammar.of(rules, MOST_NON_TERMINALS), examples)
    )
    verdict = (
        f"{name}: its rules derive {derived:,} of {counted(len(examples), 'example')}"
    )
    if not derived:
        raise NqgError(f"{verdict}; expected a model of some of these to go on from")
    run.note(verdict)
