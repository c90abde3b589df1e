"""Parts of a layer of BERT on a CPU, each one pass over memory forwards and one backwards."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from nqg.grammar.graph import Longs
from nqg.model.attention_kernels import attend, attend_backwards
from nqg.model.dropout import Drops
from nqg.model.ragged import arrays
from nqg.model.residual_kernels import add_and_normalise, add_and_normalise_backwards
from nqg.model.summed_gelu import Sums


def residual(new: Tensor, bias: Tensor, old: Tensor, dropout: nn.Dropout, norm: nn.LayerNorm) -> Tensor:
    """LayerNorm(dropout(new + bias) + old): (M, D)."""
    return _Residual.apply(Drops.of(dropout), norm.eps, new, bias, old, norm.weight, norm.bias)  # type: ignore[no-any-return,no-untyped-call]


def biased_gelu(values: Tensor, bias: Tensor) -> Tensor:
    """GELU(values + bias): (M, D)."""
    return _BiasedGelu.apply(values, bias)  # type: ignore[no-any-return,no-untyped-call]


def attention(queries: Tensor, pairs: Tensor, factors: Tensor, asked: Longs, everything: Longs) -> Tensor:
    """What queries see of the values in their sentences: (M, H, D); see `attention_kernels`."""
    return _Attention.apply(queries, pairs, factors, asked, everything)  # type: ignore[no-any-return,no-untyped-call]


class _Residual(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, drops: Drops, epsilon: float, new: Tensor, *others: Tensor) -> Tensor:
        normal, inverse, out = torch.empty_like(new), new.new_empty(len(new)), torch.empty_like(new)
        add_and_normalise(*drops.facts, epsilon, *arrays(new, *others, normal, inverse, out))
        ctx.save_for_backward(normal, inverse, others[2])
        ctx.drops = drops
        return out

    @staticmethod
    def backward(ctx: Any, *flow: Tensor) -> tuple[Tensor | None, ...]:
        normal, _, weight = ctx.saved_tensors
        to_new, to_old = torch.empty_like(normal), torch.empty_like(normal)
        to_bias, to_weight, to_shift = (torch.zeros_like(weight) for _ in range(3))
        gradients = to_new, to_bias, to_old, to_weight, to_shift
        add_and_normalise_backwards(*ctx.drops.facts, *arrays(flow[0].contiguous(), *ctx.saved_tensors, *gradients))
        return None, None, *gradients


class _BiasedGelu(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, bias: Tensor) -> Tensor:
        rows = torch.arange(len(values))
        out, slopes = Sums(rows, torch.zeros_like(rows)).gelu(values, bias[None])
        ctx.save_for_backward(slopes)
        return out

    @staticmethod
    def backward(ctx: Any, *flow: Tensor) -> tuple[Tensor, Tensor]:
        to_values = flow[0] * ctx.saved_tensors[0]
        return to_values, to_values.sum(dim=0)


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, queries: Tensor, pairs: Tensor, factors: Tensor, asked: Longs, everything: Longs) -> Tensor:
        weights, out = torch.empty_like(factors), torch.empty_like(queries)
        attend(asked, everything, *arrays(queries, pairs, factors, weights, out))
        ctx.save_for_backward(queries, pairs, factors, weights)
        ctx.firsts = asked, everything
        return out

    @staticmethod
    def backward(ctx: Any, *flow: Tensor) -> tuple[Tensor | None, ...]:
        gradients = [torch.empty_like(each) for each in ctx.saved_tensors[:2]]
        attend_backwards(*ctx.firsts, *arrays(*ctx.saved_tensors, flow[0].contiguous(), *gradients))
        return *gradients, None, None, None
