"""A model divided among processes: each keeps a part of every weight, of its gradient and of the optimizer's numbers.

This is PyTorch's `fully_shard` (FSDP2; ZeRO of stage 3). The weights of a block of encoder or decoder are gathered when
its turn comes and let go after it; gradients are added up where they are kept. Training sees `DTensor`s then, and here
is the way from them to whole tensors, to a whole model, and back.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor
from transformers.modeling_layers import GradientCheckpointingLayer

from nqg.errors import SettingsError
from nqg.seq2seq.batches import Batch, Objective
from nqg.training.processes import Processes
from nqg.training.trainer import precision


@dataclass(frozen=True)
class Shards:
    """A model of which every process has a part, and an empty copy of it that can be filled with the whole weights."""

    model: Any
    empty: Any
    device: torch.device

    @classmethod
    def of(cls, model: Any, device: torch.device, precision_name: str) -> Shards:
        """Divide a model, which all processes have alike; a block at a time goes to the device."""
        empty = with_weights(model, (weight.detach().to("meta") for weight in model.parameters()))
        mesh = init_device_mesh(device.type, (torch.distributed.get_world_size(),))
        policy = _policy(model, device, precision_name)
        for block in [module for module in model.modules() if isinstance(module, GradientCheckpointingLayer)]:
            fully_shard(block, mesh=mesh, mp_policy=policy)
        fully_shard(model, mesh=mesh)
        return cls(model, empty, device)

    def whole(self) -> Any:
        """The whole model as it is now, for each process; all of them must ask for it."""
        return with_weights(self.empty, (whole(weight.detach()) for weight in self.model.parameters())).to(self.device)


def _policy(model: nn.Module, device: torch.device, precision_name: str) -> MixedPrecisionPolicy:
    """How blocks are gathered: in bf16 where autocast would round their weights to it anyway, else as they are."""
    with precision(precision_name, device):
        is_rounded = torch.is_autocast_enabled(device.type)
    if device.type == "cpu" and any(isinstance(module, nn.LayerNorm) for module in model.modules()):
        is_rounded = False  # on CPUs, that one takes no weights in bf16 with inputs in float32
    if is_rounded:
        return MixedPrecisionPolicy(torch.bfloat16, reduce_dtype=torch.float32, cast_forward_inputs=False)
    return MixedPrecisionPolicy()


def with_weights(model: nn.Module, weights: Iterable[Tensor]) -> Any:
    """A copy of a model with other weights at the places of its own; one that stood in several places still does."""
    pairs = zip(model.parameters(), weights, strict=True)
    return copy.deepcopy(model, {id(old): nn.Parameter(new, requires_grad=old.requires_grad) for old, new in pairs})


def whole(tensor: Tensor) -> Tensor:
    """A tensor whole, on each process; of one that is divided, all processes must ask for it."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def divided_like(weight: Tensor, tensor: Tensor) -> Tensor:
    """A whole tensor, which all processes have alike, divided among them as a weight is, if it is."""
    if isinstance(weight, DTensor) and not isinstance(tensor, DTensor):
        place, layout = weight.device_mesh, weight.placements
        return distribute_tensor(tensor.to(weight.device), place, layout, src_data_rank=None)
    return tensor


def check_divisible(examples: int, accumulate: int, processes: Processes) -> None:
    """Refuse steps in which a process would have nothing to do, for the others would wait for it."""
    parts = accumulate * processes.count
    if examples < parts:
        raise SettingsError(
            f"a step of {examples} examples cannot be sharded in {parts} parts, accumulate ({accumulate}) times the "
            f"processes ({processes.count}); expected an example each: lower accumulate, or raise batch_size"
        )


@dataclass(frozen=True)
class ShardedObjective:
    """The objective of a divided model, and the number of processes that have a part of it."""

    objective: Objective
    processes: int

    @contextmanager
    def working(self) -> Iterator[None]:
        """A block in which `backward` may be called."""
        with warnings.catch_warnings():  # T5's blocks hand on position biases, which are views; nobody writes into them
            warnings.filterwarnings("ignore", message="FSDP2-wrapped module .* returned a view tensor")
            yield

    def backward(self, batch: Batch, pieces: Tensor) -> Tensor:
        """The share of a batch in the loss of its step; `fully_shard` makes gradients the mean of all processes'."""
        return self.objective.backward(batch, pieces / self.processes) / self.processes
