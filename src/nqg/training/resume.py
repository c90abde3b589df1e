"""Training that survives being killed: its state on disk, and the way back into it.

A state is one safetensors file, replaced in one rename. Its tensors are the weights that learn
(`weights.NAME`), those that did best on dev examples (`best.NAME`), the optimizer's numbers
(`optimizer.NUMBER.NAME`), and the bytes of the `training.jsonl` of the steps so far (`records`).
Its header has the `RunConfig` of the training as JSON. Tensors are whole also where the training is
sharded.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from safetensors import safe_open
from safetensors.torch import save
from torch import Tensor

from nqg.errors import FormatError, NqgError, Place
from nqg.files import written_atomically
from nqg.model.checkpoint import record_lines
from nqg.model_folder import convert_errors
from nqg.run_config import RunConfig
from nqg.training.processes import gathered, sharded_like
from nqg.training.records import TrainingStep, step_in
from nqg.training.trainer import Best, Diverged, Trainer, assign

STATE_KIND = "nqg interrupted training"
# Bounds of work: a kill costs at most so many steps. The state of a T5 is a hundred times as large
# as that of a parser.
PARSER_SAVE_EVERY = 32
FINE_TUNING_SAVE_EVERY = 500


def saved_steps(
    trainer: Trainer, path: Path, save_every: int
) -> Iterator[TrainingStep]:
    """Make the steps that are left, and write the state to `path` after every few of them and after
    the last.

    Where records come for several steps at once, the state is that after the last of them.
    """
    # A training that has made steps was restored from a state at `path`.
    saved = trainer.made
    try:
        for step in trainer.steps():
            is_due = (
                trainer.made // save_every > saved // save_every or trainer.is_finished
            )
            if step.number == trainer.made and is_due:
                saved = trainer.made
                save_state(path, trainer)
            yield step
    except Diverged as error:
        state = "no state was saved yet"
        if saved:
            state = f"the last good state, after step {saved}, is in {path}"
        raise Diverged(f"{error}; {state}") from error


def resumed_steps(
    trainer: Trainer, path: Path | None, save_every: int
) -> Iterator[TrainingStep]:
    """The steps after the state at `path`, if there is one, which is kept up to date; without
    `path`, all steps.
    """
    if path is None:
        return trainer.steps()
    if path.exists():
        restore(path, trainer)
    return saved_steps(trainer, path, save_every)


def save_state(path: Path, trainer: Trainer) -> None:
    """Write the state of a training, whole or not at all; all processes call it, and the main one
    writes.
    """
    is_main, best = trainer.processes.is_main, trainer.best
    if not is_main and not trainer.is_sharded:
        return
    lines = record_lines(step.to_dict() for step in trainer.records)
    tensors = {"records": torch.tensor(np.frombuffer(lines.encode(), np.uint8))}
    for name, weight in trainer.weights.items():
        tensors[f"weights.{name}"] = weight.detach()
    if best is not None:
        for name, weights in best.weights.items():
            tensors[f"best.{name}"] = weights
    for number, values in trainer.optimizer.state_dict()["state"].items():
        # Adafactor counts steps by an int.
        for name, value in values.items():
            tensors[f"optimizer.{number}.{name}"] = torch.as_tensor(value)

    # Tensors are gathered one after the other, because the other processes need not hold them all.
    whole: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        complete = gathered(tensor)
        if is_main:
            whole[name] = complete.contiguous().cpu()
    if is_main:
        header = {
            "kind": STATE_KIND,
            "config": json.dumps(trainer.config.to_dict()),
            "best": str(best.step if best else 0),
        }
        with written_atomically(path) as file:
            file.write(save(whole, header))


def restore(path: Path, trainer: Trainer) -> None:
    """Put a training into the state at `path`; that of another training is refused."""
    # 1. Read the file, and compare the trainings.
    way_out = f"delete {path} to start over"
    tensors: dict[str, dict[str, Tensor]] = defaultdict(dict)
    with (
        convert_errors("damaged", path, way_out),
        safe_open(path, framework="pt") as file,
    ):
        header = file.metadata() or {}
        kind = header.get("kind")
        if kind != STATE_KIND:
            raise FormatError(
                f"expected the state of a training, found kind '{kind}'; {way_out}",
                path,
            )
        for key in file.keys():  # noqa: SIM118 (not a mapping)
            table, _, name = key.partition(".")
            tensors[table][name] = file.get_tensor(key)
        saved_config = RunConfig.from_dict(json.loads(header["config"]), path)
    difference = trainer.config.difference(saved_config)
    if difference:
        raise NqgError(
            f"{path}: this unfinished training cannot be continued, {difference}; "
            f"repeat the command that began it, or {way_out}"
        )

    # 2. Records, weights, optimizer, and the best weights.
    with convert_errors("damaged", path, way_out):
        records = []
        lines = tensors["records"][""].numpy().tobytes().decode().splitlines()
        for number, line in enumerate(lines, start=1):
            records.append(step_in(json.loads(line), Place(path, number)))
        assign(trainer.weights, tensors["weights"])
        optimizer, weights = trainer.optimizer, list(trainer.weights.values())
        state: dict[int, dict[str, Tensor | int]] = defaultdict(dict)
        for key, tensor in tensors["optimizer"].items():
            index, _, name = key.partition(".")
            weight, value = weights[int(index)], tensor
            # Adafactor's means are sharded already, and other tensors become sharded as their
            # weights are.
            if tensor.dim() > 0:
                value = sharded_like(optimizer.state[weight].get(name, weight), tensor)
            is_count = tensor.dim() == 0 and not tensor.is_floating_point()
            state[int(index)][name] = int(tensor) if is_count else value
        optimizer.load_state_dict({**optimizer.state_dict(), "state": state})
        step = int(header["best"])
        scores = records[step - 1].dev if step else None
        trainer.best, trainer.records = None, records
        if scores:
            best = {}
            for name, tensor in tensors["best"].items():
                best[name] = sharded_like(trainer.weights[name], tensor)
            trainer.best = Best(step, scores, best)
