"""The halves of a layer of BERT on a CPU, forwards and backwards by hand: few passes over memory, and none for sums.

M rows of D features, H heads. The way back adds what comes through a half to what goes around it inside of the matrix
products, where autograd would add them afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from nqg.grammar.arrays import Int64Array
from nqg.grammar.hypergraph import starts_of
from nqg.model.attention_kernels import attend, attend_backwards
from nqg.model.dropout import Drops
from nqg.model.residual_kernels import add_and_normalise, add_and_normalise_backwards
from nqg.model.spans import arrays
from nqg.model.summed_gelu import Sums
from nqg.model.threads import in_threads

FEWEST_SENTENCES = 32  # that are worth a thread


@dataclass(frozen=True, slots=True)
class Ending:
    """How a half ends: LayerNorm(dropout(new + bias) + old)."""

    drops: Drops
    epsilon: float

    @classmethod
    def of(cls, dropout: nn.Dropout, norm: nn.LayerNorm) -> Ending:
        """With a new draw."""
        return cls(Drops.of(dropout), norm.eps)

    def made(self, new: Tensor, *others: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The result, and what the way back needs; `others` are bias, old rows, and weight and shift of the norm."""
        normal, inverse, out = torch.empty_like(new), new.new_empty(len(new)), torch.empty_like(new)
        add_and_normalise(*self.drops.facts, self.epsilon, *arrays(new, *others, normal, inverse, out))
        return out, normal, inverse

    def backwards(self, flow: Tensor, normal: Tensor, inverse: Tensor, weight: Tensor) -> tuple[Tensor, ...]:
        """The gradients of new, bias, old, weight and shift."""
        to_new, to_old = torch.empty_like(normal), torch.empty_like(normal)
        to_bias, to_weight, to_shift = (torch.zeros_like(weight) for _ in range(3))
        gradients = to_new, to_bias, to_old, to_weight, to_shift
        kept = flow.contiguous(), normal, inverse, weight
        add_and_normalise_backwards(*self.drops.facts, *arrays(*kept, *gradients))
        return gradients


def residual(new: Tensor, bias: Tensor, old: Tensor, dropout: nn.Dropout, norm: nn.LayerNorm) -> Tensor:
    """LayerNorm(dropout(new + bias) + old): (M, D)."""
    return _Residual.apply(Ending.of(dropout, norm), new, bias, old, norm.weight, norm.bias)  # type: ignore[no-any-return,no-untyped-call]


class _Residual(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, ending: Ending, *tensors: Tensor) -> Tensor:
        out, *kept = ending.made(*tensors)
        ctx.save_for_backward(*kept, tensors[3])
        ctx.ending = ending
        return out

    @staticmethod
    def backward(ctx: Any, *flow: Tensor) -> tuple[Tensor | None, ...]:
        return None, *ctx.ending.backwards(*flow, *ctx.saved_tensors)


def feed_forward(old: Tensor, inner: nn.Linear, outer: nn.Linear, dropout: nn.Dropout, norm: nn.LayerNorm) -> Tensor:
    """LayerNorm(dropout(outer(GELU(inner(old)))) + old): (M, D)."""
    weights = inner.weight, inner.bias, outer.weight, outer.bias, norm.weight, norm.bias
    return _FeedForward.apply(Ending.of(dropout, norm), old, *weights)  # type: ignore[no-any-return,no-untyped-call]


class _FeedForward(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, ending: Ending, old: Tensor, *weights: Tensor) -> Tensor:
        into, into_bias, outer, bias, weight, shift = weights
        rows = torch.arange(len(old))
        hidden, slopes = Sums(rows, torch.zeros_like(rows)).gelu(old @ into.T, into_bias[None])
        out, normal, inverse = ending.made(hidden @ outer.T, bias, old, weight, shift)
        ctx.save_for_backward(old, into, hidden, slopes, outer, normal, inverse, weight)
        ctx.ending = ending
        return out

    @staticmethod
    def backward(ctx: Any, *flow: Tensor) -> tuple[Tensor | None, ...]:
        old, into, hidden, slopes, outer, *kept = ctx.saved_tensors
        to_new, to_bias, to_old, to_weight, to_shift = ctx.ending.backwards(*flow, *kept)
        to_sums = (to_new @ outer).mul_(slopes)
        of_inner, of_outer = (to_sums.T @ old, to_sums.sum(dim=0)), (to_new.T @ hidden, to_bias)
        return None, to_old.addmm_(to_sums, into), *of_inner, *of_outer, to_weight, to_shift


