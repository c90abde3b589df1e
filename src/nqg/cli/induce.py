"""`nqg induce`: from a file of examples to a file of rules; the search is drawn, logged and stopped by Ctrl-C."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Event
from types import FrameType
from typing import Annotated, Any

import typer

from nqg.cli.options import Preset, SettingsFile, TrainFile, changes_option, command
from nqg.cli.terminal import STOPPED, detail, err, interruptible, out, output, report_written
from nqg.cli.training_display import TrainingDisplay
from nqg.data.example import Example
from nqg.data.example_files import required_examples
from nqg.errors import NqgError, counted
from nqg.grammar.grammar import Grammar, Rule
from nqg.induction.search_log import StepRecord
from nqg.induction.settings import InductionSettings
from nqg.induction.tuning import BUDGET
from nqg.pipeline.grammar import InducedGrammar, choose_settings, search_grammar
from nqg.pipeline.run import Run
from nqg.pipeline.settings import TrainSettings, in_words
from nqg.preprocessing.training_text import fit_training_text
from nqg.settings_reader import changed_settings
from nqg.slots.delexicalize import relexicalize_rules
from nqg.types.inference import infer_target_grammar
from nqg.types.target_grammar import TargetGrammar

PREFIX = "induction."


@dataclass(frozen=True, kw_only=True)
class InduceOptions:
    data: TrainFile
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="FILE", help="Where to write the rules.")
    ]
    settings: SettingsFile = None
    changes: Annotated[list[str], changes_option("induction.max_non_terminals=3")] = field(
        default_factory=list
    )
    preset: Preset = None
    seed_rules: Annotated[
        Path | None,
        typer.Option(
            "--seed-rules", metavar="FILE", help="Rules to start with, besides the examples."
        ),
    ] = None
    target_grammar: Annotated[
        Path | None,
        typer.Option(
            "--target-grammar",
            metavar="FILE",
            help="Propose only rules for fragments of these legal programs.",
        ),
    ] = None
    log: Annotated[
        Path | None,
        typer.Option(
            "--log", metavar="FILE", help="Write a line of JSON for every step of the search."
        ),
    ] = None
    budget: Annotated[
        int,
        typer.Option(
            "--budget",
            metavar="EVALUATIONS",
            min=0,
            help="Most grammars that trials look at to choose settings.",
        ),
    ] = BUDGET


@command(InduceOptions)
def induce(options: InduceOptions) -> None:
    """Learn the smallest grammar that explains pairs of strings.

    Example: nqg induce train.tsv -o grammar.txt --log steps.jsonl

    Every example can be derived from the grammar after each step of the search.
    Ctrl-C stops it: the grammar reached so far is written, and the exit code is
    130. A second Ctrl-C ends the command at once, without a grammar.

    Without --preset or an induction table in --settings, trial searches choose
    the settings that lead to the shortest description of the examples; --verbose
    shows them. What --set changes is left as it is set.
    """
    _check_output(options)
    with interruptible(f"{options.output} was not written"), ExitStack() as stack:
        stop = stack.enter_context(stop_requests())
        run = Run(listener=stack.enter_context(TrainingDisplay()))
        induced, examples = _induced(options, run, stop, stack)
    induced.write(options.output)
    if output.as_json:
        out.print_json(data=induced.to_dict() | {"file": str(options.output)})
    else:
        _print_report(induced, examples)
    report_written(options.output, *filter(None, [options.log]))
    if not induced.is_finished:
        raise typer.Exit(STOPPED)


def _check_output(options: InduceOptions) -> None:
    path = options.output
    in_use = [used.resolve() for used in (options.data, options.log) if used is not None]
    if path.resolve() in in_use:
        raise NqgError(
            f"{path}: the grammar would overwrite a file that is in use; choose another with -o"
        )
    if options.log is not None and options.log.resolve() == options.data.resolve():
        raise NqgError(
            f"{options.log}: the log would overwrite the examples; choose another with --log"
        )
    if path.is_dir():
        raise NqgError(f"{path}: expected a file to write the grammar to, found a folder")
    if not path.parent.is_dir():
        raise NqgError(f"{path}: the folder {path.parent} does not exist")


def _induced(
    options: InduceOptions, run: Run, stop: Event, stack: ExitStack
) -> tuple[InducedGrammar, int]:
    """What the search found, and in how many examples."""
    fixed = _fixed_settings(options.changes)
    project = TrainSettings.read(options.settings) if options.settings else TrainSettings()
    legal = TargetGrammar.read(options.target_grammar) if options.target_grammar else None
    raw = required_examples(options.data)
    values = fit_training_text(raw, project.text, project.slots, project.file)
    text, examples = values.text, values.examples
    seeds: list[Rule] = []
    if values.has_slots:  # as in `nqg train`
        examples, seeds, legal = values.searched(
            examples, legal or infer_target_grammar(values.programs(examples))
        )
    if options.preset is not None:
        settings = InductionSettings.named(options.preset).changed(**fixed)
    elif project.induction is not None:
        settings = project.induction.changed(**fixed)
    elif values.has_slots:
        settings = InductionSettings.for_slots().changed(**fixed)
    else:
        settings = _chosen_settings(examples, fixed, legal, options.budget, run, stop)
    detail(f"[induction] {in_words(settings)}")
    if options.seed_rules is not None:
        seeds += Grammar.read(options.seed_rules, settings.max_non_terminals)
    on_step = _log_writer(options.log, stack) if options.log else None
    induced = search_grammar(
        examples, settings, seeds, legal, run=run, on_step=on_step, is_stopped=stop.is_set
    )
    if values.has_slots:
        rules = relexicalize_rules(induced.grammar, text.slots.free_text)
        induced = replace(induced, grammar=Grammar.of(rules, max(rule.arity for rule in rules)))
    return induced, len(examples)


def _fixed_settings(changes: list[str]) -> dict[str, Any]:
    """The settings of induction that `--set` gives, by their names."""
    names = []
    for change in changes:
        if not change.startswith(PREFIX):
            raise typer.BadParameter(
                f"'{change}' is not a setting of induction; expected {PREFIX}NAME=VALUE"
            )
        names.append(change.removeprefix(PREFIX).partition("=")[0].strip())
    changed = changed_settings(
        InductionSettings(), [change.removeprefix(PREFIX) for change in changes]
    )
    return {name: getattr(changed, name) for name in names}


def _chosen_settings(
    examples: Sequence[Example],
    fixed: dict[str, Any],
    legal: TargetGrammar | None,
    budget: int,
    run: Run,
    stop: Event,
) -> InductionSettings:
    chosen = choose_settings(examples, fixed, legal, budget, run, stop.is_set)
    if stop.is_set():
        raise KeyboardInterrupt("the trials were stopped")
    if chosen.is_truncated:
        err.print(
            f"settings are the best of the trials in {budget:,} evaluations; --budget allows more"
        )
    return chosen.settings


def _log_writer(path: Path, stack: ExitStack) -> Callable[[StepRecord], None]:
    """What writes the records of steps to a file, each as soon as it is made."""
    try:
        file = stack.enter_context(path.open("w", encoding="utf-8", buffering=1))
    except OSError as error:
        raise NqgError(f"{path}: cannot write there ({error.strerror})") from error

    def write(record: StepRecord) -> None:
        file.write(record.line())

    return write


def _print_report(induced: InducedGrammar, examples: int) -> None:
    if not induced.is_finished:
        err.print(
            f"stopped after step {induced.steps:,}: the grammar is valid, but not yet as small as it can be"
        )
    length = induced.length
    rules, steps = counted(len(induced.grammar), "rule"), counted(induced.steps, "step")
    out.print(f"{rules} from {counted(examples, 'example')}, {steps}")
    out.print(
        f"{length.total:,.1f} bits: {length.grammar_bits:,.1f} grammar, {length.data_bits:,.1f} data"
    )


@contextmanager
def stop_requests() -> Iterator[Event]:
    """The first Ctrl-C sets an event, which interrupts no step; the second one interrupts."""
    stop = Event()

    def note(number: int, frame: FrameType | None) -> None:
        stop.set()
        signal.signal(signal.SIGINT, signal.default_int_handler)

    before = signal.signal(signal.SIGINT, note)
    try:
        yield stop
    finally:
        signal.signal(signal.SIGINT, before)
