"""`nqg induce`: from a file of examples to a file of rules; the search is drawn, traced, stopped and resumed."""

from __future__ import annotations

import math
import signal
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from threading import Event
from types import FrameType
from typing import Any

import typer
from rich.live import Live
from rich.text import Text

from nqg.cli.settings import (
    LIKE,
    SETTINGS,
    ProjectSettings,
    given_induction_settings,
    in_words,
    induction_settings,
    read_settings,
    setting_option,
)
from nqg.cli.terminal import EXAMPLES, JSON, STOPPED, detail, err, interruptible, out, report_written
from nqg.data.examples import Example, Values, fit_text, required_examples, tokenized
from nqg.errors import NqgError, counted
from nqg.files import write_text
from nqg.grammar.grammar import Grammar, Rule
from nqg.grammar.slots import with_slots
from nqg.grammar.target_grammar import TargetGrammar
from nqg.grammar.type_inference import infer_target_grammar
from nqg.induction.choice import BUDGET as EVALUATIONS
from nqg.induction.choice import trials
from nqg.induction.description_length import DescriptionLength, description_length
from nqg.induction.induce import Induction
from nqg.induction.inspection import write_plot
from nqg.induction.settings import InductionSettings
from nqg.induction.trace import Header, Trace, TracedStep, TraceFile, grammar_comments, induction_config, read_trace
from nqg.plotting import check_picture
from nqg.run_config import RunConfig
from nqg.settings_reader import read_dataclass

WINDOW = 20  # steps over which speed is measured

file_option = partial(typer.Option, metavar="FILE", rich_help_panel="Files")
OUTPUT = file_option(..., "-o", "--output", help="Where to write the rules.")
SEED_RULES = file_option(None, "--seed-rules", help="Rules to start with, besides the examples.")
TARGET_GRAMMAR = file_option(None, "--target-grammar", help="Propose only rules for parts of these legal programs.")
TRACE = file_option(None, "--trace", help="Record every step as a line of JSON, as it is made.")
RESUME = file_option(None, "--resume", help="Continue where this trace ends, and append to it.")
PLOT = file_option(None, "--plot", help="Draw description length over the steps, .png or .svg.")

CHOSEN: dict[str, Any] = {"show_default": "chosen by trials"}

objective = partial(setting_option, InductionSettings.automatic(), panel="Objective")
TERMINAL_BITS = objective("terminal_bits", "BITS", "Cost of a terminal in a rule.")
NON_TERMINAL_BITS = objective("non_terminal_bits", "BITS", "Cost of a non-terminal in a rule.")
DATA_WEIGHT = objective("data_weight", "W", "Weight of ambiguity in the ranking of rules.", **CHOSEN)
MINIMUM_GAIN = objective("minimum_gain", "BITS", "Stop when no rule saves more than this.")

search = partial(setting_option, InductionSettings.automatic(), panel="Search")
SHORTEST = search("shortest", "N|all", "Search only the N shortest examples.")
STAGES = search("stages", "K", "Then double these up to K times with examples not yet derivable.")
SAMPLE = search("sample", "K|all", "Judge a rule on K of the examples that it affects.")
MAX_NON_TERMINALS = search("max_non_terminals", "N", "Maximum number of non-terminals in a rule.", **CHOSEN)
SEED = search("seed", "S", "Seed of the random --sample.")

rules = partial(setting_option, InductionSettings.automatic(), metavar="", panel="Rules")
IDENTITY_RULES = rules("identity_rules", words="Start with rules for strings that both sides share.")
REPEATED_TARGETS = rules("repeated_targets", words="Allow NT_1 more than once in a target.", **CHOSEN)
BALANCED = rules("balanced", words="Allow only rules with balanced parentheses.")
BARE_TARGETS = rules("bare_targets", words="Allow targets that are a non-terminal alone.")
FACTORING = rules("factoring", words="Near the end, split rules into two new ones.", **CHOSEN)
FRAME = rules("frame", words="First search without what all targets begin and end with.", **CHOSEN)
LEXICAL = rules("lexical", words="Start with rules for words and tokens that occur together.", **CHOSEN)
RETURNING = rules("returning", words="Try to do without each rule, and search its examples again.")
FITTED = objective("fitted", "", "Weigh derivations by fitted probabilities where grammars are compared.")
BUDGET = typer.Option(
    EVALUATIONS,
    "--budget",
    metavar="EVALUATIONS",
    min=0,
    help="Most looks at grammars, a millisecond or two each, to choose settings.",
    rich_help_panel="Search",
)
PRUNING = rules("pruning", words="Finally, remove rules that no example needs.")