@dataclass(frozen=True, slots=True)
class Looks:
    """Who looks at whom: where sentences begin among rows that ask, among all rows, and among weights, one for a look.

    `factors` are those that dropout gives the weights.
    """

    asked: Int64Array  # (B + 1,)
    everything: Int64Array  # (B + 1,)
    first: Int64Array  # (B + 1,)
    heads: int
    factors: Tensor

    @classmethod
    def of(
        cls, asked: Int64Array, everything: Int64Array, heads: int, dropout: nn.Dropout, dtype: torch.dtype
    ) -> Looks:
        """With a new draw."""
        first = starts_of(heads * np.diff(asked) * np.diff(everything))
        return cls(asked, everything, first, heads, Drops.of(dropout).factors((1, int(first[-1])), dtype)[0])

    def seen(self, queries: Tensor, pairs: Tensor) -> tuple[Tensor, Tensor]:
        """What queries see of the values in their sentences: (M, H, D), and the weights of that; see the kernels."""
        weights, out = torch.empty_like(self.factors), torch.empty_like(queries)
        self._share(attend, (queries, pairs), (self.factors, weights), (out,))
        return out, weights

    def backwards(self, flow: Tensor, queries: Tensor, pairs: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
        """The gradients of queries and pairs."""
        gradients = torch.empty_like(queries), torch.empty_like(pairs)
        self._share(attend_backwards, (queries, pairs), (self.factors, weights), (flow, *gradients))
        return gradients

    def _share(
        self, kernel: Callable[..., None], rows: Sequence[Tensor], weights: Sequence[Tensor], others: Sequence[Tensor]
    ) -> None:
        """Let threads share the sentences, of which each has its own part of `weights`."""
        before, of_looks, after = arrays(*rows), arrays(*weights), arrays(*others)

        def work(part: slice) -> None:
            bounds, begin = slice(part.start, part.stop + 1), self.first[part.start]
            kernel(self.asked[bounds], self.everything[bounds], *before, *(each[begin:] for each in of_looks), *after)

        in_threads(work, len(self.asked) - 1, FEWEST_SENTENCES)


def attention(asking: Tensor, others: Tensor | None, looks: Looks, layer: Any) -> Tensor:
    """The first half of Transformers' `layer` for rows that ask: (M, D); they look at `others`, or at each other."""
    heads, output = layer.attention.self, layer.attention.output
    parts = heads.query, heads.key, heads.value, output.dense, output.LayerNorm
    weights = [tensor for part in parts for tensor in (part.weight, part.bias)]
    return _Attention.apply(looks, Ending.of(output.dropout, output.LayerNorm), asking, others, *weights)  # type: ignore[no-any-return,no-untyped-call]


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, looks: Looks, ending: Ending, asking: Tensor, others: Tensor | None, *weights: Tensor
    ) -> Tensor:
        query, query_bias, key, key_bias, value, value_bias, outer, bias, weight, shift = weights
        pair = torch.cat([key, value])
        queries = torch.addmm(query_bias, asking, query.T).view(len(asking), looks.heads, -1)
        seen = asking if others is None else others
        pairs = torch.addmm(torch.cat([key_bias, value_bias]), seen, pair.T).view(len(seen), 2, looks.heads, -1)
        context, shares = looks.seen(queries, pairs)
        out, *kept = ending.made(context.flatten(1) @ outer.T, bias, asking, weight, shift)
        ctx.save_for_backward(asking, others, query, pair, outer, queries, pairs, shares, context, *kept, weight)
        ctx.how = looks, ending
        return out

    @staticmethod
    def backward(ctx: Any, *flow: Tensor) -> tuple[Tensor | None, ...]:
        asking, others, query, pair, outer, queries, pairs, shares, context, *kept = ctx.saved_tensors
        looks, ending = ctx.how
        to_new, to_bias, to_asking, to_weight, to_shift = ending.backwards(*flow, *kept)
        to_context = (to_new @ outer).view_as(context)
        to_queries, to_pairs = (each.flatten(1) for each in looks.backwards(to_context, queries, pairs, shares))
        to_asking.addmm_(to_queries, query)
        if others is None:
            seen, to_others = asking, None
            to_asking.addmm_(to_pairs, pair)
        else:
            seen, to_others = others, to_pairs @ pair
        to_key, to_value = (to_pairs.T @ seen).chunk(2)
        to_key_bias, to_value_bias = to_pairs.sum(dim=0).chunk(2)
        return (
            None, None, to_asking, to_others,
            to_queries.T @ asking, to_queries.sum(dim=0), to_key, to_key_bias, to_value, to_value_bias,
            to_new.T @ context.flatten(1), to_bias, to_weight, to_shift,
        )  # fmt: skip
