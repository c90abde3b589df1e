"""Weights that are divided among processes: PyTorch's `fully_shard` (FSDP2; ZeRO of stage 3) for
encoder-decoders.

accelerate's plugin for FSDP2 is not used. It does not shard models on CPUs, where tests run. It
wraps T5's embeddings apart from the encoder and the decoder that share them, which PyTorch refuses.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import Replicate
from transformers.modeling_layers import GradientCheckpointingLayer

from nqg.errors import SettingsError
from nqg.training.processes import Processes, gathered
from nqg.training.trainer import is_half


@dataclass(frozen=True)
class Shards:
    """A sharded model, and a copy of it without weights.

    The weights of a block of encoder or decoder are gathered before its turn and freed after it.
    Gradients are summed on the process that holds them.
    """

    model: Any
    empty: Any
    device: torch.device

    @classmethod
    def of(cls, model: Any, device: torch.device, precision: str) -> Shards:
        """Shard a model that is equal on all processes; a block at a time goes to the device."""
        empty = with_weights(
            model, (weight.detach().to("meta") for weight in model.parameters())
        )
        mesh = init_device_mesh(device.type, (torch.distributed.get_world_size(),))
        policy = MixedPrecisionPolicy()
        # A LayerNorm on a CPU takes no weights in bf16 with inputs in float32.
        has_layer_norm = any(
            isinstance(module, nn.LayerNorm) for module in model.modules()
        )
        if is_half(precision, device) and not (device.type == "cpu" and has_layer_norm):
            # Autocast would round gathered weights anyway.
            policy = MixedPrecisionPolicy(
                torch.bfloat16, reduce_dtype=torch.float32, cast_forward_inputs=False
            )
        for block in list(model.modules()):
            if isinstance(block, GradientCheckpointingLayer):
                fully_shard(block, mesh=mesh, mp_policy=policy)
        fully_shard(model, mesh=mesh)
        return cls(model, empty, device)

    def gather(self) -> Any:
        """The whole model as it is now, for each process; all of them must ask for it."""
        whole = (gathered(weight.detach()) for weight in self.model.parameters())
        return with_weights(self.empty, whole).to(self.device)


def with_weights(model: nn.Module, weights: Iterable[Tensor]) -> Any:
    """A copy of a model with other weights; shared weights stay shared."""
    # A deep copy takes what `memo` has for an object instead of copying the object.
    memo = {}
    for old, new in zip(model.parameters(), weights):
        memo[id(old)] = nn.Parameter(new, requires_grad=old.requires_grad)
    return copy.deepcopy(model, memo)


def sharded_moments(weight: Any) -> dict[str, Any]:
    """What transformers' Adafactor stores of a sharded weight before its first step.

    It would make whole tensors itself, which cannot be added to sharded ones. A mean over columns
    is sharded as the weight is; one over rows, of which every process has some, is whole on each.
    """
    zeros = torch.zeros_like(weight.detach())
    if weight.dim() < 2:
        return {"step": 0, "exp_avg_sq": zeros}
    columns: Any = zeros.mean(dim=-2)
    columns = columns.redistribute(placements=[Replicate()])
    return {"step": 0, "exp_avg_sq_row": zeros.mean(dim=-1), "exp_avg_sq_col": columns}


def check_divisible(examples: int, accumulate: int, processes: Processes) -> None:
    """Refuse steps in which a process would have nothing to do, because the others would wait for
    it.
    """
    chunks = accumulate * processes.count
    if examples < chunks:
        raise SettingsError(
            f"a step of {examples} examples cannot be sharded in {chunks} parts, "
            f"accumulate ({accumulate}) times the processes ({processes.count}); "
            "expected an example each: lower accumulate, or raise batch_size"
        )