def induce(
    context: typer.Context,
    data: Path = EXAMPLES,
    output: Path = OUTPUT,
    settings: Path | None = SETTINGS,
    like: str | None = LIKE,
    terminal_bits: float | None = TERMINAL_BITS,
    non_terminal_bits: float | None = NON_TERMINAL_BITS,
    data_weight: float | None = DATA_WEIGHT,
    minimum_gain: float | None = MINIMUM_GAIN,
    identity_rules: bool | None = IDENTITY_RULES,
    repeated_targets: bool | None = REPEATED_TARGETS,
    balanced: bool | None = BALANCED,
    bare_targets: bool | None = BARE_TARGETS,
    frame: bool | None = FRAME,
    lexical: bool | None = LEXICAL,
    fitted: bool | None = FITTED,
    returning: bool | None = RETURNING,
    shortest: str | None = SHORTEST,
    stages: int | None = STAGES,
    sample: str | None = SAMPLE,
    factoring: bool | None = FACTORING,
    pruning: bool | None = PRUNING,
    max_non_terminals: int | None = MAX_NON_TERMINALS,
    seed: int | None = SEED,
    budget: int = BUDGET,
    seed_rules: Path | None = SEED_RULES,
    target_grammar: Path | None = TARGET_GRAMMAR,
    trace: Path | None = TRACE,
    resume: Path | None = RESUME,
    plot: Path | None = PLOT,
    as_json: bool = JSON,
) -> None:
    """Learn the smallest grammar that explains pairs of strings.

    Example: nqg induce train.tsv -o grammar.txt --trace steps.jsonl

    Every example can be derived from the grammar after each step of the search.
    Ctrl-C stops it: the grammar reached so far is written, and the exit code is
    130. A second Ctrl-C ends the command at once, without a grammar.

    Without --like or an induction table in --settings, trial searches choose the
    settings that lead to the shortest description of the examples; --verbose
    shows them. Options override --like, which overrides --settings.
    """
    _check_output(output, data, trace, resume)
    check_picture(plot)
    given = given_induction_settings(context.params)
    project = read_settings(settings) if settings else ProjectSettings()
    legal, raw = TargetGrammar.read(target_grammar) if target_grammar else None, required_examples(data)
    text = fit_text(raw, project.text, project.slots, settings)
    examples, values, seeds = tokenized(raw, text), Values.of(raw, text), list[Rule]()
    if values:  # as in `nqg train`
        examples, seeds, legal = values.searched(examples, legal or infer_target_grammar(values.programs(examples)))
    base = induction_settings(like, context.params, project.induction)
    with interruptible(f"{output} was not written"):
        if not like and not project.induction:
            if values:
                base = InductionSettings.for_slots().changed(**given)
            elif resume:  # with the settings of the search whose trace this is
                recorded = read_dataclass(InductionSettings, read_trace(resume).header.settings, "the settings", resume)
                base = recorded.changed(**given)
            else:
                base, is_cut = choose_settings(examples, given, legal, budget)
                if is_cut:
                    err.print(f"settings are the best of the trials in {budget:,} evaluations; --budget allows more")
        detail(f"[induction] {in_words(base)}")
        seeds += Grammar.read(seed_rules, base.max_non_terminals) if seed_rules else ()
        induced = run(examples, base, seeds, legal, trace, resume)
        if values:
            read = with_slots(induced.grammar, text.slots.free_text)
            induced = replace(induced, grammar=Grammar.of(read, max(rule.arity for rule in read)))
    induced.write(output)
    if as_json:
        out.print_json(data=induced.to_dict() | {"file": str(output)})
    else:
        _print_report(induced, len(examples))
    if plot:
        write_plot(plot, induced.trace)
    report_written(output, *filter(None, [resume or trace, plot]))
    if not induced.is_finished:
        raise typer.Exit(STOPPED)


