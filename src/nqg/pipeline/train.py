"""`nqg.train`: from examples to a system that answers sentences.

The stages, each in its own file: *text* (`task`), *types* (`program_types`), *grammar*, *parser*, *seq2seq*
(`second_reader`), *confidence*. Each is a function from what is known to a little more.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from nqg.data.example import Example, distinct_pairs
from nqg.errors import NqgError, counted
from nqg.evaluation.calibration import fitted, knowledge, used_rules
from nqg.evaluation.legality import target_grammar_named
from nqg.evaluation.metrics import Scores, score
from nqg.grammar.grammar import Grammar
from nqg.induction.settings import InductionSettings
from nqg.inference.hybrid import Hybrid, TokenSystem
from nqg.inference.parser import Parser
from nqg.inference.rules_by_hand import misfits
from nqg.model.call_reader import CallReader
from nqg.model.checkpoint import (
    MOST_NON_TERMINALS,
    Measurement,
    Provenance,
    SavedModel,
    load_model,
)
from nqg.model.confidence import Calibrator
from nqg.model.encoder import check_encoder
from nqg.pipeline.advice import NextStep, function_counts, next_steps
from nqg.pipeline.confidence import held_out_sentences
from nqg.pipeline.events import (
    Listener,
    Stage,
    TrainReport,
    only_progress,
    only_warnings,
)
from nqg.pipeline.grammar import learn_grammar
from nqg.pipeline.parser import fitting_threads, train_parser
from nqg.pipeline.program_types import LegalPrograms, legal_programs, prepared_text
from nqg.pipeline.run import Run
from nqg.pipeline.second_reader import FoldModel, SecondReader, train_seq2seq
from nqg.pipeline.settings import (
    AUTOMATIC,
    TrainSettings,
    TypeSettings,
    recorded_settings,
)
from nqg.pipeline.sources import ExampleSource, read_source
from nqg.pipeline.task import (
    ParserTask,
    PreparedText,
    TrainingInput,
    parser_task,
    read_text,
)
from nqg.preprocessing.training_text import TrainingText
from nqg.run_config import DataFingerprint, sha256
from nqg.slots.target_grammars import open_slot_categories
from nqg.training.call_alignment import fit_call_reader
from nqg.training.parser_training import ParserTraining
from nqg.training.processes import Processes
from nqg.types.python_tools import ToolSource, load_tools
from nqg.types.tools import Tool

if TYPE_CHECKING:
    from nqg.seq2seq.seq2seq import Seq2seq

# An environment variable: the second reader of trainings that name none.
DEFAULT_SEQ2SEQ = "NQG_SEQ2SEQ"


def train(
    data: ExampleSource,
    *,
    settings: TrainSettings | Path | str | None = None,
    dev: ExampleSource | None = None,
    seq2seq: str | None = None,
    grammar: Grammar | Path | str | None = None,
    manual_rules: Path | str | None = None,
    database: str | None = None,
    tools: ToolSource | None = None,
    start_from: Path | str | None = None,
    run_folder: Path | str | None = None,
    device: str | None = None,
    listener: Listener = only_warnings,
) -> Parser | Hybrid | TokenSystem:
    """Train a parser from pairs of a sentence and a program, as the command `nqg train` does.

    - `data` is a `.tsv`, `.csv` or `.jsonl` file, or pairs of strings, `Example`s, dictionaries or
      rows of a `datasets.Dataset`.
    - `settings` are a `TrainSettings` or the TOML file of a project.
    - `dev` has examples on which the best weights are chosen.
    - `seq2seq` names a second reader: weights from Hugging Face, their folder, or "embedded".
    - `grammar` replaces the search for a grammar, and `manual_rules` are added to the rules.
    - `database` has the schema that programs in SQL have to fit.
    - `tools` have the schemas that calls have to fit: a JSON file, a Python module, or functions.
    - `start_from` is the folder of a model that learned some of the same examples.
    - `run_folder` keeps the state of the training, from which an interrupted training continues.
    - `listener` receives events: `StageStarted`, `WorkDone`, `Notice`, and a `TrainReport` at the
      end. Without one, warnings go to the logger `nqg`, which shows them on stderr.

    >>> pairs = [(f"turn {state} the {name}", f"turn_{state}({name})")
    ...          for state in ("on", "off") for name in ("lamp", "radio", "heater", "fan", "oven")]
    >>> parser = train(pairs[:-1])
    >>> parser.parse("turn off the oven").target
    'turn_off(oven)'
    """
    processes = Processes.launched(device)
    # Read what the arguments name.
    chosen = TrainSettings.of(settings)
    if isinstance(grammar, str | Path):
        grammar = Grammar.read(Path(grammar), MOST_NON_TERMINALS)
    # A model to go on from brings its settings; those of the user come first.
    earlier, folder = None, None
    if start_from:
        if grammar is not None:
            raise NqgError(
                "a training that goes on from a model has its rules; omit 'grammar' or 'start_from'"
            )
        folder = Path(start_from)
        earlier = load_model(folder, "cpu")
        recorded = recorded_settings(earlier, folder)
        if settings is None:
            chosen = recorded
        elif chosen.induction is None:
            chosen = replace(chosen, induction=recorded.induction)
    loaded: tuple[Tool, ...] = ()
    if tools is not None:
        loaded = load_tools(tools)
    elif earlier:
        loaded = earlier.tools
    target_grammar = None
    if chosen.types.has_file:
        target_grammar = target_grammar_named(chosen.types.target_grammar)
    inputs = TrainingInput(
        train=read_source(data, "data"),
        dev=None if dev is None else read_source(dev, "dev"),
        grammar=grammar,
        manual_rules=None if manual_rules is None else Path(manual_rules),
        database=database,
        tools=loaded,
        target_grammar=target_grammar,
        earlier=earlier,
        earlier_folder=folder,
    )
    # The second reader: named here, in the settings, or in the environment.
    default = os.environ.get(DEFAULT_SEQ2SEQ)
    if default and not chosen.seq2seq and not database:
        seq2seq = seq2seq or default
    if seq2seq is not None:
        chosen = chosen.with_seq2seq(seq2seq)
    # Refuse what does not go together, before any work.
    chosen.check()
    if database and chosen.seq2seq:
        raise NqgError(
            "a second reader cannot be trained with a database yet; omit 'seq2seq' or 'database'"
        )
    if database and loaded:
        raise NqgError(
            "programs are calls of tools or queries of a database; omit 'tools' or 'database'"
        )
    # Run the stages; one training at a time in a folder.
    run_path = None if run_folder is None else Path(run_folder)
    run = Run(chosen.run, run_path, device, processes, listener)
    with run.locked():
        try:
            system = _train(inputs, chosen, run)
        finally:
            run.remove_empty_folder()
    processes.close()
    return system


@dataclass(frozen=True)
class TrainedReaders:
    """What all stages but the last have made."""

    task: ParserTask
    training: ParserTraining
    seq2seq: Seq2seq | None
    legal: LegalPrograms
    has_call_reader: bool = False

    @property
    def model(self) -> SavedModel:
        """The grammar's model, which reads raw sentences."""
        task = self.task
        model = replace(
            self.training.model,
            text=task.text,
            language=task.language,
            tools=task.tools,
            required=self.legal.required,
            call_reader=self._call_reader(),
        )
        if task.values:
            # In training, slots know the values of the training examples; from now on they find
            # them.
            model = replace(
                model, grammar=replace(model.grammar, slots=task.text.slots)
            )
        return model

    def _call_reader(self) -> CallReader | None:
        text = self.legal.text
        # Programs that are tokenised already are formal, and those of a database are queries.
        is_code = text.preprocessor.programs.scheme == "code"
        if not is_code or text.language or not self.has_call_reader:
            return None
        return fit_call_reader(text.training.pairs, text.preprocessor.slots.free_text)

    def system(self, model: SavedModel) -> Parser | Hybrid:
        parser = Parser(model)
        if self.seq2seq is None:
            return parser
        return Hybrid.joined(parser, self.seq2seq)


