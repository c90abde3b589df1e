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
from torch import Tensor

from nqg.errors import FormatError, NqgError, Place
from nqg.files import written_atomically
from nqg.model.checkpoint import record_lines
from nqg.model_folder import refused_with
from nqg.run_config import RunConfig
from nqg.training.processes import gathered, is_sharded, sharded_like
from nqg.training.records import TrainingStep, step_in
from nqg.training.trainer import Best, Diverged, Trainer, assign

KIND, OLD_KINDS = "nqg unfinished training", ("nqg training", "nqg fine-tuning", "nqg training state")
WEIGHTS, BEST, OPTIMIZER, RECORDS = "weights.", "best.", "optimizer.", "records"


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
        kept = f"the last good state, after step {saved}, is in {path}" if saved else "no state was saved yet"
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
    tensors = {WEIGHTS + name: weight.detach() for name, weight in trainer.weights.items()}
    tensors |= {BEST + name: weight for name, weight in (trainer.best.weights if trainer.best else {}).items()}
    for number, values in trainer.optimizer.state_dict()["state"].items():
        tensors |= {f"{OPTIMIZER}{number}.{name}": tensor for name, tensor in values.items()}
    lines = record_lines(step.to_dict() for step in trainer.records)
    tensors[RECORDS] = torch.tensor(np.frombuffer(lines.encode(), np.uint8))
    whole: dict[str, Tensor] = {}
    for name, tensor in tensors.items():  # one after the other: the other processes need not hold them all
        complete = gathered(tensor)
        if trainer.processes.is_main:
            whole[name] = complete.contiguous().cpu()
    if trainer.processes.is_main:
        header = {
            "kind": KIND,
            "config": json.dumps(trainer.config.to_dict()),
            "best": str(trainer.best.step if trainer.best else 0),
            "sharded": json.dumps([name for name, tensor in tensors.items() if is_sharded(tensor)]),
        }
        with written_atomically(path) as file:
            file.write(save(whole, header))


def restore(path: Path, trainer: Trainer) -> None:
    """Put a training into the state at `path`; that of another training is refused."""
    way_out = f"delete {path} to start over"
    with refused_with("damaged", path, way_out), safe_open(path, framework="pt") as file:
        header = file.metadata() or {}
        if (kind := header.get("kind")) in OLD_KINDS:
            reason = "the state of an unfinished training by an older version of nqg; finish it with that version, or"
            raise FormatError(f"{reason} {way_out}", path)
        if kind != KIND:
            raise FormatError(f"expected the state of a training, found kind '{kind}'", path)
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a mapping)
        there = RunConfig.from_dict(json.loads(header["config"]), path)
    if difference := trainer.config.difference(there):
        raise NqgError(
            f"{path}: this unfinished training cannot be continued, {difference}; "
            f"repeat the command that began it, or {way_out}"
        )

    def part(prefix: str) -> dict[str, Tensor]:
        return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}

    with refused_with("damaged", path, way_out):
        lines = tensors[RECORDS].numpy().tobytes().decode().splitlines()
        records = [step_in(json.loads(line), Place(path, number)) for number, line in enumerate(lines, start=1)]
        weights, step, sharded = list(trainer.weights.values()), int(header["best"]), json.loads(header["sharded"])
        scores = records[step - 1].dev if step else None
        best = {name: sharded_like(trainer.weights[name], tensor) for name, tensor in part(BEST).items()}
        state: dict[int, dict[str, Tensor]] = {}
        for name, tensor in part(OPTIMIZER).items():
            number, _, value = name.partition(".")
            like_weight = sharded_like(weights[int(number)], tensor) if OPTIMIZER + name in sharded else tensor
            state.setdefault(int(number), {})[value] = like_weight
        assign(trainer.weights, part(WEIGHTS))
        trainer.optimizer.load_state_dict({**trainer.optimizer.state_dict(), "state": state})
        trainer.best = Best(step, scores, best) if scores else None
        trainer.records = records
