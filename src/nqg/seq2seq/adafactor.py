"""Adafactor with few kernels: transformers' optimizer, but weights of one shape are updated together.

A T5 has hundreds of small weights, and a dozen kernels for each leave a GPU waiting for the host: fine-tuning a T5 of
77 M weights on an H200, in batches of 128, made 18 and 21 steps a second with transformers' own steps, 48 and 49 with
these (`benchmarks/seq2seq.py`, GeoQuery).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from transformers import Adafactor

from nqg.training.processes import is_sharded

MAX_STACKED = 1 << 24  # numbers that are updated together, so that copies of large weights stay few


class StackedAdafactor(Adafactor):
    """transformers' Adafactor with the same state and the same steps; sharded weights take its own."""

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        """Change the weights by their gradients."""
        if any(is_sharded(weight) for group in self.param_groups for weight in group["params"]):
            return super().step(closure)  # type: ignore[no-untyped-call]
        for group in self.param_groups:
            weights = [weight for weight in group["params"] if weight.grad is not None]
            for same_shape in stacks(weights):
                self._update(same_shape, group)
        return None

    def _update(self, weights: Sequence[Tensor], group: dict[str, Any]) -> None:
        """One step of weights that have one shape, stacked along a first dimension."""
        states = [self.state[weight] for weight in weights]
        for state in states:
            state["step"] = state.get("step", 0) + 1
        keep = 1.0 - states[0]["step"] ** group["decay_rate"]
        values = torch.stack(list(weights))  # (K, *shape)
        gradients = torch.stack([weight.grad for weight in weights if weight.grad is not None])
        squares = gradients.square() + group["eps"][0]

        # The second moment: a row and a column for a matrix, all numbers for a vector.
        if values.dim() > 2:
            rows = _averaged(states, "exp_avg_sq_row", squares.mean(dim=-1), keep)
            columns = _averaged(states, "exp_avg_sq_col", squares.mean(dim=-2), keep)
            row_factors = (rows / rows.mean(dim=-1, keepdim=True)).rsqrt().unsqueeze(-1)
            update = gradients * row_factors * columns.rsqrt().unsqueeze(-2)
        else:
            update = gradients * _averaged(states, "exp_avg_sq", squares, keep).rsqrt()

        # The root mean square of an update is at most the learning rate, relative to the weights if that is wanted.
        update /= (_root_mean_squares(update) / group["clip_threshold"]).clamp(min=1.0)
        update *= group["lr"]
        if group["scale_parameter"]:
            update *= _root_mean_squares(values).clamp(min=group["eps"][1])
        if group["weight_decay"]:
            decay = group["weight_decay"] * group["lr"] * values
            if group["scale_parameter"]:
                decay *= _root_mean_squares(values).clamp(min=group["eps"][1])
            update += decay
        for weight, change in zip(weights, update.unbind(), strict=True):
            weight.sub_(change)


def stacks(weights: Sequence[Tensor]) -> Iterator[list[Tensor]]:
    """The weights by shape, as many together as stay small."""
    by_shape: dict[torch.Size, list[Tensor]] = {}
    for weight in weights:
        by_shape.setdefault(weight.shape, []).append(weight)
    for same_shape in by_shape.values():
        size = max(1, MAX_STACKED // max(1, same_shape[0].numel()))
        for start in range(0, len(same_shape), size):
            yield same_shape[start : start + size]


def _averaged(states: Sequence[dict[str, Any]], name: str, new: Tensor, keep: float) -> Tensor:
    """The moving averages of that name after this step, which the states keep."""
    if name not in states[0]:
        averages = new * (1.0 - keep)
    else:
        averages = (
            torch.stack([state[name] for state in states]).mul_(keep).add_(new, alpha=1.0 - keep)
        )
    for state, average in zip(states, averages.unbind(), strict=True):
        state[name] = average
    return averages


def _root_mean_squares(stack: Tensor) -> Tensor:
    """The root mean square of every tensor in a stack, in a shape that multiplies it."""
    sizes = stack.flatten(1).square().mean(dim=1).sqrt()
    return sizes.view(-1, *[1] * (stack.dim() - 1))
