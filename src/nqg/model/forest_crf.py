"""The inside pass over a batch of forests, its exact gradient, and the loss of the model.

p(z | x) is proportional to exp(s(z, x)), and s adds up over anchored rules (section 4.1.2 of the paper). The loss of a
pair is log Z(full forest) - log Z(goal forest). The gradient of log Z is the marginal probability of every application,
computed by walking back down, so no trace of the forward pass has to be kept by autograd.

`forest_loss` is what training uses. `log_inside` and `max_inside` run level by level over tensors on any device, with
the value of every sentence to go on computing with.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nqg.forests.forest import Forests
from nqg.forests.levels import Levels
from nqg.grammar.graph import Longs, starts_of
from nqg.model.marginal_kernels import Floats, add_log_inside_and_marginals
from nqg.model.pairs import PairTable


@dataclass(frozen=True, slots=True)
class LevelTensors:
    """`Levels` on a device."""

    owners: Tensor  # (A,)
    children: Tensor  # (A, K)
    roots: Tensor  # (B,)
    slices: tuple[tuple[slice, slice], ...]
    choices: int

    @classmethod
    def of(cls, levels: Levels, device: torch.device | str) -> LevelTensors:
        """Move the tables of a batch to a device."""
        owners, children, roots = (
            torch.from_numpy(table).to(device) for table in (levels.owners, levels.children, levels.roots)
        )
        return cls(owners, children, roots, tuple(levels.slices()), len(levels.choices))


def log_inside(scores: Tensor, levels: LevelTensors) -> Tensor:
    """For each sentence the log of the sum over its derivations of exp(score): (B,); minus infinity for none.

    `scores` has one entry per application, in the order of the levels: (A,). Differentiable; the gradient with respect
    to a score is the marginal probability of its application.
    """
    return _Inside.apply(scores, levels, False)  # type: ignore[no-any-return,no-untyped-call]


def max_inside(scores: Tensor, levels: LevelTensors) -> Tensor:
    """For each sentence the score of its best derivation: (B,); its gradient is 1 for the applications of that one."""
    return _Inside.apply(scores, levels, True)  # type: ignore[no-any-return,no-untyped-call]


class _Inside(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, scores: Tensor, levels: LevelTensors, largest: bool) -> Tensor:
        values = scores.new_full(
            (levels.choices + 2,), -torch.inf
        )  # (N + 2,): one more for "no child", one for "no root"
        values[levels.choices] = 0.0
        totals = scores.clone()  # (A,)
        for choices, applications in levels.slices:
            children = levels.children[applications]
            totals[applications] += values[children].sum(dim=1)
            values[choices] = _united(
                totals[applications], levels.owners[applications] - choices.start, choices, largest
            )
        ctx.save_for_backward(totals, values)
        ctx.levels, ctx.largest = levels, largest
        return values[_root_places(levels)]

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        totals, values = ctx.saved_tensors
        levels: LevelTensors = ctx.levels
        below = values.new_zeros(levels.choices + 2)
        below.index_add_(0, _root_places(levels), gradients[0])
        flow = torch.zeros_like(totals)  # (A,)
        for choices, applications in reversed(levels.slices):
            owners = levels.owners[applications]
            shares = _shares(totals[applications], values[owners], owners - choices.start, choices, ctx.largest)
            flow[applications] = shares * below[owners]
            children = levels.children[applications]
            below.index_add_(0, children.flatten(), flow[applications].repeat_interleave(children.shape[1]))
        return flow, None, None


def _root_places(levels: LevelTensors) -> Tensor:
    """Where the roots' values are; the last place, minus infinity, for sentences without a derivation."""
    return torch.where(levels.roots == levels.choices, levels.choices + 1, levels.roots)


def _united(totals: Tensor, owners: Tensor, choices: slice, largest: bool) -> Tensor:
    """The maximum or the log-sum-exp of the totals of each choice."""
    count = choices.stop - choices.start
    top = totals.new_full((count,), -torch.inf).scatter_reduce(0, owners, totals, "amax")
    if largest:
        return top
    safe = torch.where(top.isfinite(), top, torch.zeros_like(top))
    sums = totals.new_zeros(count).index_add_(0, owners, (totals - safe[owners]).exp())
    return safe + sums.log()


def _shares(totals: Tensor, values: Tensor, owners: Tensor, choices: slice, largest: bool) -> Tensor:
    """How much of each choice falls to each of its applications: probabilities, or all to the first best."""
    if not largest:
        return torch.where(values.isfinite(), (totals - values).exp(), torch.zeros_like(totals))
    places = torch.arange(len(totals), device=totals.device)
    best = torch.where(totals == values, places, len(totals))
    count = choices.stop - choices.start
    first = places.new_full((count,), len(totals)).scatter_reduce(0, owners, best, "amin")
    return (first[owners] == places).to(totals.dtype)


def forest_loss(scores: Tensor, forests: Forests, pairs: PairTable, batch: Longs) -> Tensor:
    """The mean over a batch of log Z(full) - log Z(goal), given the scores of its pairs of span and rule: (P,).

    Both passes, and the walk back down for the gradient, are made at once where the forests lie, on the CPU: their
    arithmetic is less than the beginning of one operation per level on a GPU would take.
    """
    return _ForestLoss.apply(scores, forests, pairs, batch)  # type: ignore[no-any-return,no-untyped-call]


class _ForestLoss(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, scores: Tensor, forests: Forests, pairs: PairTable, batch: Longs) -> Tensor:
        losses, gradient = losses_and_gradient(scores.detach().cpu().double().numpy(), forests, pairs, batch)
        both = torch.from_numpy(np.append(gradient / len(batch), losses.mean())).to(scores.dtype).to(scores.device)
        ctx.save_for_backward(both[:-1])
        return both[-1].clone()

    @staticmethod
    def backward(ctx: Any, *flow: Tensor) -> tuple[Tensor, None, None, None]:
        return ctx.saved_tensors[0] * flow[0], None, None, None


def losses_and_gradient(scores: Floats, forests: Forests, pairs: PairTable, batch: Longs) -> tuple[Floats, Floats]:
    """The losses of the sentences of a batch, given the scores of their pairs, and the gradient of the losses' sum."""
    losses, gradient = np.zeros(len(batch)), np.zeros_like(scores)
    first_pair = starts_of(pairs.rules.sizes(batch))
    for graph, of_applications, sign in ((forests.full, pairs.of_full, 1.0), (forests.goal, pairs.of_goal, -1.0)):
        add_log_inside_and_marginals(
            graph.first_choice, graph.first_application, graph.children, of_applications,
            batch, first_pair, scores, sign, losses, gradient,
        )  # fmt: skip
    return losses, gradient
