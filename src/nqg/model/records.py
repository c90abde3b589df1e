"""What training tells about itself: one record a step, with scores on held-out examples where they were taken."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DevScores:
    """How a model does on held-out examples: the share it gets right, and the mean loss of those that it can learn.

    >>> DevScores(0.75, 0.2).is_better_than(DevScores(0.75, 0.3))
    True
    """

    exact_match: float
    loss: float | None  # none where the grammar derives no held-out example

    def is_better_than(self, other: DevScores) -> bool:
        """Whether more is right, or as much with a lower loss."""
        if self.exact_match != other.exact_match or self.loss is None or other.loss is None:
            return self.exact_match > other.exact_match
        return self.loss < other.loss


@dataclass(frozen=True, slots=True)
class TrainingStep:
    """One step of training: its number from 1, the loss of its batch in nats a sentence, its learning rate.

    >>> TrainingStep(32, 0.5, 1e-3, DevScores(0.75, 0.2)).facts
    {'step': 32, 'loss': 0.5, 'learning_rate': 0.001, 'dev_exact_match': 0.75, 'dev_loss': 0.2}
    """

    number: int
    loss: float
    learning_rate: float
    dev: DevScores | None = None  # of the weights after the step, where they were tried

    @property
    def facts(self) -> dict[str, int | float | None]:
        """The step as a line of `training.jsonl`."""
        facts = {"step": self.number, "loss": self.loss, "learning_rate": self.learning_rate}
        scores = {"dev_exact_match": self.dev.exact_match, "dev_loss": self.dev.loss} if self.dev else {}
        return {**facts, **scores}


def columns_of(records: Sequence[TrainingStep]) -> dict[str, list[float]]:
    """The records as columns of numbers, NaN where there is none; `steps_in` is the way back.

    >>> columns_of([TrainingStep(1, 0.5, 1e-3)])
    {'loss': [0.5], 'learning_rate': [0.001], 'dev_exact_match': [nan], 'dev_loss': [nan]}
    """
    rows = [step.facts for step in records]
    names = ("loss", "learning_rate", "dev_exact_match", "dev_loss")
    return {name: [_number(row.get(name)) for row in rows] for name in names}


def steps_in(columns: Mapping[str, Sequence[float]]) -> list[TrainingStep]:
    """The records that `columns_of` made into columns."""
    scores = map(_scores, columns["dev_exact_match"], columns["dev_loss"])
    rows = zip(columns["loss"], columns["learning_rate"], scores, strict=True)
    return [TrainingStep(number, *row) for number, row in enumerate(rows, start=1)]


def _number(value: float | None) -> float:
    return math.nan if value is None else value


def _scores(exact_match: float, loss: float) -> DevScores | None:
    return None if math.isnan(exact_match) else DevScores(exact_match, None if math.isnan(loss) else loss)
