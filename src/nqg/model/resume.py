"""Training that survives being killed: its state on disk, and the way back into it.

A state is one safetensors file, replaced in one rename: weights, optimizer, the records of the steps so far and, as
JSON in its header, what the training began with. Nothing random is kept: see `nqg.model.training.Training`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

import nqg
from nqg.data.dataset import Dataset
from nqg.data.example import Example
from nqg.errors import FormatError, NqgError
from nqg.files import written_atomically
from nqg.grammar.grammar import Grammar
from nqg.model.settings import ModelSettings, TrainingSettings
from nqg.model.training import Training, TrainingStep

KIND = "nqg training"
WEIGHTS, OPTIMIZER, RECORDS = "weights.", "optimizer.", "records."


@dataclass(frozen=True, slots=True)
class TrainingOrigin:
    """What a training begins with; equal origins make equal steps.

    >>> grammar, examples = Grammar.parse("jump ### J"), [Example("jump", "J")]
    >>> there = TrainingOrigin.of(grammar, examples, ModelSettings(), TrainingSettings())
    >>> here = TrainingOrigin.of(grammar, examples, ModelSettings(), TrainingSettings(steps=9))
    >>> here.difference(there)
    'steps was 256 there and is 9 here'
    """

    facts: Mapping[str, Any]

    @classmethod
    def of(
        cls, grammar: Grammar, examples: Sequence[Example], model: ModelSettings, training: TrainingSettings
    ) -> TrainingOrigin:
        """The origin of a training by this version of nqg."""
        facts = {
            "the fingerprint of the examples": Dataset("examples", examples).fingerprint,
            "the fingerprint of the grammar": hashlib.sha256(str(grammar).encode()).hexdigest(),
            **asdict(model),
            **asdict(training),
            "the version of nqg": nqg.__version__,
        }
        return cls(facts)

    def difference(self, there: TrainingOrigin) -> str | None:
        """Why a training from `there` need not be one from here, or None if the two are equal."""
        for name in [*self.facts, *there.facts]:
            before, now = (facts.get(name, "unknown") for facts in (there.facts, self.facts))
            if before != now:
                return f"{name} was {before} there and is {now} here"
        return None


def saved_steps(
    training: Training, path: Path, origin: TrainingOrigin, past: Sequence[TrainingStep], save_every: int
) -> Iterator[TrainingStep]:
    """Make the steps that are left, and write the state to `path` after every few of them and after the last."""
    records = list(past)
    for step in training.steps():
        records.append(step)
        if step.number % save_every == 0 or step.number == training.settings.steps:
            save_state(path, training, origin, records)
        yield step


def save_state(path: Path, training: Training, origin: TrainingOrigin, records: Sequence[TrainingStep]) -> None:
    """Write the state of `training`, whole or not at all."""
    tensors = {WEIGHTS + name: tensor for name, tensor in training.scorer.state_dict().items()}
    for parameter, values in training.optimizer.state_dict()["state"].items():
        tensors |= {f"{OPTIMIZER}{parameter}.{name}": tensor for name, tensor in values.items()}
    for name in ("loss", "learning_rate"):
        tensors[RECORDS + name] = torch.tensor([getattr(step, name) for step in records], dtype=torch.float64)
    header = {"kind": KIND, "origin": json.dumps(dict(origin.facts))}
    with written_atomically(path) as file:
        file.write(save({name: tensor.contiguous().cpu() for name, tensor in tensors.items()}, header))


def restored(path: Path, training: Training, origin: TrainingOrigin) -> list[TrainingStep]:
    """Put `training` into the state at `path`, and return the records of its steps; a state of another is refused."""
    there, tensors = _read(path)
    if difference := origin.difference(there):
        raise NqgError(
            f"{path}: this unfinished training cannot be continued, {difference}; "
            f"repeat the command that began it, or delete {path.parent} to begin anew"
        )
    training.scorer.load_state_dict(_part(tensors, WEIGHTS))
    groups = training.optimizer.state_dict()["param_groups"]
    training.optimizer.load_state_dict({"state": _by_parameter(_part(tensors, OPTIMIZER)), "param_groups": groups})
    records = _part(tensors, RECORDS)
    pairs = zip(records["loss"].tolist(), records["learning_rate"].tolist(), strict=True)
    steps = [TrainingStep(number, loss, rate) for number, (loss, rate) in enumerate(pairs, start=1)]
    training.made = len(steps)
    return steps


def _read(path: Path) -> tuple[TrainingOrigin, dict[str, Tensor]]:
    try:
        with safe_open(path, framework="pt") as file:
            header = file.metadata() or {}
            if header.get("kind") != KIND:
                raise FormatError(f"expected the state of a training, found kind '{header.get('kind')}'", path)
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (no mapping)
    except SafetensorError as error:
        raise FormatError(f"damaged: {error}; delete {path.parent} to begin the training anew", path) from error
    return TrainingOrigin(json.loads(header["origin"])), tensors


def _part(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def _by_parameter(tensors: Mapping[str, Tensor]) -> dict[int, dict[str, Tensor]]:
    state: dict[int, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        parameter, value = name.split(".")
        state.setdefault(int(parameter), {})[value] = tensor
    return state
