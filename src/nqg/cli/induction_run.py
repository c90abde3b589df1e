"""One run of a search under the eyes of a user: drawn as it goes, traced, stopped cleanly, taken up again."""

from __future__ import annotations

import math
import signal
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

from rich.live import Live
from rich.text import Text

from nqg.cli.terminal import Stopwatch, err
from nqg.data.examples import Example
from nqg.errors import NqgError
from nqg.files import write_text
from nqg.grammar.grammar import Grammar
from nqg.grammar.rule import Rule
from nqg.induction.description_length import DescriptionLength, description_length
from nqg.induction.induce import Induction
from nqg.induction.settings import InductionSettings
from nqg.induction.trace import Header, Trace, TracedStep, TraceFile, grammar_comments, induction_config, read_trace
from nqg.run_config import RunConfig

WINDOW = 20  # steps over which speed is measured


@dataclass(slots=True)
class StopRequest:
    """Whether the user has asked to stop."""

    is_made: bool = False


@contextmanager
def stop_requests() -> Iterator[StopRequest]:
    """Let the first Ctrl-C be a request, which tears no step apart, and the second one an interruption."""
    request = StopRequest()

    def note(number: int, frame: FrameType | None) -> None:
        request.is_made = True
        signal.signal(signal.SIGINT, signal.default_int_handler)

    before = signal.signal(signal.SIGINT, note)
    try:
        yield request
    finally:
        signal.signal(signal.SIGINT, before)


@dataclass(slots=True)
class SearchLine:
    """The state of a search as one line of text, drawn anew several times a second while it is on screen."""

    stop: StopRequest = field(default_factory=StopRequest)
    phase: str = "looking at the examples (the very first run takes longer: it compiles)"
    rules: int = 0
    bits: float = 0.0
    steps: int = 0
    _recent: deque[tuple[float, float]] = field(default_factory=lambda: deque(maxlen=WINDOW + 1))  # (seconds, bits)

    def show(self, phase: str, rules: int, bits: float, seconds: float) -> None:
        """One more step, which ended `seconds` after the beginning."""
        self.phase, self.rules, self.bits = phase, rules, bits
        self.steps += 1
        self._recent.append((seconds, bits))

    def __str__(self) -> str:
        if not self._recent:
            return f"{self.phase} …"
        parts = [self.phase, f"{self.rules:,} rules", f"{self.bits:,.0f} bits"]
        parts += ["stopping after this step"] if self.stop.is_made else self._speed()
        return " · ".join(parts)

    def _speed(self) -> list[str]:
        """Steps per second, and when nothing would be left to save if every second went on saving as many bits.

        Nobody knows when a search will end; this is what can be said, and it can be far off (docs/induction.md).
        """
        (began, before), (ended, after) = self._recent[0], self._recent[-1]
        seconds, saved = ended - began, before - after
        if seconds <= 0 or len(self._recent) < 2:
            return []
        speed = f"{(len(self._recent) - 1) / seconds:,.3g} steps/s"
        return [speed, f"0 bits in ~{_duration(after * seconds / saved)}"] if saved > 0 else [speed]

    def __rich__(self) -> Text:
        return Text(str(self), style="dim", no_wrap=True, overflow="ellipsis")


def _duration(seconds: float) -> str:
    """A rough duration in words.

    >>> _duration(0.4), _duration(75), _duration(5000), _duration(1e6)
    ('1 s', '1 min', '1.4 h', 'days')
    """
    if seconds < 60:
        return f"{max(1, round(seconds))} s"
    if seconds < 3600:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h" if seconds < 86_400 else "days"


@contextmanager
def search_line(stop: StopRequest) -> Iterator[SearchLine]:
    """A line that follows a search; nothing is drawn where stderr is no terminal."""
    line = SearchLine(stop)
    if not err.is_terminal:
        yield line
        return
    with Live(line, console=err, refresh_per_second=8, transient=True):
        yield line


@dataclass(frozen=True, slots=True)
class Induced:
    """What a run led to; `is_finished` is false where the user stopped it."""

    grammar: Grammar
    length: DescriptionLength  # on all examples
    config: RunConfig
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
        comments = [
            *grammar_comments(self.config),
            f"# {len(self.grammar):,} rules after {self.steps:,} steps{stopped}",
        ]
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
    config = induction_config(examples, settings, seeds)
    past = _past(resume, config) if resume else None
    with stop_requests() as stop, search_line(stop) as line:
        watch = Stopwatch()
        induction = Induction(examples, settings, seeds)
        header = Header.of(config, induction.searched_rules, induction.length)
        steps = list(past.steps) if past else []
        with _trace_file(header, trace, resume, past) as file:
            if past:
                _replay(induction, past)
                line.steps, watch = len(past.steps), Stopwatch(past.seconds)
            is_finished = _searched(induction, line, stop, watch, Notes(steps, file))
        grammar = induction.grammar
        length = description_length(grammar, examples, settings)
        whole = Trace(header, tuple(steps), size=0, is_cut=False)
        return Induced(grammar, length, config, whole, watch.seconds, is_finished)


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


def _past(path: Path, config: RunConfig) -> Trace:
    """The trace to go on with, which must be one of the same search."""
    past = read_trace(path)
    if difference := config.difference(past.header.config):
        raise NqgError(f"{path}: cannot be resumed, {difference}")
    if past.is_cut:
        err.print(f"{path}: the last line was cut short and is dropped")
    err.print(f"{path}: going on after step {len(past.steps):,}")
    return past


def _trace_file(
    header: Header, trace: Path | None, resume: Path | None, past: Trace | None
) -> AbstractContextManager[TraceFile | None]:
    if resume and past:
        return TraceFile.opened(resume, past)
    return TraceFile.opened(trace, header) if trace else nullcontext()


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
