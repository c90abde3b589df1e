"""A training on the terminal: messages, and a bar drawn from the events of `nqg.pipeline`."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack

from nqg.cli.terminal import detail, err, progress_bar
from nqg.pipeline.events import (
    Event,
    Level,
    Notice,
    Stage,
    StageStarted,
    TrainReport,
    WorkDone,
)
from nqg.progress import Progress

# The stages, in the words of somebody who watches.
NAMES = {
    Stage.TEXT: "text",
    Stage.TYPES: "types",
    Stage.GRAMMAR: "rules",
    Stage.PARSER: "model",
    Stage.SEQ2SEQ: "second reader",
    Stage.CONFIDENCE: "confidence",
}


class TrainingDisplay(ExitStack):
    """A listener of a training; nothing but messages is drawn if stderr is not a terminal."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._started = clock()
        self.report: TrainReport | None = None
        self._bar: Progress | None = None
        self._stage = ""

    def __call__(self, event: Event) -> None:
        match event:
            case StageStarted(stage, number, total):
                # Every stage has its own bar, which moves from the beginning.
                self.close()
                self._stage = NAMES[stage]
                self._started = self._clock()
                if number:
                    self._stage = f"{number}/{total} {NAMES[stage]}"
                self._bar = self.enter_context(progress_bar())
                self._bar(self._stage, 0, None)
            case Notice(text, Level.DETAIL):
                detail(text)
            case Notice(text):
                err.print(text)
            case WorkDone(what, done, total, fold, folds):
                if self._bar is None:
                    self._bar = self.enter_context(progress_bar())
                # A fold is trained in many steps; the bar counts the folds.
                if fold:
                    what += self._time_left(fold, folds)
                    done, total = fold - 1, folds
                self._bar(f"{self._stage} · {what}".strip(" ·"), done, total)
            case TrainReport():
                self.report = event

    def _time_left(self, fold: int, folds: int) -> str:
        """How long the folds that are left take, if they take as long as those before."""
        done = fold - 1
        if not done:
            return ""
        seconds = (self._clock() - self._started) * (folds - done) / done
        return f" · ~{seconds:.0f} s left"
