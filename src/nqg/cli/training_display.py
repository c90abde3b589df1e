"""A training on the terminal: messages, and a bar drawn from the events of `nqg.pipeline`."""

from __future__ import annotations

from contextlib import ExitStack

from nqg.cli.terminal import detail, err, progress_bar
from nqg.pipeline.events import (
    Event,
    Level,
    Notice,
    StageStarted,
    TrainReport,
    WorkDone,
)
from nqg.progress import Progress


class TrainingDisplay(ExitStack):
    """A listener of a training; nothing but messages is drawn if stderr is not a terminal."""

    def __init__(self) -> None:
        super().__init__()
        self.report: TrainReport | None = None
        self._bar: Progress | None = None

    def __call__(self, event: Event) -> None:
        match event:
            case StageStarted():
                # Every stage has its own bar, which is made when its first work is
                # done.
                self.close()
                self._bar = None
            case Notice(text, Level.DETAIL):
                detail(text)
            case Notice(text):
                err.print(text)
            case WorkDone(what, done, total):
                if self._bar is None:
                    self._bar = self.enter_context(progress_bar())
                self._bar(what, done, total)
            case TrainReport():
                self.report = event
