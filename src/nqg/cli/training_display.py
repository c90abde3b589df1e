"""A training on the terminal: messages, and a bar drawn from the events of `nqg.pipeline`."""

from __future__ import annotations

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

    def __init__(self) -> None:
        super().__init__()
        self.report: TrainReport | None = None
        self._bar: Progress | None = None
        self._stage = ""

    def __call__(self, event: Event) -> None:
        match event:
            case StageStarted(stage, number, total):
                # Every stage has its own bar, which moves from the beginning.
                self.close()
                self._stage = NAMES[stage]
                if number:
                    self._stage = f"{number}/{total} {NAMES[stage]}"
                self._bar = self.enter_context(progress_bar())
                self._bar(self._stage, 0, None)
            case Notice(text, Level.DETAIL):
                detail(text)
            case Notice(text):
                err.print(text)
            case WorkDone(what, done, total):
                if self._bar is None:
                    self._bar = self.enter_context(progress_bar())
                self._bar(f"{self._stage} · {what}".strip(" ·"), done, total)
            case TrainReport():
                self.report = event
