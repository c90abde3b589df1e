"""A training on the terminal: a bar, or a line that follows a search, drawn from the events of `nqg.pipeline`."""

from __future__ import annotations

from collections import deque
from contextlib import ExitStack
from dataclasses import dataclass, field
from types import TracebackType

from rich.live import Live
from rich.text import Text

from nqg.cli.terminal import detail, err, progress_bar
from nqg.pipeline.events import (
    Event,
    Level,
    Notice,
    SearchProgress,
    StageStarted,
    TrainReport,
    WorkDone,
)
from nqg.progress import Progress

SPEED_WINDOW = 20  # steps over which speed is measured
FIRST_PHASE = "looking at the examples (the very first run takes longer: it compiles)"


class TrainingDisplay:
    """A listener of a training; nothing but messages is drawn if stderr is not a terminal."""

    def __init__(self) -> None:
        self.report: TrainReport | None = None
        self._drawn = ExitStack()
        self._bar: Progress | None = None
        self._line: SearchLine | None = None

    def __enter__(self) -> TrainingDisplay:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._clear()

    def __call__(self, event: Event) -> None:
        match event:
            case StageStarted():
                self._clear()
            case Notice(text, Level.DETAIL):
                detail(text)
            case Notice(text):
                err.print(text)
            case WorkDone(what, done, total):
                if self._bar is None:
                    self._clear()
                    self._bar = self._drawn.enter_context(progress_bar())
                self._bar(what, done, total)
            case SearchProgress():
                if self._line is None:
                    self._clear()
                    self._line = SearchLine()
                    self._line.draw(self._drawn)
                self._line.show(event)
            case TrainReport():
                self.report = event

    def _clear(self) -> None:
        self._drawn.close()
        self._bar = self._line = None


@dataclass(slots=True)
class SearchLine:
    """The state of a search as one line of text, drawn several times a second while it is on screen."""

    phase: str = FIRST_PHASE
    rules: int = 0
    bits: float = 0.0
    recent: deque[tuple[float, float]] = field(
        default_factory=lambda: deque(maxlen=SPEED_WINDOW + 1)
    )  # (seconds, bits)

    def draw(self, drawn: ExitStack) -> None:
        """Keep the line on screen until `drawn` is closed."""
        if err.is_terminal:
            drawn.enter_context(Live(self, console=err, refresh_per_second=8, transient=True))

    def show(self, event: SearchProgress) -> None:
        self.phase, self.rules, self.bits = event.phase, event.rules, event.bits
        self.recent.append((event.seconds, event.bits))

    def __str__(self) -> str:
        if not self.recent:
            return f"{self.phase} …"
        words = [self.phase, f"{self.rules:,} rules", f"{self.bits:,.0f} bits"]
        (began, before), (ended, after) = self.recent[0], self.recent[-1]
        seconds, saved = ended - began, before - after
        if seconds > 0 and len(self.recent) > 1:
            words.append(f"{(len(self.recent) - 1) / seconds:,.3g} steps/s")
            if (
                saved > 0
            ):  # nobody knows when a search will end; this can be far off (docs/induction.md)
                words.append(f"0 bits in ~{duration(after * seconds / saved)}")
        return " · ".join(words)

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
