"""Fine-tuning that survives being killed: its state on disk, and the way back into it.

A state is one safetensors file, replaced in one rename: the weights that learn, the optimizer's numbers, the weights
that did best on dev examples, the records so far and, as JSON in its header, what the training began with. Tensors are
whole there also where the training was sharded.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import save
from torch import Tensor

from nqg.errors import FormatError, NqgError
from nqg.files import written_atomically
from nqg.model_folder import refused_with
from nqg.seq2seq.optimizers import is_divided
from nqg.seq2seq.sharding import divided_like, whole
from nqg.seq2seq.training import Best, FineTuning, put
from nqg.training.records import TrainingStep, columns_of, steps_in
from nqg.training.resume import TrainingOrigin
from nqg.training.trainer import Diverged

KIND = "nqg fine-tuning"
BEGIN_ANEW = "delete it to begin the fine-tuning anew"
WEIGHTS, BEST, OPTIMIZER, RECORDS = "weights.", "best.", "optimizer.", "records."


def saved_steps(tuning: FineTuning, path: Path, origin: TrainingOrigin, save_every: int) -> Iterator[TrainingStep]:
    """Make the steps that are left, and write the state to `path` when `save_every` were made, and after the last.

    On a GPU a step's record comes when others were made already, so the state is that of the next pause.
    """
    saved = tuning.made
    try:
        for step in tuning.steps():
            is_due = tuning.made - saved >= save_every or tuning.is_finished
            if step.number == tuning.made and is_due:
                saved = tuning.made
                if tuning.processes.is_main or tuning.is_sharded:
                    save_state(path, tuning, origin)
            yield step
    except Diverged as error:
        kept = f"the last state, after step {saved}, is in {path}" if saved else "no state was saved yet"
        raise Diverged(f"{error}; {kept}") from error


def save_state(path: Path, tuning: FineTuning, origin: TrainingOrigin) -> None:
    """Write the state of a fine-tuning, whole or not at all; if it is sharded, with the help of all processes."""
    tensors = {WEIGHTS + name: weight.detach() for name, weight in tuning.weights.items()}
    tensors |= {BEST + name: weight for name, weight in (tuning.best.weights if tuning.best else {}).items()}
    for number, values in tuning.optimizer.state_dict()["state"].items():
        tensors |= {f"{OPTIMIZER}{number}.{name}": tensor for name, tensor in values.items()}
    for name, column in columns_of(tuning.records).items():
        tensors[RECORDS + name] = torch.tensor(column, dtype=torch.float64)
    best = {"step": tuning.best.step, "exact_match": tuning.best.exact_match} if tuning.best else None
    header = {"kind": KIND, "origin": json.dumps(dict(origin.facts)), "best": json.dumps(best)}
    gathered = _gathered(tensors, tuning.processes.is_main)
    if tuning.processes.is_main:
        with written_atomically(path) as file:
            file.write(save(gathered, header))


def _gathered(tensors: Mapping[str, Tensor], is_main: bool) -> dict[str, Tensor]:
    """The tensors whole and in the main process's memory; one after the other, for others need not hold them all."""
    found = {}
    for name, tensor in tensors.items():
        complete = whole(tensor)
        if is_main:
            found[name] = complete.contiguous().cpu()
    return found


def restore(path: Path, tuning: FineTuning, origin: TrainingOrigin) -> None:
    """Put a fine-tuning into the state at `path`; that of another one is refused."""
    header, tensors = _read(path)
    with refused_with("damaged", path, BEGIN_ANEW):
        there = TrainingOrigin(dict(json.loads(header["origin"])))
    if difference := origin.difference(there):
        raise NqgError(
            f"{path}: this unfinished fine-tuning cannot be continued, {difference}; "
            f"repeat what began it, or delete {path} to begin anew"
        )
    with refused_with("damaged", path, BEGIN_ANEW):
        _put(tuning, header, tensors)


def _put(tuning: FineTuning, header: Mapping[str, str], tensors: Mapping[str, Tensor]) -> None:
    records = steps_in({name: column.tolist() for name, column in _part(tensors, RECORDS).items()})
    best = json.loads(header["best"])
    weights, kept = tuning.weights, _part(tensors, BEST)
    did_best = {name: divided_like(weights[name], tensor) for name, tensor in kept.items()}
    tuning.best = Best(best["exact_match"], best["step"], did_best) if best else None
    put(_part(tensors, WEIGHTS), weights)
    groups = tuning.optimizer.state_dict()["param_groups"]
    state = _by_weight(_part(tensors, OPTIMIZER), list(weights.values()))
    tuning.optimizer.load_state_dict({"state": state, "param_groups": groups})
    tuning.records = records


def _read(path: Path) -> tuple[dict[str, str], dict[str, Tensor]]:
    with refused_with("damaged", path, BEGIN_ANEW), safe_open(path, framework="pt") as file:
        header = file.metadata() or {}
        if header.get("kind") != KIND:
            raise FormatError(f"expected the state of a fine-tuning, found kind '{header.get('kind')}'", path)
        return header, {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (no mapping)


def _part(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def _by_weight(tensors: Mapping[str, Tensor], weights: Sequence[Tensor]) -> dict[int, dict[str, Tensor]]:
    state: dict[int, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        number, value = name.split(".")
        weight = weights[int(number)]
        state.setdefault(int(number), {})[value] = divided_like(weight, tensor) if is_divided(value, weight) else tensor
    return state
