"""The inside pass over a batch of forests, its exact gradient, and the loss of the model.

p(z | x) is proportional to exp(s(z, x)), and s adds up over anchored rules (section 4.1.2 of the paper). The loss of a
pair is log Z(full forest) - log Z(goal forest). The gradient of log Z is the marginal probability of every application,
computed by walking back down, so no trace of the forward pass has to be kept by autograd.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from nqg.forests.forest import Forests
from nqg.grammar.graph import Longs, starts_of
from nqg.model.marginal_kernels import Floats, add_log_inside_and_marginals
from nqg.model.pairs import PairTable
from nqg.model.threads import in_threads

FEWEST_ROWS = 32  # sentences that are worth a thread


def forest_loss(scores: Tensor, forests: Forests, pairs: PairTable, batch: Longs) -> Tensor:
    """The mean over a batch of log Z(full) - log Z(goal), given the scores of its pairs of span and rule: (P,).

    Both passes, and the walk back down for the gradient, are made at once where the forests lie, on the CPU: their
    arithmetic is less than the beginning of one operation per level on a GPU would take. Scores come over and gradients
    go back in one transfer each.
    """
    return _ForestLoss.apply(scores, forests, pairs, batch)  # type: ignore[no-any-return,no-untyped-call]


class _ForestLoss(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, scores: Tensor, forests: Forests, pairs: PairTable, batch: Longs) -> Tensor:
        losses, gradient = losses_and_gradient(scores.detach().cpu().double().numpy(), forests, pairs, batch)
        both = torch.empty(len(gradient) + 1, dtype=scores.dtype, pin_memory=scores.is_cuda)
        both[:-1], both[-1] = torch.from_numpy(gradient).div_(len(batch)), losses.mean()
        gradient_and_loss = both.to(scores.device, non_blocking=True)
        ctx.save_for_backward(gradient_and_loss[:-1])
        return gradient_and_loss[-1].clone()

    @staticmethod
    def backward(ctx: Any, *flow: Tensor) -> tuple[Tensor, None, None, None]:
        return ctx.saved_tensors[0] * flow[0], None, None, None


def losses_and_gradient(scores: Floats, forests: Forests, pairs: PairTable, batch: Longs) -> tuple[Floats, Floats]:
    """The losses of the sentences of a batch, given the scores of their pairs, and the gradient of the losses' sum."""
    losses, gradient = np.zeros(len(batch)), np.zeros_like(scores)
    first_pair = starts_of(pairs.rules.sizes(batch))

    def add(rows: slice) -> None:
        for graph, of_applications, sign in ((forests.full, pairs.of_full, 1.0), (forests.goal, pairs.of_goal, -1.0)):
            add_log_inside_and_marginals(
                graph.first_choice, graph.first_application, graph.children, of_applications,
                batch[rows], first_pair[rows], scores, sign, losses[rows], gradient,
            )  # fmt: skip

    in_threads(add, len(batch), FEWEST_ROWS)
    return losses, gradient