def _train(
    inputs: TrainingInput, settings: TrainSettings, run: Run
) -> Parser | Hybrid | TokenSystem:
    _warn_of_fewer_examples(inputs, run)
    for table, values in settings.tables():
        run.detail(f"[{table}] {values}")
    run = replace(run, stages=_stages(settings, run))
    # A name that is misspelt, or a missing network, should not cost the time of an induction.
    if settings.model is not None:
        check_encoder(settings.model.encoder)
    if settings.seq2seq:
        from nqg.seq2seq.seq2seq import check_pretrained  # which loads transformers

        check_pretrained(settings.seq2seq.model)
    inputs, text = prepared_text(inputs, settings, run)
    if settings.model is None:
        reader = SecondReader.of(settings)
        assert reader, "the settings have a model, or a second reader"
        dev: Sequence[Example] = ()
        if inputs.dev:
            dev = TrainingText.of(
                inputs.dev.examples, text.preprocessor
            ).with_raw_sentences
        return _train_seq2seq_alone(text, dev, reader, inputs.tools, run)
    readers = train_grammar_reader(inputs, text, settings, run)
    fold_model = FoldModel.of(settings, run)
    if fold_model is not None:
        fold_model.prepare()
    else:
        readers = with_second_reader(readers, settings, run)
    calibrator = None
    if settings.confidence.folds != 0:
        run.stage(Stage.CONFIDENCE)
        calibrator = _learned_confidence(inputs, settings, readers, run, fold_model)
    if fold_model is not None:
        # The model of the fold is asked about held-out sentences before it learns them.
        readers = with_second_reader(readers, settings, run, fold_model.get())
        fold_model.remove()
    return _assembled(inputs, readers, calibrator, run)


