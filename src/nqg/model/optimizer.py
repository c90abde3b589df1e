"""AdamW for all weights at once: torch's own, and its clipping, look at every weight in Python at every step.

With an encoder of two hundred small tables of weights that takes longer than the arithmetic.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor, nn

MEAN_SHARE, SQUARE_SHARE = 0.9, 0.999  # of the past in the running means of gradients and of their squares
LEAST = 1e-8  # added to what gradients are divided by
MEANS, SQUARES, COUNT = "means", "squares", "count"


class Optimizer:
    """Adam with weight decay apart from the gradient; gradients that are together longer than `clip` are cut to it."""

    def __init__(self, weights: Iterable[nn.Parameter], *, decay: float, clip: float) -> None:
        self.weights = tuple(weights)
        self.decay, self.clip = decay, clip
        self.means, self.squares = ([torch.zeros_like(weight) for weight in self.weights] for _ in range(2))
        self.count = torch.zeros((), device=self.weights[0].device)  # of steps made

    def forget_gradients(self) -> None:
        """Make room for the gradients of the next step."""
        for weight in self.weights:
            weight.grad = None

    def gradient_length(self) -> Tensor:
        """The length of the gradients of all weights together."""
        return torch.nn.utils.get_total_norm([weight.grad for weight in self.weights if weight.grad is not None])

    @torch.no_grad()
    def step(self, rate: float, length: Tensor) -> None:
        """Move the weights that have a gradient; `length` is `gradient_length`, which a caller wants to see before."""
        self.count += 1
        moved = [number for number, weight in enumerate(self.weights) if weight.grad is not None]
        torch._fused_adamw_(
            [self.weights[number] for number in moved],
            [gradient for weight in self.weights if (gradient := weight.grad) is not None],
            [self.means[number] for number in moved],
            [self.squares[number] for number in moved],
            [],
            [self.count] * len(moved),
            lr=rate,
            beta1=MEAN_SHARE,
            beta2=SQUARE_SHARE,
            weight_decay=self.decay,
            eps=LEAST,
            amsgrad=False,
            maximize=False,
            grad_scale=(length.float() / self.clip).clamp(min=1.0),  # gradients are divided by it
        )

    def tensors(self) -> dict[str, Tensor]:
        """All that the next step depends on, beside the weights and their gradients."""
        named = ((MEANS, self.means), (SQUARES, self.squares), (COUNT, [self.count]))
        return {f"{name}.{number}": tensor for name, tensors in named for number, tensor in enumerate(tensors)}

    @torch.no_grad()
    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Go on from what `tensors` gave."""
        for name, tensor in self.tensors().items():
            tensor.copy_(tensors[name])
