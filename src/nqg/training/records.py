"""The records of a training: one a step, with scores on dev examples where it was evaluated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import NoneType
from typing import Any

from nqg.errors import FormatError, NqgError, Place
from nqg.model.checkpoint import read_records


@dataclass(frozen=True, slots=True)
class DevScores:
    """The share of dev examples that a model gets right, and the mean loss of those that it can
    learn.

    >>> DevScores(0.75, 0.2).is_better_than(DevScores(0.75, 0.3))
    True
    """

    # The loss is None where nothing has one, as where the grammar derives no dev example.
    exact_match: float
    loss: float | None = None

    def is_better_than(self, best: DevScores) -> bool:
        """More is right, or as much with a lower loss."""
        if (
            self.exact_match != best.exact_match
            or self.loss is None
            or best.loss is None
        ):
            return self.exact_match > best.exact_match
        return self.loss < best.loss


@dataclass(frozen=True, slots=True)
class TrainingStep:
    """One step of training: its number from 1, the loss of its batch, its learning rate.

    >>> TrainingStep(32, 0.5, 1e-3, DevScores(0.75, 0.2)).to_dict()
    {'step': 32, 'loss': 0.5, 'learning_rate': 0.001, 'dev_exact_match': 0.75, 'dev_loss': 0.2}
    """

    number: int
    loss: float
    learning_rate: float
    # The scores of the weights after the step, where they were evaluated.
    dev: DevScores | None = None

    def to_dict(self) -> dict[str, int | float | None]:
        """The step as a line of `training.jsonl`."""
        record: dict[str, int | float | None] = {
            "step": self.number,
            "loss": self.loss,
            "learning_rate": self.learning_rate,
        }
        if self.dev:
            record |= {
                "dev_exact_match": self.dev.exact_match,
                "dev_loss": self.dev.loss,
            }
        return record


def read_steps(path: Path) -> list[TrainingStep]:
    """The steps in the `training.jsonl` of a model folder; any other line is refused with its
    place.
    """
    if not path.exists():
        raise NqgError(
            f"{path}: no such file; `nqg train` writes one into the model folder"
        )
    # Lines are counted from 1, so that an error names the line an editor shows.
    steps = []
    for line, record in enumerate(read_records(path), start=1):
        steps.append(step_in(record, Place(path, line)))
    if not steps:
        raise NqgError(f"{path}: no step is recorded there")
    return steps


def step_in(record: Mapping[str, Any], place: Place) -> TrainingStep:
    """The step of which `to_dict` made a record."""
    # Types are compared exactly, because a bool is an instance of int.
    for name, kinds in (
        ("step", {int}),
        ("loss", {int, float}),
        ("learning_rate", {int, float}),
    ):
        if type(record.get(name)) not in kinds:
            raise FormatError(
                f"expected a number as '{name}', found {record.get(name)!r}", place
            )
    # Most steps are not evaluated; a loss may be missing where a score is given.
    exact_match, dev_loss = record.get("dev_exact_match"), record.get("dev_loss")
    if not {type(exact_match), type(dev_loss)} <= {int, float, NoneType}:
        raise FormatError("expected numbers as 'dev_exact_match' and 'dev_loss'", place)
    dev = None if exact_match is None else DevScores(exact_match, dev_loss)
    return TrainingStep(record["step"], record["loss"], record["learning_rate"], dev)