def _check_output(output: Path, data: Path, trace: Path | None, resume: Path | None) -> None:
    if trace and resume:
        raise typer.BadParameter("--resume continues its own trace; omit --trace", param_hint="--trace")
    if output.resolve() in [path.resolve() for path in (data, trace, resume) if path]:
        raise NqgError(f"{output}: the grammar would overwrite a file that is in use; choose another with -o")
    if output.is_dir():
        raise NqgError(f"{output}: expected a file to write the grammar to, found a folder")
    if not output.parent.is_dir():
        raise NqgError(f"{output}: the folder {output.parent} does not exist")


def _print_report(induced: Induced, examples: int) -> None:
    if not induced.is_finished:
        err.print(f"stopped after step {induced.steps:,}: the grammar is valid, but not yet as small as it can be")
    length = induced.length
    found = counted(len(induced.grammar), "rule"), counted(examples, "example"), counted(induced.steps, "step")
    out.print("{} from {}, {}".format(*found))
    out.print(f"{length.total:,.1f} bits: {length.grammar_bits:,.1f} grammar, {length.data_bits:,.1f} data")


def choose_settings(
    examples: Sequence[Example], given: Mapping[str, Any], legal: TargetGrammar | None, budget: int
) -> tuple[InductionSettings, bool]:
    """The settings that lead to the shortest description in trials, and whether `budget` did not allow all of them."""
    best = InductionSettings.automatic().changed(**given)
    started, is_cut = time.monotonic(), False

    def is_over(evaluations: int) -> bool:
        nonlocal is_cut
        is_cut = evaluations > budget
        return is_cut or stop.is_set()

    with stop_requests() as stop, search_line(stop) as line:
        for trial in trials(examples, given, legal, is_over):
            best = trial.best
            line.show(f"choosing settings: {trial}", trial.rules, trial.length.total, time.monotonic() - started)
            detail(f"[trial] {trial}: {trial.rules:,} rules, {trial.length.total:,.1f} bits{', best' * trial.is_best}")
        if stop.is_set():
            raise KeyboardInterrupt("the trials were stopped")
    return best, is_cut


@dataclass(frozen=True, slots=True)
class Induced:
    """The result of a run; `is_finished` is false if the user stopped it."""

    grammar: Grammar
    length: DescriptionLength  # on all examples
    config: RunConfig
    trace: Trace  # every step, including those of an earlier run
    seconds: float
    is_finished: bool

    @property
    def steps(self) -> int:
        return len(self.trace.steps)

    def write(self, path: Path) -> None:
        """The grammar, under comments that say how it was made: same input, same bytes."""
        stopped = "" if self.is_finished else ", where the search was stopped"
        comments = [
            *grammar_comments(self.config),
            f"# {len(self.grammar):,} rules after {self.steps:,} steps{stopped}",
            f"# description length on the examples: {self.length.grammar_bits:,.2f} for the grammar, "
            f"{self.length.data_bits:,.2f} for the data",
        ]
        write_text(path, "\n".join([*comments, f"{self.grammar}\n"]))

    def to_dict(self) -> dict[str, Any]:
        return {
            "rules": len(self.grammar),
            "examples": self.config.data.examples,
            "steps": self.steps,
            "finished": self.is_finished,
            **asdict(self.length),
            "seconds": round(self.seconds, 3),
            "settings": dict(self.config.settings),
            "data_sha256": self.config.data.fingerprint,
        }


