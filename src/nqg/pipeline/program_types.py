"""The types stage: which programs are legal.

Types come from a file, a database, tools, an earlier model or the programs themselves. They speak
of programs with slots for values, `schedule(@time, …)`, because a parser learns these. A grammar
from a file is held against the same programs, so that what `training_types` shows can be edited
and given to `nqg.train`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path

from nqg.data.example import Example
from nqg.evaluation.legality import Rejections, legal_examples
from nqg.grammar.grammar import SLOT, Rule
from nqg.inference.rules_by_hand import read_rules
from nqg.pipeline.events import Listener, Stage, ignore
from nqg.pipeline.run import Run
from nqg.pipeline.settings import AUTOMATIC, INFERRED, NONE, TrainSettings
from nqg.pipeline.sources import ExampleSource, NamedExamples, read_source
from nqg.pipeline.task import PreparedText, TrainingInput, read_text
from nqg.pipeline.tools import check_tools
from nqg.preprocessing.training_text import TrainingText
from nqg.slots.target_grammars import allow_number_slots, encoded_grammar
from nqg.slots.tool_grammar import tool_grammar
from nqg.types.inference import InferredTypes, infer_types
from nqg.types.python_tools import ToolSource, load_tools
from nqg.types.target_grammar import TargetGrammar
from nqg.types.tool_calls import RequiredArguments, required_arguments


@dataclass(frozen=True)
class LegalPrograms:
    """The grammar of legal programs, None where all are, and the examples that it accepts.

    `text` has values as words where the grammar has no place for their slots. `is_given` says that
    the grammar is somebody's own. Arguments are `required` where programs show it, and neither a
    grammar nor tools say otherwise.
    """

    grammar: TargetGrammar | None
    text: PreparedText
    examples: Sequence[Example]
    is_given: bool = False
    required: RequiredArguments = field(default_factory=dict)


def prepared_text(
    inputs: TrainingInput, settings: TrainSettings, run: Run
) -> tuple[TrainingInput, PreparedText]:
    """The input without calls that do not fit its tools, and the text that is fitted to it."""
    if inputs.tools:
        inputs = check_tools(inputs, settings.types, run)
    run.stage(Stage.TEXT)
    text = read_text(inputs, settings, run)
    if inputs.target_grammar is not None:
        given = encoded_grammar(inputs.target_grammar, text.preprocessor.programs)
        inputs = replace(inputs, target_grammar=given)
    return inputs, text


def legal_programs(
    inputs: TrainingInput, text: PreparedText, settings: TrainSettings, run: Run
) -> LegalPrograms:
    """The types stage."""
    name = settings.types.target_grammar
    # A model without types is continued without types.
    earlier = inputs.earlier if text.is_kept else None
    if name == AUTOMATIC and earlier and earlier.target_grammar is None:
        name = NONE
    if name == NONE:
        return LegalPrograms(None, text, text.examples)

    # Without a file, or with one that says what is found without it.
    grammar, _ = found_types(inputs, text, run, only_inferred=name == INFERRED)
    from_file = inputs.target_grammar
    if from_file is None or from_file == grammar:
        run.detail(f"the types of programs:\n{grammar}")
        examples = text.examples
        if text.language and name != INFERRED:
            # Queries need not fit the schema of their database.
            programs = [example.target_tokens for example in examples]
            examples = _legal_examples(grammar, programs, inputs, text, settings, run)
        required: RequiredArguments = {}
        if not inputs.tools and not text.language:
            raw = inputs.train.examples
            required = required_arguments(example.target for example in raw)
        return LegalPrograms(grammar, text, examples, required=required)

    fitted = FittedTypes.of(from_file, text.training)
    for slot in fitted.slots_without_place:
        run.note(no_place_for(slot))
    text = replace(text, training=fitted.text)
    programs = fitted.text.programs(text.examples)
    examples = _legal_examples(fitted.grammar, programs, inputs, text, settings, run)
    return LegalPrograms(fitted.grammar, text, examples, is_given=True)


def _legal_examples(
    grammar: TargetGrammar,
    programs: Sequence[tuple[str, ...]],
    inputs: TrainingInput,
    text: PreparedText,
    settings: TrainSettings,
    run: Run,
) -> Sequence[Example]:
    return legal_examples(
        grammar,
        text.examples,
        programs,
        inputs.train.path,
        skips_illegal=settings.types.skip_illegal,
        note=run.note,
    )


def found_types(
    inputs: TrainingInput,
    text: PreparedText,
    run: Run,
    *,
    only_inferred: bool = False,
) -> tuple[TargetGrammar, InferredTypes | None]:
    """The types without a file, and how they were inferred, if they were."""
    programs = text.training.programs(text.examples)
    preprocessor, slots = text.preprocessor, text.preprocessor.slots.slots
    types: TargetGrammar | None
    earlier = inputs.earlier if text.is_kept else None
    if text.language and not only_inferred:
        numbers = [slot.name for slot in slots if slot.kind == "number"]
        written = text.language.target_grammar(_written_tokens(inputs, text))
        return allow_number_slots(written, numbers), None
    if inputs.tools and not only_inferred:
        writing = preprocessor.programs
        as_people_write = [writing.decoded(program) for program in programs]
        types = tool_grammar(inputs.tools, as_people_write, writing.tokenize, slots)
        if types is not None:
            types = encoded_grammar(types, writing)
            if all(map(types.accepts, dict.fromkeys(programs))):
                return types, None
        run.detail(
            "programs write calls in a notation of their own: types are inferred"
        )
        earlier = None
    # Those of the earlier model, if all programs fit them.
    types = earlier.target_grammar if earlier else None
    if types and all(map(types.accepts, programs)):
        return types, None
    inferred = infer_types(programs)
    return inferred.grammar, inferred


def _written_tokens(
    inputs: TrainingInput, text: PreparedText
) -> Iterator[Sequence[str]]:
    """The tokens of programs, and of rules that are given: all that an answer can hold."""
    for example in text.examples:
        yield example.target_tokens
    rules: list[Rule] = []
    if inputs.grammar is not None:
        rules += inputs.grammar.rules
    if inputs.manual_rules is not None:
        rules += read_rules(inputs.manual_rules, text.preprocessor)
    for rule in rules:
        yield [symbol for symbol in rule.target if isinstance(symbol, str)]


@dataclass(frozen=True)
class FittedTypes:
    """A grammar from a file beside the text of training.

    The grammar has its place for numbers where `<#>` stands, and the text has values as words where
    the grammar has no place for their slots.
    """

    grammar: TargetGrammar
    text: TrainingText
    slots_without_place: tuple[str, ...] = ()

    @classmethod
    def of(cls, grammar: TargetGrammar, text: TrainingText) -> FittedTypes:
        if not text.has_slots:
            return cls(grammar, text)
        # A slot of numbers that the grammar does not name stands where a number may.
        used = set(chain.from_iterable(text.programs(text.examples)))
        slots = {f"{SLOT}{slot.name}": slot for slot in text.text.slots.slots}
        numbers = []
        for token, slot in slots.items():
            if slot.kind == "number" and token in used - grammar.terminals:
                numbers.append(slot.name)
        grammar = allow_number_slots(grammar, numbers)
        # The values of other slots stay words, where the grammar takes these.
        fitted = text.with_legal_placeholders(grammar)
        kept = set(chain.from_iterable(fitted.programs(text.examples)))
        lost = [token for token in slots if token in used - kept]
        return cls(grammar, fitted, tuple(lost))


def no_place_for(slot: str) -> str:
    """What is told of a slot that a grammar from a file does not mention."""
    return (
        f"the target grammar has no place for {slot}: values stay words, and new ones are not "
        f"understood; write {slot} where any value may stand"
    )


@dataclass(frozen=True)
class TrainingTypes:
    """The types that a training finds, and the text in which it finds them.

    `inferred` says how they were inferred; None where tools or a database have them.
    """

    grammar: TargetGrammar
    inferred: InferredTypes | None
    text: TrainingText
    source: NamedExamples

    def check(
        self, grammar: TargetGrammar, data: ExampleSource | None = None
    ) -> TypeCheck:
        """Hold a grammar against the training programs, or against those of other data.

        The programs are read as in training, with slots for values.
        """
        source, text = self.source, self.text
        grammar = encoded_grammar(grammar, text.text.programs)
        fitted = FittedTypes.of(grammar, text)
        if data is not None:
            source = read_source(data, "data")
            checked = TrainingText.of(source.examples, text.text)
            fitted = replace(
                fitted, text=checked.with_legal_placeholders(fitted.grammar)
            )
        programs = fitted.text.programs(fitted.text.examples)
        rejections = Rejections.of(fitted.grammar, programs, source.path)
        return TypeCheck(rejections, len(programs), fitted.slots_without_place)


@dataclass(frozen=True)
class TypeCheck:
    """What holding a grammar against programs has shown."""

    rejections: Rejections
    programs: int
    slots_without_place: tuple[str, ...]


def training_types(
    data: ExampleSource,
    *,
    settings: TrainSettings | Path | str | None = None,
    database: str | None = None,
    tools: ToolSource | None = None,
    listener: Listener = ignore,
) -> TrainingTypes:
    """The types that `nqg.train` finds with the same arguments, without a training.

    They can be written, edited, checked against data, and given to `nqg.train` as
    `settings.types.target_grammar`.

    >>> pairs = [(f"set the {name} to {level}", f"set({name}, {level})")
    ...          for level in (10, 25, 70) for name in ("lamp", "radio")]
    >>> types = training_types(pairs)
    >>> types.grammar.accepts("set ( lamp , @number )".split())
    True
    >>> lamps = TargetGrammar.parse("<program> ::= set ( lamp , @number )")
    >>> print(types.check(lamps).rejections.verdict)
    legal up to token 2 '(', expected 'lamp', found 'radio'
    """
    chosen = TrainSettings.of(settings)
    loaded = () if tools is None else load_tools(tools)
    inputs = TrainingInput(read_source(data, "data"), database=database, tools=loaded)
    run = Run(chosen.run, listener=listener)
    inputs, text = prepared_text(inputs, chosen, run)
    only_inferred = chosen.types.target_grammar == INFERRED
    grammar, inferred = found_types(inputs, text, run, only_inferred=only_inferred)
    return TrainingTypes(grammar, inferred, text.training, inputs.train)
