"""What a training reports while it runs: events for a progress bar, a log or a notebook."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from nqg.errors import counted
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
    """A stage of a training begins: the `number` of it, of how many in `total`, where that is known.

    >>> StageStarted(Stage.GRAMMAR, 3, 5).stage == "grammar"
    True
    """

    stage: Stage
    number: int = 0
    total: int = 0


@dataclass(frozen=True)
class Notice:
    """One line for a person; its `level` is "detail", "note" or "warning".

    >>> Notice("48 rules induced from 150 examples").level == "note"
    True
    """

    text: str
    level: Level = Level.NOTE


@dataclass(frozen=True)
class WorkDone:
    """How far a piece of work is; the total may be unknown.

    Work on a held-out fold says which `fold` of how many `folds` it is.

    >>> work = WorkDone("steps", 30, 60)
    >>> print(f"{work.what}: {work.done / work.total:.0%}")
    steps: 50%
    """

    what: str
    done: int
    total: int | None
    fold: int = 0
    folds: int = 0


@dataclass(frozen=True)
class TrainReport:
    """The figures of a training: its last event. `print(report)` is a summary.

    `repeated` examples were there before, no derivation yields the program of those `left_out`, and
    the `loss` is that of the last step. `slots` and `functions` are what was found in the examples.
    `calibrator.expected` says how held-out sentences fare, and `next_steps` what would help most.

    >>> import nqg
    >>> pairs = [(f"turn {state} the {name}", f"turn_{state}({name})")
    ...          for state in ("on", "off") for name in ("lamp", "radio", "heater", "fan", "oven")]
    >>> events = []
    >>> settings = nqg.TrainSettings(confidence=nqg.ConfidenceSettings(folds=0))
    >>> parser = nqg.train(pairs, settings=settings, listener=events.append)
    >>> print(events[-1])  # doctest: +ELLIPSIS
    10 examples, ...
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

    @property
    def found(self) -> str:
        """The functions and slots that training found, in words; nothing where there are none."""
        findings = []
        if self.functions:
            findings.append(counted(len(self.functions), "function"))
        if self.slots:
            findings.append(f"the slots {', '.join(self.slots)}")
        return f"found {' and '.join(findings)}" if findings else ""

    def __str__(self) -> str:
        """What was learned, what to expect of new sentences, and what to do next."""
        lines = [
            f"{counted(self.examples, 'example')}, {counted(self.rules, 'rule')}, "
            f"{counted(self.steps, 'step')}"
        ]
        if self.found:
            lines.append(self.found)
        if self.left_out:
            lines.append(f"no derivation yields {counted(self.left_out, 'program')}")
        if self.calibrator:
            lines.append(str(self.calibrator))
        for number, step in enumerate(self.next_steps, start=1):
            lines.append(f"{number}. {step}")
        return "\n".join(lines)


Event = StageStarted | Notice | WorkDone | TrainReport
Listener = Callable[[Event], None]


def ignore(event: Event) -> None:
    """The listener of a training that nobody watches."""


def only_warnings(event: Event) -> None:
    """The listener of a training without one: warnings go to the logger `nqg`, which Python shows on
    stderr unless told otherwise.
    """
    if isinstance(event, Notice) and event.level is Level.WARNING:
        logging.getLogger("nqg").warning("%s", event.text)


def only_progress(listener: Listener) -> Listener:
    """A listener to a training inside of another one, of which only the progress matters."""

    def listen(event: Event) -> None:
        if isinstance(event, WorkDone):
            listener(event)

    return listen