def _stages(settings: TrainSettings, run: Run) -> tuple[Stage, ...]:
    """The stages that a training with these settings passes."""
    stages = [Stage.TEXT]
    if settings.model is not None:
        stages += [Stage.TYPES, Stage.GRAMMAR, Stage.PARSER]
    last = []
    if settings.seq2seq:
        last.append(Stage.SEQ2SEQ)
    if settings.model is not None and settings.confidence.folds != 0:
        last.append(Stage.CONFIDENCE)
    if FoldModel.of(settings, run) is not None:
        last.reverse()
    return (*stages, *last)


def train_readers(
    inputs: TrainingInput, text: PreparedText, settings: TrainSettings, run: Run
) -> TrainedReaders:
    """The stages from types to the second reader."""
    readers = train_grammar_reader(inputs, text, settings, run)
    return with_second_reader(readers, settings, run)


def train_grammar_reader(
    inputs: TrainingInput, text: PreparedText, settings: TrainSettings, run: Run
) -> TrainedReaders:
    """The stages from types to the parser."""
    run.stage(Stage.TYPES)
    legal = legal_programs(inputs, text, settings, run)
    text = legal.text
    task = parser_task(inputs, text, legal.grammar, legal.examples, settings, run)
    with fitting_threads(task):
        run.stage(Stage.GRAMMAR)
        # The others read what the main process has recorded.
        with run.processes.main_first():
            grammar, induction = learn_grammar(task, run)
        task = replace(task, rules=induction or grammar)
        run.stage(Stage.PARSER)
        training = train_parser(task, grammar, run)
    has_call_reader = settings.text.call_reader == "auto"
    return TrainedReaders(task, training, None, legal, has_call_reader)


def with_second_reader(
    readers: TrainedReaders,
    settings: TrainSettings,
    run: Run,
    start: Seq2seq | None = None,
) -> TrainedReaders:
    """The same readers with a second one, if the settings ask for it.

    It may `start` as a model that has learned some of the examples.
    """
    reader = SecondReader.of(settings)
    if reader is None:
        return readers
    run.stage(Stage.SEQ2SEQ)
    tuning = train_seq2seq(
        reader,
        readers.legal.text.training.with_raw_sentences,
        run,
        grammar=readers.training.model.grammar,
        start=start,
    )
    return replace(readers, seq2seq=tuning.seq2seq)


