"""The processes that train together, as `accelerate launch` starts them; usually one alone.

Every process learns from its share of each batch; losses and gradients are summed, so that all take
the same step. Where weights are sharded (FSDP2), each process holds a share of every tensor, a
`DTensor`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
from torch import Tensor, nn

# The others wait so long while the main process induces a grammar or evaluates on dev examples.
TIMEOUT = timedelta(days=1)


def is_main_process() -> bool:
    """Whether this is the process that prints and writes, of those that a launcher started."""
    return int(os.environ.get("RANK") or 0) == 0


def process_count() -> int:
    """How many processes a launcher started together with this one, itself included."""
    return int(os.environ.get("WORLD_SIZE") or 1)


@dataclass(frozen=True, slots=True)
class Processes:
    """How many processes train together, which of them this is, and on which device.

    >>> [Processes(count=3, rank=rank).share([10, 11, 12, 13]) for rank in range(3)]
    [[10, 13], [11], [12]]
    """

    # A process that is alone chooses its device itself. `state` is accelerate's.
    count: int = 1
    rank: int = 0
    device: str | None = None
    state: Any = None

    @classmethod
    def launched(cls, device: str | None = None) -> Processes:
        """The processes that a launcher started together with this one."""
        if process_count() == 1:
            return cls()
        from accelerate import PartialState  # type: ignore[import-untyped]

        state = PartialState(
            cpu=device == "cpu" or not torch.cuda.is_available(), timeout=TIMEOUT
        )
        own_device = "cpu" if state.device.type == "cpu" else str(state.device)
        return cls(state.num_processes, state.process_index, own_device, state)

    @property
    def is_main(self) -> bool:
        """Whether this is the process that reports, writes and evaluates on dev examples."""
        return self.rank == 0

    def share(self, batch: Sequence[int]) -> Sequence[int]:
        """The examples of a batch that are this process's; there may be none."""
        return batch[self.rank :: self.count]

    def all_reduce(self, loss: Tensor, weights: Sequence[nn.Parameter]) -> Tensor:
        """Sum losses and gradients; a weight that no process used keeps no gradient."""
        if self.count == 1:
            return loss
        # All numbers travel as one tensor: the loss, which weights have gradients, and the
        # gradients.
        is_used, gradients = [], []
        for weight in weights:
            is_used.append(float(weight.grad is not None))
            gradient = torch.zeros_like(weight) if weight.grad is None else weight.grad
            gradients.append(gradient.flatten())
        sums = torch.cat([loss.reshape(1), loss.new_tensor(is_used), *gradients])
        torch.distributed.all_reduce(sums)
        total, used, *sums_by_weight = torch.split(
            sums, [1, len(weights), *map(len, gradients)]
        )
        for weight, users, gradient in zip(weights, used.tolist(), sums_by_weight):
            # In place, because CUDA graphs add to the gradient at its address.
            if weight.grad is not None:
                weight.grad.copy_(gradient.view_as(weight))
            elif users:
                weight.grad = gradient.view_as(weight).clone()
        return total.squeeze()

    def broadcast(self, *tensors: Tensor) -> None:
        """Give every process the main one's values."""
        if self.count > 1:
            for tensor in tensors:
                torch.distributed.broadcast(tensor.detach(), 0)

    @contextmanager
    def main_first(self) -> Iterator[None]:
        """A block that the others enter when the main process has left it, and find its files."""
        with self.state.main_process_first() if self.state else nullcontext():
            yield

    def close(self) -> None:
        """Wait for one another, then leave the group."""
        if self.count > 1:
            self.state.wait_for_everyone()
            self.state.destroy_process_group()


def is_sharded(tensor: Tensor) -> bool:
    """Whether a tensor is a `DTensor`, whose module takes long to import."""
    return hasattr(tensor, "full_tensor")


def gathered(tensor: Any) -> Tensor:
    """A tensor whole, on each process; of one that is sharded, all processes must ask for it."""
    whole: Tensor = tensor.full_tensor() if is_sharded(tensor) else tensor
    return whole


def sharded_like(weight: Any, tensor: Tensor) -> Tensor:
    """A whole tensor, equal on all processes, sharded as a weight is, if it is."""
    if not is_sharded(weight) or is_sharded(tensor):
        return tensor
    from torch.distributed.tensor import distribute_tensor

    return distribute_tensor(
        tensor.to(weight.device),
        weight.device_mesh,
        weight.placements,
        src_data_rank=None,
    )
