"""What training tells about itself: one record a step, with scores on dev examples where they were taken."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import NoneType
from typing import Any

from nqg.errors import FormatError, NqgError, Place
from nqg.model.checkpoint import read_records
from nqg.plotting import write_picture


@dataclass(frozen=True, slots=True)
class DevScores:
    """The share of dev examples that a model gets right, and the mean loss of those that it can learn.

    >>> DevScores(0.75, 0.2).is_better_than(DevScores(0.75, 0.3))
    True
    """

    exact_match: float
    loss: float | None = None  # None where nothing has a loss, as where the grammar derives no dev example

    def is_better_than(self, other: DevScores) -> bool:
        """More is right, or as much with a lower loss."""
        if self.exact_match != other.exact_match or self.loss is None or other.loss is None:
            return self.exact_match > other.exact_match
        return self.loss < other.loss


@dataclass(frozen=True, slots=True)
class TrainingStep:
    """One step of training: its number from 1, the loss of its batch, its learning rate.

    >>> TrainingStep(32, 0.5, 1e-3, DevScores(0.75, 0.2)).to_dict()
    {'step': 32, 'loss': 0.5, 'learning_rate': 0.001, 'dev_exact_match': 0.75, 'dev_loss': 0.2}
    """

    number: int
    loss: float
    learning_rate: float
    dev: DevScores | None = None  # of the weights after the step, where they were evaluated

    def to_dict(self) -> dict[str, int | float | None]:
        """The step as a line of `training.jsonl`."""
        scores = {"dev_exact_match": self.dev.exact_match, "dev_loss": self.dev.loss} if self.dev else {}
        return {"step": self.number, "loss": self.loss, "learning_rate": self.learning_rate, **scores}


def read_steps(path: Path) -> list[TrainingStep]:
    """The steps in the `training.jsonl` of a model folder; any other line is refused with its place."""
    if not path.exists():
        raise NqgError(f"{path}: no such file; `nqg train` writes one into the model folder")
    steps = [step_in(record, Place(path, line)) for line, record in enumerate(read_records(path), start=1)]
    if not steps:
        raise NqgError(f"{path}: no step is recorded there")
    return steps


def step_in(record: Mapping[str, Any], place: Place) -> TrainingStep:
    """The step of which `to_dict` made a record."""
    for name, kinds in (("step", (int,)), ("loss", (int, float)), ("learning_rate", (int, float))):
        if type(record.get(name)) not in kinds:
            raise FormatError(f"expected a number as '{name}', found {record.get(name)!r}", place)
    exact_match, dev_loss = record.get("dev_exact_match"), record.get("dev_loss")
    if not {type(exact_match), type(dev_loss)} <= {int, float, NoneType}:
        raise FormatError("expected numbers as 'dev_exact_match' and 'dev_loss'", place)
    dev = None if exact_match is None else DevScores(exact_match, dev_loss)
    return TrainingStep(record["step"], record["loss"], record["learning_rate"], dev)


COLOURS = {"batch": "#bbbbcc", "loss": "#4477aa"}
DEV_LINE: dict[str, Any] = {"color": "#ee6677", "marker": "o", "markersize": 3, "clip_on": False}
WINDOWS = 20  # in a whole training: how many running means lie side by side


def write_plot(path: Path, steps: Sequence[TrainingStep]) -> None:
    """Draw a training, as PNG or SVG by the name of the file: losses above, dev examples that are right below."""

    def draw(figure_class: Any) -> Any:
        figure = figure_class(figsize=(9, 5.5), layout="constrained")
        evaluated = [(step.number, step.dev) for step in steps if step.dev]
        panels = figure.subplots(1 + bool(evaluated), 1, sharex=True, squeeze=False)[:, 0]
        _draw_losses(panels[0], steps)
        title = f"{steps[-1].number:,} steps, loss {steps[-1].loss:.4f} in the last"
        if evaluated:
            percents = [100 * dev.exact_match for _, dev in evaluated]
            panels[1].plot([number for number, _ in evaluated], percents, **DEV_LINE)
            panels[1].set_ylim(0, 100)
            panels[1].set_ylabel("dev examples right, per cent", fontsize=9)
            title += f"; at best {max(dev.exact_match for _, dev in evaluated):.1%} of the dev examples right"
        for panel in panels:
            panel.set_xlim(0, steps[-1].number)
            panel.spines[["top", "right"]].set_visible(False)
            panel.tick_params(labelsize=8)
        panels[-1].set_xlabel("step", fontsize=9)
        figure.suptitle(title, fontsize=10)
        return figure

    write_picture(path, draw)


def _draw_losses(panel: Any, steps: Sequence[TrainingStep]) -> None:
    numbers, losses = [step.number for step in steps], [step.loss for step in steps]
    window = max(1, len(losses) // WINDOWS)
    means = running_means(losses, window)
    panel.plot(numbers, losses, color=COLOURS["batch"], linewidth=0.8, label="a batch")
    panel.plot(numbers, means, color=COLOURS["loss"], linewidth=1.6, label=f"mean of {window:,} batches")
    dev = [(step.number, step.dev.loss) for step in steps if step.dev and step.dev.loss is not None]
    if dev:
        panel.plot(*zip(*dev, strict=True), **DEV_LINE, label="dev examples")
    panel.set_ylim(bottom=0)
    panel.set_ylabel("loss, nats a sentence", fontsize=9)
    panel.legend(fontsize=8, frameon=False)


def running_means(values: Sequence[float], window: int) -> list[float]:
    """For every value the mean of the last `window`, itself included; at the beginning of as many as there are.

    >>> running_means([4.0, 2.0, 0.0], window=2)
    [4.0, 3.0, 1.0]
    """
    parts = [values[max(0, end - window) : end] for end in range(1, len(values) + 1)]
    return [sum(part) / len(part) for part in parts]
