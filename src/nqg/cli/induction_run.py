"""One run of a search under the eyes of a user: drawn as it goes, traced, stopped cleanly, taken up again."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from nqg.cli.search_line import SearchLine, StopRequest, search_line, stop_requests
from nqg.cli.terminal import Stopwatch, err
from nqg.data.example import Example
from nqg.errors import NqgError
from nqg.files import write_text
from nqg.grammar.grammar import Grammar
from nqg.grammar.rule import Rule
from nqg.induction.description_length import DescriptionLength, description_length
from nqg.induction.induce import Induction
from nqg.induction.origin import Origin
from nqg.induction.settings import InductionSettings
from nqg.induction.trace import Header, Trace, TracedStep, read_trace
from nqg.induction.trace_file import TraceFile, begun_trace, continued_trace


@dataclass(frozen=True, slots=True)
class Induced:
    """What a run led to; `is_finished` is false where the user stopped it."""

    grammar: Grammar
    length: DescriptionLength  # on all examples
    origin: Origin
    trace: Trace  # every step, also those of an earlier run
    seconds: float
    is_finished: bool

    @property
    def steps(self) -> int:
        """How many steps were made."""
        return len(self.trace.steps)

    def write(self, path: Path) -> None:
        """The grammar, under comments that say how it was made: same input, same bytes."""
        stopped = "" if self.is_finished else ", where the search was stopped"
        bits = f"{self.length.grammar_bits:,.2f} for the grammar, {self.length.data_bits:,.2f} for the data"
        comments = [*self.origin.comments(), f"# {len(self.grammar):,} rules after {self.steps:,} steps{stopped}"]
        write_text(path, "\n".join([*comments, f"# description length on the examples: {bits}", f"{self.grammar}\n"]))


def run(
    examples: Sequence[Example],
    settings: InductionSettings,
    seed_rules: Iterable[Rule] = (),
    trace: Path | None = None,
    resume: Path | None = None,
) -> Induced:
    """Induce a grammar, from the beginning or from where a trace ends."""
    seeds = list(seed_rules)
    origin = Origin.of(examples, settings, seeds)
    past = _past(resume, origin) if resume else None
    with stop_requests() as stop, search_line(stop) as line:
        watch = Stopwatch()
        induction = Induction(examples, settings, seeds)
        header = Header(origin, induction.searched_rules, induction.length)
        steps = list(past.steps) if past else []
        with _trace_file(header, trace, resume, past) as file:
            if past:
                _replay(induction, past)
                line.steps, watch = len(past.steps), Stopwatch(past.seconds)
            is_finished = _searched(induction, line, stop, watch, Notes(steps, file))
        grammar = induction.grammar
        length = description_length(grammar, examples, settings)
        whole = Trace(header, tuple(steps), size=0, is_cut=False)
        return Induced(grammar, length, origin, whole, watch.seconds, is_finished)


@dataclass(frozen=True, slots=True)
class Notes:
    """Where the steps of a search are kept: in memory and, where one is wanted, in a file."""

    steps: list[TracedStep]
    file: TraceFile | None

    def add(self, step: TracedStep) -> None:
        """Keep one more step."""
        self.steps.append(step)
        if self.file:
            self.file.add(step)


def _past(path: Path, origin: Origin) -> Trace:
    """The trace to go on with, which must be one of the same search."""
    past = read_trace(path)
    if difference := origin.difference(past.header.origin):
        raise NqgError(f"{path}: cannot be resumed, {difference}")
    if past.is_cut:
        err.print(f"{path}: the last line was cut short and is dropped")
    err.print(f"{path}: going on after step {len(past.steps):,}")
    return past


def _trace_file(
    header: Header, trace: Path | None, resume: Path | None, past: Trace | None
) -> AbstractContextManager[TraceFile | None]:
    if resume and past:
        return continued_trace(resume, past)
    return begun_trace(trace, header) if trace else nullcontext()


def _replay(induction: Induction, past: Trace) -> None:
    induction.replay(traced.step for traced in past.steps)
    same_bits = math.isclose(induction.length.total, past.length.total, rel_tol=1e-9, abs_tol=1e-6)
    if induction.searched_rules != past.rules or not same_bits:
        raise NqgError(
            f"the trace is damaged: its steps lead to {induction.searched_rules:,} rules with "
            f"{induction.length.total:,.2f} bits, its last line says {past.rules:,} with {past.length.total:,.2f}"
        )


def _searched(induction: Induction, line: SearchLine, stop: StopRequest, watch: Stopwatch, notes: Notes) -> bool:
    """Make steps until there are no more, or until the user asks to stop; whether there are no more."""
    steps = induction.steps()
    while not stop.is_made:
        step = next(steps, None)
        if step is None:
            return True
        line.show(step.phase, step.rules, step.length.total, watch.seconds)
        notes.add(TracedStep(line.steps, step, watch.seconds))
    return False