def _learned_confidence(
    inputs: TrainingInput,
    settings: TrainSettings,
    readers: TrainedReaders,
    run: Run,
    fold_model: FoldModel | None = None,
) -> Calibrator | None:
    """The confidence of readers, from readers of folds: these are trained in the same way.

    The second reader of the first fold is given to `fold_model`.
    """
    task, training = readers.task, readers.training
    fold_settings = settings
    if isinstance(task.rules, InductionSettings):
        # A simpler search will do: rules that are a little worse make confidence no higher.
        induction = replace(task.rules, returning=False)
        fold_settings = replace(settings, induction=induction)
    if inputs.target_grammar is not None:
        # A fold finds its own types where a file says what the whole data says.
        types = TypeSettings(AUTOMATIC)
        if readers.legal.is_given:
            types = replace(settings.types, skip_illegal=True)
        fold_settings = replace(fold_settings, types=types)
    if training.trainer.best:
        steps = training.trainer.best.step
        fold_settings = replace(
            fold_settings, training=replace(settings.training, steps=steps)
        )

    def train_fold(examples: Sequence[Example], fold_run: Run) -> Parser | Hybrid:
        fold_run = replace(fold_run, listener=only_progress(run.listener))
        train = replace(inputs.train, examples=tuple(examples), lines=())
        fold_inputs = replace(
            inputs, train=train, dev=None, earlier=None, earlier_folder=None
        )
        text = read_text(fold_inputs, fold_settings, fold_run)
        if inputs.target_grammar is not None:
            types = None
            if readers.legal.is_given:
                # A fold may lack a slot that the grammar names: any values stand for it.
                quotes = dict(task.text.slots.quotes)
                for slot in text.preprocessor.slots.slots:
                    quotes.pop(slot.name, None)
                types = open_slot_categories(inputs.target_grammar, quotes)
            fold_inputs = replace(fold_inputs, target_grammar=types)
        if inputs.grammar is not None:
            # Of given rules, a fold has those that its examples need.
            slots = text.values.slots if text.values else None
            fold_grammar = used_rules(
                replace(inputs.grammar, slots=slots), text.examples
            )
            fold_inputs = replace(
                fold_inputs, grammar=replace(fold_grammar, slots=None)
            )
        fold = train_readers(fold_inputs, text, fold_settings, fold_run)
        if fold_model is not None and fold.seq2seq is not None:
            fold_model.give(fold.seq2seq)
        return fold.system(fold.model)

    examples, others = inputs.train.examples, inputs.train.out_of_scope
    grammars = f"{task.rules}{task.manual_rules}{task.target_grammar}"
    fingerprint = sha256(f"{examples}{others}{fold_settings}{grammars}{inputs.tools}")
    with fitting_threads(task):
        sentences = held_out_sentences(
            examples, settings, train_fold, run, fingerprint, others
        )
        if not sentences:
            return None
        reader_knowledge = knowledge(
            Parser(readers.model), examples, has_seq2seq=settings.seq2seq is not None
        )
    calibrator = fitted(
        reader_knowledge, sentences, settings.confidence.least_precision
    )
    # A sentence may be read with its polite words, and without them.
    refused: list[str] = []
    for sentence in others:
        readings = readers.model.text.tokenized(sentence)
        refused += [" ".join(reading.words) for reading in readings]
    return replace(calibrator, refused=tuple(dict.fromkeys(refused)))


def _warn_of_fewer_examples(inputs: TrainingInput, run: Run) -> None:
    before = inputs.earlier and inputs.earlier.provenance.data
    now = len(inputs.train.examples)
    if before and before.examples > now:
        trained = f"{inputs.earlier_folder} was trained on {counted(before.examples, 'example')}"
        fewer = f"{inputs.train.path} has {now:,}"
        run.warn(f"{trained}, {fewer}; what only the others show is forgotten")


