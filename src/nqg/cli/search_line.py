"""A search before the eyes of its user: the line that it draws on stderr, and the user's wish to stop it."""

from __future__ import annotations

import signal
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType

from rich.live import Live
from rich.text import Text

from nqg.cli.terminal import err

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