def run(
    examples: Sequence[Example],
    settings: InductionSettings,
    seed_rules: Iterable[Rule] = (),
    target_grammar: TargetGrammar | None = None,
    trace: Path | None = None,
    resume: Path | None = None,
) -> Induced:
    """Induce a grammar, from the beginning or from where the trace `resume` ends, until done or stopped by Ctrl-C."""
    seeds = list(seed_rules)
    config = induction_config(examples, settings, seeds, target_grammar)
    past = _past(resume, config) if resume else None
    path = resume or trace
    with stop_requests() as stop, search_line(stop) as line:
        started = time.monotonic()
        induction = Induction(examples, settings, seeds, target_grammar)
        header = Header.of(config, induction.searched_rules, induction.length)
        steps = list(past.steps) if past else []
        with TraceFile.opened(path, past or header) if path else nullcontext() as file:
            if past:
                _replay(induction, past)
                started = time.monotonic() - past.seconds
            found, is_finished = induction.steps(), past is not None and past.is_finished
            while not is_finished and not stop.is_set():
                step = next(found, None)
                is_finished = step is None
                if step:
                    seconds = time.monotonic() - started
                    line.show(step.phase, step.rules, step.length.total, seconds)
                    steps.append(TracedStep(len(steps) + 1, step, seconds))
                if file:
                    file.add(steps[-1] if step else None)
        grammar = induction.grammar
        length = description_length(grammar, examples, settings)
        whole = Trace(header, tuple(steps), size=0)
        return Induced(grammar, length, config, whole, time.monotonic() - started, is_finished)


def _past(path: Path, config: RunConfig) -> Trace:
    """The trace to continue, which must be one of the same search."""
    past = read_trace(path)
    if difference := config.difference(past.header.config):
        raise NqgError(f"{path}: cannot be resumed, {difference}")
    if past.is_cut:
        err.print(f"{path}: the last line was cut short and is dropped")
    state = "finished" if past.is_finished else "continuing"
    err.print(f"{path}: {state} after step {len(past.steps):,}")
    return past


def _replay(induction: Induction, past: Trace) -> None:
    induction.replay(traced.step for traced in past.steps)
    same_bits = math.isclose(induction.length.total, past.length.total, rel_tol=1e-9, abs_tol=1e-6)
    if induction.searched_rules != past.rules or not same_bits:
        raise NqgError(
            f"the trace is damaged: its steps lead to {induction.searched_rules:,} rules with "
            f"{induction.length.total:,.2f} bits, its last line says {past.rules:,} with {past.length.total:,.2f}"
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


@contextmanager
def search_line(stop: Event) -> Iterator[SearchLine]:
    """A line that follows a search; nothing is drawn if stderr is not a terminal."""
    line = SearchLine(stop)
    with Live(line, console=err, refresh_per_second=8, transient=True) if err.is_terminal else nullcontext():
        yield line


@dataclass(slots=True)
class SearchLine:
    """The state of a search as one line of text, drawn several times a second while it is on screen."""

    stop: Event = field(default_factory=Event)
    phase: str = "looking at the examples (the very first run takes longer: it compiles)"
    rules: int = 0
    bits: float = 0.0
    recent: deque[tuple[float, float]] = field(default_factory=lambda: deque(maxlen=WINDOW + 1))  # (seconds, bits)

    def show(self, phase: str, rules: int, bits: float, seconds: float) -> None:
        """One more step, which ended `seconds` after the beginning."""
        self.phase, self.rules, self.bits = phase, rules, bits
        self.recent.append((seconds, bits))

    def __str__(self) -> str:
        if not self.recent:
            return f"{self.phase} …"
        parts = [self.phase, f"{self.rules:,} rules", f"{self.bits:,.0f} bits"]
        (began, before), (ended, after) = self.recent[0], self.recent[-1]
        seconds, saved = ended - began, before - after
        if self.stop.is_set():
            parts.append("stopping after this step")
        elif seconds > 0 and len(self.recent) > 1:
            parts.append(f"{(len(self.recent) - 1) / seconds:,.3g} steps/s")
            if saved > 0:  # nobody knows when a search will end; this can be far off (docs/induction.md)
                parts.append(f"0 bits in ~{duration(after * seconds / saved)}")
        return " · ".join(parts)

    def __rich__(self) -> Text:
        return Text(str(self), style="dim", no_wrap=True, overflow="ellipsis")


def duration(seconds: float) -> str:
    """A rough duration in words.

    >>> duration(0.4), duration(75), duration(5000), duration(1e6)
    ('1 s', '1 min', '1.4 h', 'days')
    """
    if seconds < 60:
        return f"{max(1, round(seconds))} s"
    if seconds < 3600:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h" if seconds < 86_400 else "days"
