"""What a training reports while it runs: events for a progress bar, a log or a notebook."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from nqg.evaluation.metrics import Scores
from nqg.model.confidence import Calibrator
from nqg.pipeline.advice import NextStep


class Stage(StrEnum):
    """The stages of a training, in their order."""

    TEXT = "text"
    TYPES = "types"
    GRAMMAR = "grammar"
    PARSER = "parser"
    SEQ2SEQ = "seq2seq"
    CONFIDENCE = "confidence"


class Level(StrEnum):
    """How much a message matters: details are for those who ask for them."""

    DETAIL = "detail"
    NOTE = "note"
    WARNING = "warning"


@dataclass(frozen=True)
class StageStarted:
    """A stage, and which one of how many it is, where that is known."""

    stage: Stage
    number: int = 0
    total: int = 0


@dataclass(frozen=True)
class Notice:
    """One line for a person."""

    text: str
    level: Level = Level.NOTE


@dataclass(frozen=True)
class WorkDone:
    """How far a piece of work is; the total may be unknown.

    Work on a held-out fold says which `fold` of how many `folds` it is.
    """

    what: str
    done: int
    total: int | None
    fold: int = 0
    folds: int = 0


@dataclass(frozen=True)
class TrainReport:
    """The figures of a training: its last event.

    `repeated` examples were there before, no derivation yields the program of those `left_out`, and
    the `loss` is that of the last step. `slots` and `functions` are what was found in the examples.
    """

    rules: int
    examples: int
    repeated: int
    left_out: int
    steps: int
    loss: float
    best_step: int | None
    dev: dict[str, Any] | None
    calibrator: Calibrator | None = None
    dev_scores: Scores | None = None
    slots: tuple[str, ...] = ()
    functions: tuple[str, ...] = ()
    next_steps: tuple[NextStep, ...] = ()


Event = StageStarted | Notice | WorkDone | TrainReport
Listener = Callable[[Event], None]


def ignore(event: Event) -> None:
    """The listener of a training that nobody watches."""


def only_progress(listener: Listener) -> Listener:
    """A listener to a training inside of another one, of which only the progress matters."""

    def listen(event: Event) -> None:
        if isinstance(event, WorkDone):
            listener(event)

    return listen
