"""Training that survives being killed: its state on disk, and the way back into it.

A state is one safetensors file, replaced in one rename: weights, optimizer, the weights that did best on dev examples,
the records of the steps so far and, as JSON in its header, what the training began with. Nothing random is kept: see
`nqg.training.trainer.Training`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import save
from torch import Tensor

import nqg
from nqg.data.dataset import Dataset
from nqg.data.examples import Example
from nqg.errors import FormatError, NqgError
from nqg.files import written_atomically
from nqg.grammar.grammar import Grammar
from nqg.grammar.target_grammar import TargetGrammar
from nqg.model.settings import ModelSettings, TrainingSettings
from nqg.model_folder import refused_with
from nqg.training.records import TrainingStep, columns_of, steps_in
from nqg.training.trainer import Best, Diverged, Training

KIND = "nqg training"
BEGIN_ANEW = "delete {} to begin the training anew"
WEIGHTS, BEST, OPTIMIZER, RECORDS = "weights.", "best.", "optimizer.", "records."


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
        cls,
        grammar: Grammar,
        examples: Sequence[Example],
        model: ModelSettings,
        training: TrainingSettings,
        *,
        dev: Sequence[Example] = (),
        target_grammar: TargetGrammar | None = None,
        processes: int = 1,
    ) -> TrainingOrigin:
        """The origin of a training by this version of nqg."""
        facts = {
            "the fingerprint of the examples": Dataset("examples", examples).fingerprint,
            "the fingerprint of the dev examples": Dataset("dev", dev).fingerprint,
            "the fingerprint of the grammar": _fingerprint(str(grammar)),
            "the fingerprint of the target grammar": _fingerprint(str(target_grammar)),
            **asdict(model),
            **asdict(training),
            "the number of processes": processes,
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


def _fingerprint(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def saved_steps(training: Training, path: Path, origin: TrainingOrigin, save_every: int) -> Iterator[TrainingStep]:
    """Make the steps that are left, and write the state to `path` after every few of them and after the last."""
    saved = training.made  # only a state at `path` can have led to more than none
    try:
        for step in training.steps():
            if step.number % save_every == 0 or training.is_finished:
                saved = step.number
                if training.processes.is_main:
                    save_state(path, training, origin)
            yield step
    except Diverged as error:
        kept = f"the last good state, after step {saved}, is in {path}" if saved else "no state was saved yet"
        raise Diverged(f"{error}; {kept}") from error


def save_state(path: Path, training: Training, origin: TrainingOrigin) -> None:
    """Write the state of `training`, whole or not at all."""
    tensors = {WEIGHTS + name: tensor for name, tensor in training.scorer.state_dict().items()}
    tensors |= {BEST + name: tensor for name, tensor in (training.best.weights if training.best else {}).items()}
    for number, state in training.optimizer.state_dict()["state"].items():
        tensors |= {f"{OPTIMIZER}{number}.{name}": tensor for name, tensor in state.items()}
    for name, column in columns_of(training.records).items():
        tensors[RECORDS + name] = torch.tensor(column, dtype=torch.float64)
    best = training.best.number if training.best else 0
    header = {"kind": KIND, "origin": json.dumps(dict(origin.facts)), "best": str(best)}
    with written_atomically(path) as file:
        file.write(save({name: tensor.contiguous().cpu() for name, tensor in tensors.items()}, header))


def restore(path: Path, training: Training, origin: TrainingOrigin) -> None:
    """Put `training` into the state at `path`; that of another training is refused."""
    header, tensors = _read(path)
    with refused_with("damaged", path, BEGIN_ANEW.format(path.parent)):
        there = TrainingOrigin(dict(json.loads(header["origin"])))
    if difference := origin.difference(there):
        raise NqgError(
            f"{path}: this unfinished training cannot be continued, {difference}; "
            f"repeat the command that began it, or delete {path.parent} to begin anew"
        )
    with refused_with("damaged", path, BEGIN_ANEW.format(path.parent)):
        _put(training, header, tensors)


def _put(training: Training, header: Mapping[str, str], tensors: Mapping[str, Tensor]) -> None:
    records = steps_in({name: column.tolist() for name, column in _part(tensors, RECORDS).items()})
    training.best = None
    if (best := int(header["best"])) and (scores := records[best - 1].dev):
        training.best = Best(best, scores, _part(tensors, BEST))
    training.scorer.load_state_dict(_part(tensors, WEIGHTS))
    state: dict[int, dict[str, Tensor]] = {}
    for name, tensor in _part(tensors, OPTIMIZER).items():
        number, _, key = name.partition(".")
        state.setdefault(int(number), {})[key] = tensor
    training.optimizer.load_state_dict({**training.optimizer.state_dict(), "state": state})
    training.records = records


def _read(path: Path) -> tuple[dict[str, str], dict[str, Tensor]]:
    with refused_with("damaged", path, BEGIN_ANEW.format(path.parent)), safe_open(path, framework="pt") as file:
        header = file.metadata() or {}
        if header.get("kind") != KIND:
            raise FormatError(f"expected the state of a training, found kind '{header.get('kind')}'", path)
        return header, {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (no mapping)


def _part(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
