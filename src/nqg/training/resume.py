"""Training that survives being killed: its state on disk, and the way back into it.

A state is one safetensors file, replaced in one rename: the weights that learn, the optimizer's numbers, the weights
that did best on dev examples, the bytes of the `training.jsonl` of the steps so far and, as JSON in its header, the
`RunConfig` of the training. Tensors are whole there also where the training is sharded.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from safetensors import safe_open
from safetensors.torch import save
from torch import Tensor, nn

from nqg.errors import FormatError, NqgError, Place
from nqg.files import written_atomically
from nqg.model.checkpoint import record_lines
from nqg.model_folder import convert_errors
from nqg.run_config import RunConfig
from nqg.training.processes import gathered, sharded_like
from nqg.training.records import TrainingStep, step_in
from nqg.training.trainer import Best, Diverged, Trainer, assign

STATE_KIND = "nqg interrupted training"
PARSER_SAVE_EVERY = 32  # steps
FINE_TUNING_SAVE_EVERY = 500  # steps: the state of a T5 is a hundred times as large
WEIGHT_PREFIX, BEST_PREFIX, OPTIMIZER_PREFIX, RECORDS_KEY = (
    "weights.",
    "best.",
    "optimizer.",
    "records",
)


def saved_steps(trainer: Trainer, path: Path, save_every: int) -> Iterator[TrainingStep]:
    """Make the steps that are left, and write the state to `path` after every few of them and after the last.

    Where records come for several steps at once, the state is that after the last of them.
    """
    saved = trainer.made  # only a state at `path` can have led to more than none
    try:
        for step in trainer.steps():
            is_due = trainer.made // save_every > saved // save_every or trainer.is_finished
            if step.number == trainer.made and is_due:
                saved = trainer.made
                save_state(path, trainer)
            yield step
    except Diverged as error:
        kept = (
            f"the last good state, after step {saved}, is in {path}"
            if saved
            else "no state was saved yet"
        )
        raise Diverged(f"{error}; {kept}") from error


def resumed_steps(trainer: Trainer, path: Path | None, save_every: int) -> Iterator[TrainingStep]:
    """The steps after the state at `path`, if there is one, which is kept up to date; without `path`, all steps."""
    if path is None:
        return trainer.steps()
    if path.exists():
        restore(path, trainer)
    return saved_steps(trainer, path, save_every)


def save_state(path: Path, trainer: Trainer) -> None:
    """Write the state of a training, whole or not at all; all processes call it, and the main one writes."""
    if not trainer.processes.is_main and not trainer.is_sharded:
        return
    lines = record_lines(step.to_dict() for step in trainer.records)
    tensors = {RECORDS_KEY: torch.tensor(np.frombuffer(lines.encode(), np.uint8))}
    for name, weight in trainer.weights.items():
        tensors[WEIGHT_PREFIX + name] = weight.detach()
    if trainer.best is not None:
        for name, best in trainer.best.weights.items():
            tensors[BEST_PREFIX + name] = best
    for number, values in trainer.optimizer.state_dict()["state"].items():
        for name, value in values.items():
            tensors[f"{OPTIMIZER_PREFIX}{number}.{name}"] = torch.as_tensor(
                value
            )  # Adafactor counts steps by an int

    whole: dict[str, Tensor] = {}
    for (
        name,
        tensor,
    ) in tensors.items():  # one after the other: the other processes need not hold them all
        complete = gathered(tensor)
        if trainer.processes.is_main:
            whole[name] = complete.contiguous().cpu()
    if trainer.processes.is_main:
        header = {
            "kind": STATE_KIND,
            "config": json.dumps(trainer.config.to_dict()),
            "best": str(trainer.best.step if trainer.best else 0),
        }
        with written_atomically(path) as file:
            file.write(save(whole, header))


def restore(path: Path, trainer: Trainer) -> None:
    """Put a training into the state at `path`; that of another training is refused."""
    way_out = f"delete {path} to start over"
    with convert_errors("damaged", path, way_out), safe_open(path, framework="pt") as file:
        header = file.metadata() or {}
        kind = header.get("kind")
        if kind != STATE_KIND:
            raise FormatError(
                f"expected the state of a training, found kind '{kind}'; {way_out}", path
            )
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a mapping)
        there = RunConfig.from_dict(json.loads(header["config"]), path)
    if difference := trainer.config.difference(there):
        raise NqgError(
            f"{path}: this unfinished training cannot be continued, {difference}; "
            f"repeat the command that began it, or {way_out}"
        )

    def part(prefix: str) -> dict[str, Tensor]:
        return {
            name.removeprefix(prefix): tensor
            for name, tensor in tensors.items()
            if name.startswith(prefix)
        }

    with convert_errors("damaged", path, way_out):
        lines = tensors[RECORDS_KEY].numpy().tobytes().decode().splitlines()
        records = [
            step_in(json.loads(line), Place(path, number))
            for number, line in enumerate(lines, start=1)
        ]
        assign(trainer.weights, part(WEIGHT_PREFIX))
        weights = list(trainer.weights.values())
        state: dict[int, dict[str, Tensor | int]] = {}
        for name, tensor in part(OPTIMIZER_PREFIX).items():
            number, _, value = name.partition(".")
            state.setdefault(int(number), {})[value] = _optimizer_value(
                trainer.optimizer, weights[int(number)], value, tensor
            )
        trainer.optimizer.load_state_dict({**trainer.optimizer.state_dict(), "state": state})
        step = int(header["best"])
        scores = records[step - 1].dev if step else None
        best = {
            name: sharded_like(trainer.weights[name], tensor)
            for name, tensor in part(BEST_PREFIX).items()
        }
        trainer.best = Best(step, scores, best) if scores else None
        trainer.records = records


def _optimizer_value(
    optimizer: torch.optim.Optimizer, weight: nn.Parameter, name: str, tensor: Tensor
) -> Tensor | int:
    """What an optimizer keeps of a weight by this name, as it was when it was saved.

    A tensor is sharded as the one that there is already, as Adafactor's means are, or as the weight.
    """
    if tensor.dim() > 0:
        return sharded_like(optimizer.state[weight].get(name, weight), tensor)
    return tensor if tensor.is_floating_point() else int(tensor)
