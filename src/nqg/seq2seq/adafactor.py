"""Adafactor (Shazeer and Stern, 2018) that updates all weights of one shape together.

A small model has hundreds of small weights; one kernel each would leave a GPU waiting for the next. And whatever other
implementations look up on the host (`.item()`) would make it wait as well; here nothing is.

Weights may be sharded, by their first dimension. Each process updates its part then; only means over that dimension
are taken together.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor, zeros

MAX_STACKED = 2**24  # numbers that are stacked at most, so that the copies take no memory to speak of
MIN_SQUARE = 1e-30
MIN_SIZE = 1e-3  # of weights that steps are relative to
DECAY_EXPONENT = 0.8  # of the second moments' decay: step t is blended in with weight t^-0.8


class Adafactor(torch.optim.Optimizer):
    """Adam with a second moment in factored form: a row and a column of numbers for a matrix, and no first moment.

    The root mean square of an update is at most 1 times the rate; `scale_by_weights` makes it relative to the weights'.
    """

    def __init__(
        self, weights: Iterable[Tensor], lr: float, *, scale_by_weights: bool = False, decay: float = 0.0
    ) -> None:
        super().__init__(weights, {"lr": lr, "scale_by_weights": scale_by_weights, "decay": decay})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """Change the weights by their gradients."""
        for group in self.param_groups:
            for alike in stacks(weight for weight in group["params"] if weight.grad is not None):
                self._update(alike, group)

    def _update(self, weights: Sequence[Tensor], group: dict[str, Any]) -> None:
        for weight in weights:
            self.state[weight].setdefault("step", torch.zeros(()))  # on the host, where counting costs nothing
            self.state[weight]["step"] += 1
        blend = float(self.state[weights[0]]["step"]) ** -DECAY_EXPONENT
        one, own = weights[0], _local(weights)
        gradients = _stacked(_local([weight.grad for weight in weights if weight.grad is not None]))  # (K, *shape)
        squares = gradients.square() + MIN_SQUARE
        if one.dim() < 2:
            update = gradients * self._blended(weights, "squares", one.shape, squares, blend).rsqrt()
        else:
            height = one.shape[-2]
            rows = self._blended(weights, "rows", one.shape[:-1], squares.mean(-1), blend)
            below = one.shape[:-2] + one.shape[-1:]
            columns = self._blended(weights, "columns", below, _mean(squares, -2, one, height), blend)
            shares = rows / _mean(rows, -1, one, height).unsqueeze(-1)
            update = gradients * (shares.rsqrt().unsqueeze(-1) * columns.rsqrt().unsqueeze(-2))
        update /= _root_mean_squares(update, one).clamp(min=1)
        update *= -group["lr"]
        if group["scale_by_weights"]:
            update *= _root_mean_squares(_stacked(own), one).clamp(min=MIN_SIZE)
        if group["decay"]:
            torch._foreach_mul_(own, 1 - group["lr"] * group["decay"])
        torch._foreach_add_(own, list(update.unbind()))

    def _blended(self, weights: Sequence[Tensor], name: str, shape: torch.Size, new: Tensor, blend: float) -> Tensor:
        """The second moments of that name and shape, after those of this step were blended in."""
        for weight in weights:
            if name not in self.state[weight]:
                is_whole = name == "columns" and weight.dim() == 2  # a mean over the dimension that is sharded
                if isinstance(weight, DTensor) and not is_whole:
                    layout: Any = {"device_mesh": weight.device_mesh, "placements": weight.placements}
                    self.state[weight][name] = zeros(shape, dtype=weight.dtype, **layout)
                else:
                    self.state[weight][name] = torch.zeros(shape, dtype=weight.dtype, device=weight.device)
        kept = _local([self.state[weight][name] for weight in weights])
        blended = _stacked(kept).lerp(new, blend)
        torch._foreach_copy_(kept, list(blended.unbind()))
        return blended


def stacks(weights: Iterable[Tensor]) -> Iterator[list[Tensor]]:
    """The weights by shape, as many together as stay small."""
    by_shape: dict[torch.Size, list[Tensor]] = {}
    for weight in weights:
        by_shape.setdefault(weight.shape, []).append(weight)
    for alike in by_shape.values():
        size = max(1, MAX_STACKED // max(1, alike[0].numel()))
        yield from (alike[start : start + size] for start in range(0, len(alike), size))


def _local(tensors: Sequence[Tensor]) -> list[Tensor]:
    """This process's parts of tensors."""
    return [tensor.to_local() if isinstance(tensor, DTensor) else tensor for tensor in tensors]


def _stacked(tensors: Sequence[Tensor]) -> Tensor:
    return tensors[0].unsqueeze(0) if len(tensors) == 1 else torch.stack(list(tensors))


def _mean(stack: Tensor, dimension: int, weight: Tensor, count: int) -> Tensor:
    """The mean over a dimension of a stack; where its weights are sharded by that one, over all `count` numbers."""
    if dimension % stack.dim() != 1 or not isinstance(weight, DTensor):
        return stack.mean(dimension)
    sums = stack.sum(dimension)
    torch.distributed.all_reduce(sums, group=weight.device_mesh.get_group())
    return sums / count


def _root_mean_squares(stack: Tensor, weight: Tensor) -> Tensor:
    """The root mean square of every tensor in a stack, in a shape that multiplies it."""
    flat = stack.reshape(len(stack), math.prod(stack.shape[1:]))  # which may be 0, of a part
    sizes = _mean(flat.square(), 1, weight, weight.numel()).sqrt()
    return sizes.view(-1, *[1] * (stack.dim() - 1))