def _train_seq2seq_alone(
    text: PreparedText,
    dev: Sequence[Example],
    reader: SecondReader,
    tools: tuple[Tool, ...],
    run: Run,
) -> TokenSystem:
    """A system without a grammar."""
    run.stage(Stage.SEQ2SEQ)
    tuning = train_seq2seq(reader, text.training.with_raw_sentences, run, dev=dev)
    records, best = tuning.trainer.records, tuning.trainer.best
    report = TrainReport(
        rules=0,
        examples=len(text.examples),
        repeated=0,
        left_out=0,
        steps=len(records),
        loss=records[-1].loss,
        best_step=best.step if best else None,
        dev={"accuracy": best.scores.exact_match} if best else None,
    )
    run.listener(report)
    steps = tuple(step.to_dict() for step in records)
    return TokenSystem(tuning.seq2seq, text.preprocessor, records=steps, tools=tools)


def _next_steps(
    inputs: TrainingInput, readers: TrainedReaders, calibrator: Calibrator | None
) -> tuple[NextStep, ...]:
    if inputs.database:
        # Queries are not calls, and cannot have a second reader yet.
        return ()
    steps = next_steps(
        inputs.train.examples,
        readers.task.text,
        has_second_reader=readers.seq2seq is not None,
        has_out_of_scope=bool(inputs.train.out_of_scope),
        is_unsure=calibrator is not None and calibrator.expected.is_low,
    )
    return tuple(steps)


def _assembled(
    inputs: TrainingInput,
    readers: TrainedReaders,
    calibrator: Calibrator | None,
    run: Run,
) -> Parser | Hybrid:
    """The system of all stages, with its confidence, its manual rules, and how it was made."""
    task = readers.task
    model = replace(readers.model, calibrator=calibrator)
    if task.manual_rules:
        # Rules by hand are kept, also those that no example needs.
        model = model.with_rules_by_hand(task.manual_rules)
        unusable = misfits(model.grammar, task.target_grammar, task.manual_rules)
        for rule, reason in unusable.items():
            run.note(f"rule '{rule}' is kept, but cannot be used: {reason}")

    # Measure the system, note how it was made, and tell the listener.
    provenance = _provenance(readers)
    scores = None
    if inputs.dev:
        scores = _dev_scores(readers.system(model), inputs.dev.examples)
        shares = {name: getattr(scores, name) for name in scores.intervals()}
        data = DataFingerprint.of(task.dev, inputs.dev.path.name)
        provenance = replace(provenance, measurements=(Measurement(data, shares),))
    report = replace(
        _training_report(readers, model.grammar),
        functions=tuple(sorted(function_counts(inputs.train.examples))),
        calibrator=calibrator,
        next_steps=_next_steps(inputs, readers, calibrator),
    )
    if scores:
        report = replace(report, dev=scores.to_dict(), dev_scores=scores)
    run.listener(report)
    return readers.system(replace(model, provenance=provenance))


def _training_report(readers: TrainedReaders, grammar: Grammar) -> TrainReport:
    """What the training of the parser says of itself."""
    task, training = readers.task, readers.training
    records, best = training.trainer.records, training.trainer.best
    learned, distinct = len(training.data), len(distinct_pairs(task.examples))
    names = tuple(slot.name for slot in task.text.slots.slots)
    return TrainReport(
        rules=len(grammar),
        examples=learned,
        repeated=len(task.examples) - distinct,
        left_out=distinct - learned,
        steps=len(records),
        loss=records[-1].loss,
        best_step=best.step if best else None,
        dev=None,
        slots=names,
    )


def _dev_scores(system: Parser | Hybrid, examples: Sequence[Example]) -> Scores:
    answers = system.answers(example.source for example in examples)
    predictions = [answer.target for answer in answers]
    return score(predictions, [example.target for example in examples])


def _provenance(readers: TrainedReaders) -> Provenance:
    """How the model was made: its examples, its settings, and the steps of its training."""
    task, training = readers.task, readers.training
    steps = [step.to_dict() for step in training.trainer.records]
    provenance = Provenance.of(task.examples, training.settings, steps)
    if isinstance(task.rules, InductionSettings):
        provenance = replace(provenance, induction=asdict(task.rules))
    if task.values:
        sentences = task.values.as_written(provenance.sentences)
        provenance = replace(provenance, sentences=tuple(sentences))
    return provenance
