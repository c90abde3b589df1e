"""What a training says while it runs: events for a progress bar, a log, a notebook, or nobody."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from nqg.evaluation.metrics import Scores


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


@dataclass(frozen=True, slots=True)
class StageStarted:
    stage: Stage


@dataclass(frozen=True, slots=True)
class Notice:
    """One line for a person."""

    text: str
    level: Level = Level.NOTE


@dataclass(frozen=True, slots=True)
class WorkDone:
    """How far a piece of work is; the total is None where nobody knows it."""

    what: str
    done: int
    total: int | None


@dataclass(frozen=True, slots=True)
class SearchProgress:
    """The state of a search for rules: what it is doing, how many rules it has, and their description length."""

    phase: str
    rules: int
    bits: float
    seconds: float


@dataclass(frozen=True, slots=True)
class TrainReport:
    """What came of a training, in figures: its last event."""

    rules: int
    examples: int
    repeated: int  # examples that were there before
    left_out: int  # examples whose program no derivation yields
    steps: int
    loss: float  # of the last step
    best_step: int | None
    dev: dict[str, Any] | None
    confidence: str = ""
    held_out: dict[str, int] | None = None
    gate: str = ""
    dev_scores: Scores | None = None


Event = StageStarted | Notice | WorkDone | SearchProgress | TrainReport
Listener = Callable[[Event], None]


def ignore(event: Event) -> None:
    """The listener of a training that nobody watches."""
