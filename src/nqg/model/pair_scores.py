"""Scores of pairs of span and rule, and the way back from them by hand: fewer launches on a GPU, fewer passes on a CPU.

The two networks over the ends of a span are one of double width up to their hidden layer. That layer is the sum of a
layer over w_i and one over w_j, which are made once for spans that share a w. E ends, D features, S spans, d hidden,
R rules, P pairs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from nqg.model.pair_kernels import score_pairs, score_pairs_backwards
from nqg.model.spans import Anchors, Pairs, arrays
from nqg.model.summed_gelu import Sums


@dataclass(frozen=True, slots=True)
class Networks:
    """The weights of f_s and f_r, each with a hidden layer, and the vectors of the rules."""

    span_in: Tensor  # (d, 2D)
    span_shift: Tensor  # (d,)
    span_out: Tensor  # (1, d)
    span_bias: Tensor  # (1,)
    rule_in: Tensor  # (d, 2D)
    rule_shift: Tensor  # (d,)
    rule_out: Tensor  # (d, d)
    rule_bias: Tensor  # (d,)
    rules: Tensor  # (R, d)


def pair_scores(ends: Tensor, spans: Anchors, pairs: Pairs, weights: Sequence[Tensor]) -> Tensor:
    """f_s([w_i, w_j]) + e_r . f_r([w_i, w_j]) of every pair: (P,), given the vectors w: (E, D), starts before ends.

    `weights` are those of `Networks`, in order. The arithmetic is in their precision, whatever the encoder's.
    """
    with torch.autocast(ends.device.type, enabled=False):
        return _PairScores.apply(spans, pairs, ends.to(weights[-1].dtype), *weights)  # type: ignore[no-any-return,no-untyped-call]


class _PairScores(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, spans: Anchors, pairs: Pairs, ends: Tensor, *weights: Tensor) -> Tensor:
        the, starts = Networks(*weights), len(spans.starts.tokens)
        into = torch.cat([the.span_in, the.rule_in])  # (2d, 2D)
        over_starts, over_ends = into.chunk(2, dim=1)
        of_ends = torch.addmm(torch.cat([the.span_shift, the.rule_shift]), ends[starts:], over_ends.T)
        sums = Sums(spans.starts.of_spans, spans.ends.of_spans)
        hidden, slopes = sums.gelu(ends[:starts] @ over_starts.T, of_ends)
        turned = the.rules @ the.rule_out  # (R, d), for e . (W h + b) is (e W) . h + e . b
        ctx.save_for_backward(ends, into, hidden, slopes, turned, *weights)
        ctx.where = sums, pairs, starts
        return Products(sums, pairs, hidden, the.span_out[0], turned).scores(the.span_bias, the.rules @ the.rule_bias)

    @staticmethod
    def backward(ctx: Any, *flow: Tensor) -> tuple[Tensor | None, ...]:
        ends, into, hidden, slopes, turned, *weights = ctx.saved_tensors
        the, (sums, pairs, starts) = Networks(*weights), ctx.where
        products = Products(sums, pairs, hidden, the.span_out[0], turned)
        of_starts, of_ends, to_spans, to_turned, to_rules = products.backwards(
            flow[0], slopes, (starts, len(ends) - starts)
        )
        over_starts, over_ends = into.chunk(2, dim=1)
        to_in = torch.cat([of_starts.T @ ends[:starts], of_ends.T @ ends[starts:]], dim=1)
        to_shift, width = of_ends.sum(dim=0), len(the.span_shift)
        return (
            None, None, torch.cat([of_starts @ over_starts, of_ends @ over_ends]),
            to_in[:width], to_shift[:width], (to_spans @ hidden[:, :width])[None], to_spans.sum()[None],
            to_in[width:], to_shift[width:], the.rules.T @ to_turned, to_rules @ the.rules,
            torch.addr(to_turned @ the.rule_out.T, to_rules, the.rule_bias),
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Products:
    """What the scores of pairs are products of; a CPU makes those of the pairs, a GPU all, which takes it less."""

    sums: Sums
    pairs: Pairs
    hidden: Tensor  # (S, 2d), the GELU of the sums: a half for spans and a half for rules
    span_vector: Tensor  # (d,)
    rules: Tensor  # (R, d)

    def scores(self, bias: Tensor, of_rules: Tensor) -> Tensor:
        """Of each pair the products of both halves, plus what all and what its rule have of their own: (P,)."""
        for_spans, for_rules = self.hidden.chunk(2, dim=1)
        of_spans = torch.addmv(bias, for_spans, self.span_vector)  # (S,)
        if _multiplies_all(self.hidden):
            table = torch.addmm(of_rules, for_rules, self.rules.T) + of_spans[:, None]
            return table[self.pairs.spans, self.pairs.rules]
        out = self.hidden.new_empty(len(self.pairs.spans))
        score_pairs(*arrays(self.pairs.spans, self.pairs.rules, self.hidden, of_spans, self.rules, of_rules, out))
        return out

    def backwards(self, flow: Tensor, slopes: Tensor, sizes: tuple[int, int]) -> tuple[Tensor, ...]:
        """The gradients of both tables of the sums, which have so many rows, and of of_spans, rules and of_rules."""
        if _multiplies_all(self.hidden):
            table = self.hidden.new_zeros(len(self.hidden), len(self.rules))
            table[self.pairs.spans, self.pairs.rules] = flow
            to_spans, to_rules = table.sum(dim=1), table.T @ self.hidden[:, len(self.span_vector) :]
            to_hidden = torch.cat([torch.outer(to_spans, self.span_vector), table @ self.rules], dim=1)
            return *self.sums.gelu_backwards(to_hidden, slopes, sizes), to_spans, to_rules, table.sum(dim=0)
        shapes = *((size, slopes.shape[1]) for size in sizes), slopes.shape[:1], self.rules.shape, self.rules.shape[:1]
        gradients = tuple(slopes.new_zeros(shape) for shape in shapes)
        given = flow.contiguous(), self.hidden, slopes, self.span_vector, self.rules
        where = self.pairs.spans, self.pairs.rules, self.sums.of_lefts, self.sums.of_rights
        score_pairs_backwards(*arrays(*where, *given, *gradients))
        return gradients


def _multiplies_all(hidden: Tensor) -> bool:
    return hidden.device.type != "cpu"
