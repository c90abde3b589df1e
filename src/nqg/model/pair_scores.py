"""Scores of pairs of span and rule, and the way back from them, by hand: autograd would launch three times as much.

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

from nqg.model.anchors import Anchors
from nqg.model.pair_kernels import score_pairs, score_pairs_backwards
from nqg.model.pairs import Pairs
from nqg.model.ragged import arrays
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
        hidden, slopes = sums.gelu(ends[:starts] @ over_starts.T, of_ends)  # (S, 2d)
        of_spans = torch.addmv(the.span_bias, hidden[:, : len(the.span_shift)], the.span_out[0])  # (S,)
        turned = the.rules @ the.rule_out  # (R, d), for e . (W h + b) is (e W) . h + e . b
        ctx.save_for_backward(ends, into, hidden, slopes, turned, *weights)
        ctx.where = starts, sums, pairs
        return _picked_products(hidden, of_spans, turned, the.rules @ the.rule_bias, pairs)

    @staticmethod
    def backward(ctx: Any, *flow: Tensor) -> tuple[Tensor | None, ...]:
        ends, into, hidden, slopes, turned, *weights = ctx.saved_tensors
        the, (starts, sums, pairs) = Networks(*weights), ctx.where
        width = len(the.span_shift)
        to_hidden, to_spans, to_turned, to_rules = _products_backwards(flow[0], hidden, turned, pairs)
        torch.outer(to_spans, the.span_out[0], out=to_hidden[:, :width])
        of_starts, of_ends = sums.gelu_backwards(to_hidden, slopes, (starts, len(ends) - starts))
        over_starts, over_ends = into.chunk(2, dim=1)
        to_in = torch.cat([of_starts.T @ ends[:starts], of_ends.T @ ends[starts:]], dim=1)
        to_shift = of_ends.sum(dim=0)
        return (
            None, None, torch.cat([of_starts @ over_starts, of_ends @ over_ends]),
            to_in[:width], to_shift[:width], (to_spans @ hidden[:, :width])[None], to_spans.sum()[None],
            to_in[width:], to_shift[width:], the.rules.T @ to_turned, to_rules @ the.rules,
            torch.addr(to_turned @ the.rule_out.T, to_rules, the.rule_bias),
        )  # fmt: skip


def _picked_products(hidden: Tensor, of_spans: Tensor, rules: Tensor, of_rules: Tensor, pairs: Pairs) -> Tensor:
    """Of each pair vector . rule + of_span + of_rule; the vectors are the right half of `hidden`."""
    if _multiplies_all(hidden):
        table = torch.addmm(of_rules, hidden[:, rules.shape[1] :], rules.T)
        return (table + of_spans[:, None])[pairs.spans, pairs.rules]
    out = hidden.new_empty(len(pairs.spans))
    score_pairs(*arrays(pairs.spans, pairs.rules, hidden, of_spans, rules, of_rules, out))
    return out


def _products_backwards(flow: Tensor, hidden: Tensor, rules: Tensor, pairs: Pairs) -> tuple[Tensor, ...]:
    """The gradients of hidden, of_spans, rules and of_rules; the left half of the first is left open."""
    if _multiplies_all(hidden):
        table, vectors = hidden.new_zeros(len(hidden), len(rules)), hidden[:, rules.shape[1] :]
        table[pairs.spans, pairs.rules] = flow
        to_hidden = torch.cat([torch.empty_like(vectors), table @ rules], dim=1)
        return to_hidden, table.sum(dim=1), table.T @ vectors, table.sum(dim=0)
    gradients = [each.new_zeros(size) for each in (hidden, rules) for size in (each.shape, each.shape[:1])]
    score_pairs_backwards(*arrays(pairs.spans, pairs.rules, hidden, rules, flow.contiguous(), *gradients))
    return tuple(gradients)


def _multiplies_all(hidden: Tensor) -> bool:
    """Whether all spans are multiplied with all rules: for a GPU that is less work than to pick pairs."""
    return hidden.device.type != "cpu"
