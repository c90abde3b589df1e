"""Adafactor with few kernels: transformers' optimizer, but weights of one shape are updated
together.

A T5 has hundreds of small weights, and a dozen kernels for each leave a GPU waiting for the host.
Fine-tuning a T5 of 77 M weights on an H200, in batches of 128, made 18 and 21 steps a second with
transformers' own steps, 48 and 49 with these (`benchmarks/seq2seq.py`, GeoQuery). State and steps
are those of transformers, to rounding.

K weights of one shape are stacked along a first dimension. Their states stay apart, a dictionary
each, as transformers makes them, so that a saved training can be continued by either.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from transformers import Adafactor

from nqg.training.processes import is_sharded

# A bound of memory: numbers that are updated together, so that copies of large weights stay few.
MAX_STACKED = 1 << 24


class StackedAdafactor(Adafactor):
    """transformers' Adafactor with the same state and the same steps, which are not scaled by the
    weights; for sharded weights it is transformers' own.
    """

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        """Change the weights by their gradients."""
        for group in self.param_groups:
            if any(map(is_sharded, group["params"])):
                return super().step(closure)  # type: ignore[no-untyped-call]
            by_shape: dict[torch.Size, list[Tensor]] = defaultdict(list)
            for weight in group["params"]:
                if weight.grad is not None:
                    by_shape[weight.shape].append(weight)
            for shape, weights in by_shape.items():
                size = max(1, MAX_STACKED // max(1, shape.numel()))
                for start in range(0, len(weights), size):
                    self._update(weights[start : start + size], group)
        return None

    def _update(self, weights: list[Tensor], group: dict[str, Any]) -> None:
        """One step of weights of one shape."""
        states = [self.state[weight] for weight in weights]
        for state in states:
            state["step"] = state.get("step", 0) + 1
        keep = 1.0 - states[0]["step"] ** group["decay_rate"]
        values = torch.stack(weights)  # (K, *shape)
        gradients = torch.stack(
            [weight.grad for weight in weights if weight.grad is not None]
        )
        squares = gradients.square() + group["eps"][0]

        # The second moment: a row and a column for a matrix, all numbers for a vector.
        if values.dim() > 2:
            rows = _averaged(states, "exp_avg_sq_row", squares.mean(dim=-1), keep)
            columns = _averaged(states, "exp_avg_sq_col", squares.mean(dim=-2), keep)
            row_factors = (rows / rows.mean(dim=-1, keepdim=True)).rsqrt().unsqueeze(-1)
            update = gradients * row_factors * columns.rsqrt().unsqueeze(-2)
        else:
            update = gradients * _averaged(states, "exp_avg_sq", squares, keep).rsqrt()

        # The root mean square of an update is at most the learning rate.
        sizes = update.flatten(1).square().mean(dim=1).sqrt()
        sizes = sizes.view(-1, *[1] * (update.dim() - 1))
        update /= (sizes / group["clip_threshold"]).clamp(min=1.0)
        update *= group["lr"]
        if group["weight_decay"]:
            update += group["weight_decay"] * group["lr"] * values
        for weight, change in zip(weights, update):
            weight.sub_(change)


def _averaged(
    states: Sequence[dict[str, Any]], name: str, new: Tensor, keep: float
) -> Tensor:
    """The moving averages of that name after this step, which are stored in the states."""
    averages = new * (1.0 - keep)
    if name in states[0]:
        averages = torch.stack([state[name] for state in states])
        averages.mul_(keep).add_(new, alpha=1.0 - keep)
    for state, average in zip(states, averages):
        state[name] = average
    return averages
