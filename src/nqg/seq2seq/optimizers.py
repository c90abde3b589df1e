"""Adafactor (Shazeer and Stern, 2018) that updates all weights of one shape together, and the choice of an optimizer.

A small model has hundreds of small weights; one kernel each would leave a GPU waiting for the next. And whatever the
others look up on the host (`.item()`) would make it wait as well; here nothing is.

Weights may be sharded (`nqg.seq2seq.sharding`), by their first dimension. Each process updates its part then; only
means over that dimension are taken together.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, cast

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor, zeros

from nqg.seq2seq.settings import FineTuningSettings

TOGETHER = 2**24  # numbers that are stacked at most, so that the copies take no memory to speak of
LEAST_SQUARE = 1e-30
LEAST_SIZE = 1e-3  # of weights that steps are relative to
FORGETTING = 0.8


def new_optimizer(weights: Iterable[Tensor], settings: FineTuningSettings, rate: float) -> torch.optim.Optimizer:
    """The optimizer that the settings name."""
    weights = list(weights)
    if settings.optimizer == "adafactor":
        return Adafactor(weights, rate, scale_by_weights=settings.scale_by_weights, decay=settings.weight_decay)
    return torch.optim.AdamW(weights, rate, weight_decay=settings.weight_decay, fused=weights[0].is_cuda)


def is_divided(name: str, weight: Tensor) -> bool:
    """Whether an optimizer's numbers of that name are divided among processes where their weight is."""
    return name != "step" and not (name == "columns" and weight.dim() == 2)


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
            learning = [weight for weight in group["params"] if weight.grad is not None]
            for weight in learning:
                self._prepare(weight)
            for alike in _stacks(learning):
                self._update(alike, group)

    def _prepare(self, weight: Tensor) -> None:
        """Give a weight its moments at its first step; their count stays on the host, where it costs nothing."""
        state = self.state[weight]
        if not state:
            state["step"] = torch.zeros(())
            if weight.dim() < 2:
                state["squares"] = _zeros("squares", weight.shape, weight)
            else:
                state["rows"] = _zeros("rows", weight.shape[:-1], weight)
                state["columns"] = _zeros("columns", weight.shape[:-2] + weight.shape[-1:], weight)
        state["step"] += 1

    def _update(self, weights: Sequence[Tensor], group: dict[str, Any]) -> None:
        own = _own(weights)
        gradients = _stacked(_own([weight.grad for weight in weights if weight.grad is not None]))  # (K, *shape)
        newness = float(self.state[weights[0]]["step"]) ** -FORGETTING
        update = gradients * self._inverse_roots(weights, gradients.square() + LEAST_SQUARE, newness)
        update /= _sizes(update, weights[0]).clamp(min=1)
        update *= -group["lr"]
        if group["scale_by_weights"]:
            update *= _sizes(_stacked(own), weights[0]).clamp(min=LEAST_SIZE)
        if group["decay"]:
            torch._foreach_mul_(own, 1 - group["lr"] * group["decay"])
        torch._foreach_add_(own, list(update.unbind()))

    def _inverse_roots(self, weights: Sequence[Tensor], squares: Tensor, newness: float) -> Tensor:
        """One over the root of the second moments, after the squares of this step were blended in."""
        if squares.dim() < 3:  # one for the stack, one for a vector
            return self._blended(weights, "squares", squares, newness).rsqrt()
        one, height = weights[0], weights[0].shape[-2]
        rows = self._blended(weights, "rows", squares.mean(-1), newness)
        columns = self._blended(weights, "columns", _mean(squares, -2, one, height), newness)
        shares = rows / _mean(rows, -1, one, height).unsqueeze(-1)
        return shares.rsqrt().unsqueeze(-1) * columns.rsqrt().unsqueeze(-2)

    def _blended(self, weights: Sequence[Tensor], name: str, new: Tensor, newness: float) -> Tensor:
        kept = _own([self.state[weight][name] for weight in weights])
        blend = _stacked(kept).lerp(new, newness)
        torch._foreach_copy_(kept, list(blend.unbind()))
        return blend


def _stacks(weights: Iterable[Tensor]) -> Iterator[list[Tensor]]:
    """The weights by shape, as many together as stay small."""
    by_shape: dict[torch.Size, list[Tensor]] = {}
    for weight in weights:
        by_shape.setdefault(weight.shape, []).append(weight)
    for alike in by_shape.values():
        size = max(1, TOGETHER // max(1, alike[0].numel()))
        yield from (alike[start : start + size] for start in range(0, len(alike), size))


def _own(tensors: Sequence[Tensor]) -> list[Tensor]:
    """This process's parts of tensors, all of which are divided or none."""
    if isinstance(tensors[0], DTensor):
        return [tensor.to_local() for tensor in cast("Sequence[DTensor]", tensors)]
    return list(tensors)


def _stacked(tensors: Sequence[Tensor]) -> Tensor:
    return tensors[0].unsqueeze(0) if len(tensors) == 1 else torch.stack(list(tensors))


def _zeros(name: str, shape: torch.Size, weight: Tensor) -> Tensor:
    """The first numbers of an optimizer, divided if they are to be."""
    if isinstance(weight, DTensor) and is_divided(name, weight):
        return zeros(shape, dtype=weight.dtype, device_mesh=weight.device_mesh, placements=weight.placements)
    return torch.zeros(shape, dtype=weight.dtype, device=weight.device)


def _mean(stack: Tensor, dimension: int, weight: Tensor, count: int) -> Tensor:
    """The mean over a dimension of a stack; where its weights are divided by that one, over all `count` numbers."""
    if dimension % stack.dim() != 1 or not isinstance(weight, DTensor):
        return stack.mean(dimension)
    sums = stack.sum(dimension)
    torch.distributed.all_reduce(sums, group=weight.device_mesh.get_group())
    return sums / count


def _sizes(stack: Tensor, weight: Tensor) -> Tensor:
    """The root mean square of every tensor in a stack, in a shape that multiplies it."""
    flat = stack.reshape(len(stack), math.prod(stack.shape[1:]))  # which may be 0, of a part
    sizes = _mean(flat.square(), 1, weight, weight.numel()).sqrt()
    return sizes.view(-1, *[1] * (stack.dim() - 1))
