"""`nqg induce`: from a file of examples to a file of rules; Ctrl-C stops the search."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Event
from types import FrameType
from typing import Annotated, Any

import typer

from nqg.cli import terminal
from nqg.cli.options import Preset, SettingsFile, TrainFile, changes_option, option
from nqg.cli.terminal import (
    STOPPED,
    detail,
    err,
    interruptible,
    print_results,
    report_written,
)
from nqg.cli.training_display import TrainingDisplay
from nqg.data.example_files import required_examples
from nqg.errors import NqgError, counted
from nqg.grammar.grammar import Grammar, Rule
from nqg.induction.search_log import StepRecord
from nqg.induction.settings import InductionSettings
from nqg.induction.tuning import BUDGET
from nqg.pipeline.grammar import choose_settings, search_grammar
from nqg.pipeline.run import Run
from nqg.pipeline.settings import TrainSettings, in_words
from nqg.preprocessing.training_text import fit_training_text
from nqg.settings_reader import changed_settings
from nqg.slots.delexicalize import relexicalize_rules
from nqg.slots.target_grammars import encoded_grammar
from nqg.types.inference import infer_target_grammar
from nqg.types.target_grammar import TargetGrammar

PREFIX = "induction."


RulesFile = Annotated[Path, option("-o --output", "FILE", "Where to write the rules.")]
Changes = Annotated[list[str] | None, changes_option("induction.max_non_terminals=3")]
SeedRules = Annotated[
    Path | None,
    option("--seed-rules", "FILE", "Rules to start with, besides the examples."),
]
LegalPrograms = Annotated[
    Path | None,
    option(
        "--target-grammar",
        "FILE",
        "Propose only rules for fragments of these legal programs.",
    ),
]
StepLog = Annotated[
    Path | None,
    option("--log", "FILE", "Write a line of JSON for every step of the search."),
]
Budget = Annotated[
    int,
    option(
        "--budget",
        "EVALUATIONS",
        "Most grammars to evaluate while settings are chosen.",
        min=0,
    ),
]


def induce(
    data: TrainFile,
    output: RulesFile,
    settings: SettingsFile = None,
    changes: Changes = None,
    preset: Preset = None,
    seed_rules: SeedRules = None,
    target_grammar: LegalPrograms = None,
    log: StepLog = None,
    budget: Budget = BUDGET,
) -> None:
    """Learn the smallest grammar that explains pairs of strings.

    Example: nqg induce train.tsv -o grammar.txt --log steps.jsonl

    Every example can be derived from the grammar after each step of the search.
    Ctrl-C stops it: the grammar reached so far is written, and the exit code is
    130. A second Ctrl-C ends the command at once, without a grammar.

    Without --preset or an induction table in --settings, trial searches choose
    the settings that lead to the shortest description of the examples; --verbose
    shows them. What --set changes is left as it is set.
    """
    _check_output(output, data, log)
    fixed = _fixed_settings(changes or [])
    project = TrainSettings.read(settings) if settings else TrainSettings()
    with interruptible(f"{output} was not written"), ExitStack() as stack:
        stop = stack.enter_context(stop_requests())
        run = Run(listener=stack.enter_context(TrainingDisplay()))

        # Read the examples; with slots, rules are searched as in `nqg train`.
        legal = TargetGrammar.read(target_grammar) if target_grammar else None
        values = fit_training_text(
            required_examples(data), project.text, project.slots, project.file
        )
        examples, seeds = values.examples, list[Rule]()
        if legal:
            legal = encoded_grammar(legal, values.text.programs)
        if values.has_slots:
            types = legal or infer_target_grammar(values.programs(examples))
            examples, seeds, legal = values.searched(examples, types)

        # Choose the settings.
        if preset is not None:
            chosen = InductionSettings.named(preset).changed(**fixed)
        elif project.induction:
            chosen = project.induction.changed(**fixed)
        elif values.has_slots:
            chosen = InductionSettings.for_slots().changed(**fixed)
        else:
            chosen, is_truncated = choose_settings(
                examples, fixed, legal, budget, run, stop.is_set
            )
            if stop.is_set():
                raise KeyboardInterrupt("the trials were stopped")
            if is_truncated:
                best = f"the best of the trials in {budget:,} evaluations"
                err.print(f"settings are {best}; --budget allows more")
        detail(f"[induction] {in_words(chosen)}")

        # Search.
        if seed_rules:
            seeds += Grammar.read(seed_rules, chosen.max_non_terminals)
        on_step = _log_writer(log, stack) if log else None
        induced = search_grammar(
            examples,
            chosen,
            seeds,
            legal,
            run=run,
            on_step=on_step,
            is_stopped=stop.is_set,
        )
        if values.has_slots:
            rules = relexicalize_rules(induced.grammar, values.text.slots.free_text)
            grammar = Grammar.of(rules, max(rule.arity for rule in rules))
            induced = replace(induced, grammar=grammar)
    # Write and report.
    induced.write(output)
    length, steps = induced.length, induced.steps
    rules_and_examples = f"{counted(len(induced.grammar), 'rule')} from {counted(len(examples), 'example')}"
    if not (induced.is_finished or terminal.output.as_json):
        advice = "the grammar is valid, but not yet as small as it can be"
        err.print(f"stopped after step {steps:,}: {advice}")
    print_results(
        induced.to_dict() | {"file": str(output)},
        f"{rules_and_examples}, {counted(steps, 'step')}",
        f"{length.total:,.1f} bits: {length.grammar_bits:,.1f} grammar, "
        f"{length.data_bits:,.1f} data",
    )
    report_written(output, *filter(None, [log]))
    if not induced.is_finished:
        raise typer.Exit(STOPPED)


def _check_output(path: Path, data: Path, log: Path | None) -> None:
    # Compare resolved paths: the same file may be written in several ways.
    examples, log_file = data.resolve(), log and log.resolve()
    if path.resolve() in (examples, log_file):
        advice = "choose another with -o"
        raise NqgError(
            f"{path}: the grammar would overwrite a file that is in use; {advice}"
        )
    if log_file == examples:
        raise NqgError(
            f"{log}: the log would overwrite the examples; choose another with --log"
        )
    if path.is_dir():
        raise NqgError(
            f"{path}: expected a file to write the grammar to, found a folder"
        )
    if not path.parent.is_dir():
        raise NqgError(f"{path}: the folder {path.parent} does not exist")


def _fixed_settings(changes: list[str]) -> dict[str, Any]:
    """The settings of induction that `--set` gives, by their names."""
    for change in changes:
        if not change.startswith(PREFIX):
            raise typer.BadParameter(
                f"'{change}' is not a setting of induction; expected {PREFIX}NAME=VALUE"
            )
    # What somebody set is never changed by trials.
    inner = [change.removeprefix(PREFIX) for change in changes]
    changed = changed_settings(InductionSettings(), inner)
    names = [change.partition("=")[0].strip() for change in inner]
    return {name: getattr(changed, name) for name in names}


def _log_writer(path: Path, stack: ExitStack) -> Callable[[StepRecord], None]:
    """What writes the records of steps to a file, each as soon as it is made."""
    try:
        file = stack.enter_context(path.open("w", encoding="utf-8", buffering=1))
    except OSError as error:
        raise NqgError(f"{path}: cannot write there ({error.strerror})") from error

    def write(record: StepRecord) -> None:
        file.write(record.line())

    return write


@contextmanager
def stop_requests() -> Iterator[Event]:
    """The first Ctrl-C sets an event, which interrupts no step; the second one interrupts."""
    stop = Event()

    def note(number: int, frame: FrameType | None) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()

    before = signal.signal(signal.SIGINT, note)
    try:
        yield stop
    finally:
        signal.signal(signal.SIGINT, before)
