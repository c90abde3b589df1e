"""What a parser is to be learned from: the stages of text and types turn raw examples into a `ParserTask`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from nqg.data.example import Example
from nqg.errors import FormatError, NqgError, counted
from nqg.evaluation.data_checks import SERIOUS, flaws
from nqg.evaluation.legality import legal_examples, target_grammar_named
from nqg.extensions import load_extension
from nqg.grammar.grammar import SLOT, Grammar, Rule
from nqg.induction.corpus import underivable
from nqg.induction.settings import InductionSettings
from nqg.inference.rules_by_hand import illegal_token, legal_with, read_rules
from nqg.model.checkpoint import MOST_NON_TERMINALS, SavedModel
from nqg.model.settings import ModelSettings, TrainingSettings
from nqg.pipeline.run import Run
from nqg.pipeline.settings import AUTOMATIC, INFERRED, NONE, TrainSettings, in_words
from nqg.pipeline.sources import NamedExamples
from nqg.preprocessing.preprocessor import Preprocessor, TextSettings
from nqg.preprocessing.training_text import TrainingText, fit_training_text, tokenized
from nqg.slots.delexicalize import index_placeholders
from nqg.slots.target_grammars import allow_number_slots
from nqg.types.inference import infer_target_grammar
from nqg.types.target_grammar import TargetGrammar
from nqg.types.tree_automaton import Signatures

if TYPE_CHECKING:
    from nqg.preprocessing.program_language import ProgramLanguage

FREE_TEXT_WARM_UP = (
    100  # steps; where any words may be free text, a model that learns fast is sure too soon
)
SQL_INDUCTION = (
    InductionSettings(  # names of tables and columns are not values that sentences share
        identity_rules=False, repeated_targets=True, data_weight=0.25
    )
)


@dataclass(frozen=True, slots=True)
class TrainingInput:
    """What a user gives to a training besides its settings."""

    train: NamedExamples
    dev: NamedExamples | None = None
    grammar: Grammar | None = None
    manual_rules: Path | None = None
    database: str | None = None
    earlier: SavedModel | None = None
    earlier_folder: Path | None = None


@dataclass(frozen=True, slots=True)
class PreparedText:
    """What the text stage found: tokenised examples, how they were tokenised, and the values of slots in them."""

    examples: Sequence[Example]
    dev: Sequence[Example]
    preprocessor: Preprocessor
    values: TrainingText | None
    language: ProgramLanguage | None
    is_kept: bool  # the text is that of the model that training goes on from


@dataclass(frozen=True, slots=True)
class ParserTask:
    """What a parser is learned from; `rules` are a grammar, or settings to find one with, or None: trials choose."""

    examples: Sequence[Example]
    dev: Sequence[Example]
    rules: Grammar | InductionSettings | None
    model: ModelSettings
    training: TrainingSettings
    text: Preprocessor = Preprocessor()  # noqa: RUF009 (frozen)
    values: TrainingText | None = None
    target_grammar: TargetGrammar | None = None
    rule_types: TargetGrammar | None = None  # what a search with given settings respects
    manual_rules: tuple[Rule, ...] = ()
    earlier_rules: tuple[Rule, ...] = ()  # of the model that training goes on from
    language: ProgramLanguage | None = None

    def searched(self) -> tuple[Sequence[Example], list[Rule], TargetGrammar | None]:
        """The examples that rules are searched in, the rules to begin with, and the types of their programs."""
        types = self.target_grammar if self.model.typed else None
        if self.values is None:
            return self.examples, list(self.earlier_rules), types
        examples, rules, types = self.values.searched(self.examples, types)
        numbered = index_placeholders(
            self.earlier_rules, (example.source_tokens for example in examples)
        )
        return examples, [*rules, *numbered], types

    def as_written(self, examples: Sequence[Example]) -> Sequence[Example]:
        """The examples for a model that copies words: with slots, in the casing that somebody wrote."""
        if self.values is None:
            return examples
        sources = self.values.as_written(example.source for example in examples)
        return [
            replace(example, source=source)
            for example, source in zip(examples, sources, strict=True)
        ]


def read_text(given: TrainingInput, settings: TrainSettings, run: Run) -> PreparedText:
    """The text stage: how raw text becomes tokens, and which values it has, fitted to the training examples."""
    earlier, train = given.earlier, given.train
    text_settings, slots = settings.text, settings.slots
    language = _program_language(given, run)
    if given.grammar is not None and not _reads_slots(given.grammar):
        text_settings, slots = replace(text_settings, slots="given"), {}
    is_kept = (
        earlier is not None
        and text_settings == TextSettings()
        and not slots
        and given.database is None
    )
    raw = _tokenized_programs(train, language) if language else train.examples
    if earlier is not None and is_kept:
        found = TrainingText.of(raw, earlier.text)
    elif language is not None:
        if not slots and text_settings.slots != "given" and given.database is not None:
            pairs = [(example.source, example.target) for example in train.examples]
            slots = language.column_slots(given.database, pairs)
        text_settings = replace(text_settings, programs="spaces", slots="given")
        found = fit_training_text(raw, text_settings, slots, settings.file)
    else:
        found = fit_training_text(raw, text_settings, slots, settings.file)
    preprocessor = found.text
    words = in_words(preprocessor.sentences)
    run.detail(
        f"[text] {words}, courtesy = {preprocessor.courtesy}, programs = {preprocessor.programs.scheme}"
    )
    for slot in preprocessor.slots.slots:
        run.detail(f"[slots] {slot}")
    if language is None:
        _warn_of_flaws(train, found.examples, run)
    dev: Sequence[Example] = ()
    if given.dev is not None:
        dev = tokenized(
            _tokenized_programs(given.dev, language) if language else given.dev.examples,
            preprocessor,
        )
    return PreparedText(
        found.examples, dev, preprocessor, found if found.has_slots else None, language, is_kept
    )


def _reads_slots(grammar: Grammar) -> bool:
    return any(str(rule.source[0]).startswith(SLOT) for rule in grammar)


def _warn_of_flaws(train: NamedExamples, examples: Sequence[Example], run: Run) -> None:
    """Tell the first of each kind of flaw that teaches something wrong."""
    told: set[str] = set()
    for flaw in flaws(train.examples, examples):
        if flaw.kind in SERIOUS and flaw.kind not in told:
            told.add(flaw.kind)
            run.warn(f"{train.path}:{flaw.line}: {flaw}; `nqg check-data {train.path}` shows all")


def _program_language(given: TrainingInput, run: Run) -> ProgramLanguage | None:
    """How queries over the database are written, as far as the examples show it."""
    if given.database is None:
        return given.earlier.language if given.earlier else None
    programs = load_extension("nqg.sql.programs:SqlPrograms")
    schema = load_extension("nqg.sql.schema:read_database")(given.database)
    language: ProgramLanguage = programs.fit(
        schema, [example.target for example in given.train.examples]
    )
    run.detail(f"[sql] {language}")
    return language


def _tokenized_programs(source: NamedExamples, language: ProgramLanguage) -> tuple[Example, ...]:
    """The examples with their queries in the form that a grammar learns from."""
    read = []
    for number, example in enumerate(source.examples):
        try:
            tokens = language.tokenize(example.target)
        except FormatError as error:
            raise error.at(source.place(number)) from None
        read.append(replace(example, target=" ".join(tokens)))
    return tuple(read)


def parser_task(
    given: TrainingInput, text: PreparedText, settings: TrainSettings, run: Run
) -> ParserTask:
    """The types stage: which programs are legal, and with it everything that the grammar and the parser need."""
    assert settings.model is not None, "a task is that of a parser"
    earlier, language = given.earlier, text.language
    if earlier is not None:
        _check_fits(earlier, text, str(given.earlier_folder), run)
    legal, examples = _legal_programs(given, text, settings, run)
    manual_rules, legal = _manual_rules(given.manual_rules, legal, text.preprocessor)
    training = settings.training
    if text.preprocessor.slots.free_text and training.warm_up is None:
        training = replace(training, warm_up=FREE_TEXT_WARM_UP)
    rules: Grammar | InductionSettings | None = given.grammar or settings.induction
    if rules is None and language is not None:
        rules = SQL_INDUCTION
    is_restricted = (language is not None or earlier is not None) and settings.model.typed
    earlier_rules = filter(has_words_on_both_sides, earlier.trained_rules) if earlier else ()
    return ParserTask(
        examples=examples,
        dev=text.dev,
        rules=rules,
        model=settings.model,
        training=training,
        text=text.preprocessor,
        values=text.values,
        target_grammar=legal,
        rule_types=legal if is_restricted else None,
        manual_rules=manual_rules,
        earlier_rules=tuple(earlier_rules),
        language=language,
    )


def _legal_programs(
    given: TrainingInput, text: PreparedText, settings: TrainSettings, run: Run
) -> tuple[TargetGrammar | None, Sequence[Example]]:
    """The grammar of legal programs, and the examples whose programs it accepts."""
    named, earlier, examples = settings.types.target_grammar, given.earlier, text.examples
    if (
        named == AUTOMATIC
        and earlier is not None
        and text.is_kept
        and earlier.target_grammar is None
    ):
        named = NONE
    if named == NONE:
        return None, examples
    if text.language is not None and named == AUTOMATIC:
        numbers = [slot.name for slot in text.preprocessor.slots.slots if slot.kind == "number"]
        legal = allow_number_slots(text.language.target_grammar, numbers)
    elif named in (AUTOMATIC, INFERRED):
        return _inferred_types(earlier if text.is_kept else None, text, run), examples
    else:
        legal = target_grammar_named(named)
    kept = legal_examples(
        legal, examples, given.train.path, skips_illegal=settings.types.skip_illegal, note=run.note
    )
    return legal, kept


def _inferred_types(earlier: SavedModel | None, text: PreparedText, run: Run) -> TargetGrammar:
    """The types of the programs: those of the earlier model, if all programs fit them, else inferred."""
    if text.values is None:
        programs = [example.target_tokens for example in text.examples]
    else:
        programs = text.values.programs(text.examples)
    known = earlier.target_grammar if earlier is not None else None
    if known is not None and all(map(known.accepts, programs)):
        return known
    inferred = infer_target_grammar(programs)
    run.detail(f"the types of programs, inferred:\n{inferred}")
    return inferred


def _manual_rules(
    path: Path | None, legal: TargetGrammar | None, text: Preprocessor
) -> tuple[tuple[Rule, ...], TargetGrammar | None]:
    """The rules written by hand in a file; illegal ones are refused.

    Values that they write down where programs have slots are legal from now on.
    """
    if path is None:
        return (), legal
    places = read_rules(path, text)
    legal = legal_with(places, legal, text.slots)
    if legal is not None:
        finder = Signatures(legal)
        for rule, place in places.items():
            if not finder.fits(rule.target):
                raise FormatError(
                    f"rule '{rule}': {illegal_token(rule, finder)}; see the setting types.target_grammar",
                    place,
                )
    return tuple(places), legal


def has_words_on_both_sides(rule: Rule) -> bool:
    """Whether both sides have terminals; other rules join anything, so that whatever is new is read in odd parts."""
    return _has_terminal(rule.source) and _has_terminal(rule.target)


def _has_terminal(side: Iterable[object]) -> bool:
    return any(isinstance(symbol, str) for symbol in side)


def _check_fits(model: SavedModel, text: PreparedText, name: str, run: Run) -> None:
    """Refuse a model whose rules derive nothing of the examples: it is one of other data."""
    rules: Iterable[Rule] = model.trained_rules
    examples = text.examples
    if text.values is not None:
        examples = text.values.delexicalize(examples)
        rules = index_placeholders(rules, (example.source_tokens for example in examples))
    derived = len(examples) - len(underivable(Grammar.of(rules, MOST_NON_TERMINALS), examples))
    verdict = f"{name}: its rules derive {derived:,} of {counted(len(examples), 'example')}"
    if not derived:
        raise NqgError(f"{verdict}; expected a model of some of these to go on from")
    run.note(verdict)
