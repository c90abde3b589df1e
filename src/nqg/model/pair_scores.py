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
from torch.nn.functional import gelu

from nqg.model.anchors import Anchors
from nqg.model.pair_kernels import score_pairs, score_pairs_backwards
from nqg.model.pairs import Pairs
from nqg.model.ragged import arrays


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
        the = Networks(*weights)
        into = torch.cat([the.span_in, the.rule_in])  # (2d, 2D)
        before = _before_gelu(the, into, ends, spans)  # (S, 2d)
        hidden = gelu(before)
        for_spans, for_rules = hidden.chunk(2, dim=1)
        of_spans = torch.addmv(the.span_bias, for_spans, the.span_out[0])  # (S,)
        turned = the.rules @ the.rule_out  # (R, d), for e . (W h + b) is (e W) . h + e . b
        of_rules = the.rules @ the.rule_bias  # (R,)
        ctx.save_for_backward(ends, into, before, hidden, turned, *weights)
        ctx.where = spans, pairs
        return _picked_products(for_rules, of_spans, turned, of_rules, pairs)

    @staticmethod
    def backward(ctx: Any, *flow: Tensor) -> tuple[Tensor | None, ...]:
        ends, into, before, hidden, turned, *weights = ctx.saved_tensors
        the, (spans, pairs) = Networks(*weights), ctx.where
        for_spans, for_rules = hidden.chunk(2, dim=1)
        to_for_rules, to_spans, to_turned, to_rules = _products_backwards(flow[0], for_rules, turned, pairs)
        to_hidden = torch.cat([torch.outer(to_spans, the.span_out[0]), to_for_rules], dim=1)
        to_before = torch.ops.aten.gelu_backward(to_hidden, before)
        to_ends, to_in, to_shift = _ends_backwards(to_before, into, ends, spans)
        width = len(the.span_shift)
        of_span_network = to_in[:width], to_shift[:width], (to_spans @ for_spans)[None], to_spans.sum()[None]
        of_rule_network = to_in[width:], to_shift[width:], the.rules.T @ to_turned, to_rules @ the.rules
        to_vectors = torch.addr(to_turned @ the.rule_out.T, to_rules, the.rule_bias)
        return None, None, to_ends, *of_span_network, *of_rule_network, to_vectors


def _before_gelu(the: Networks, into: Tensor, ends: Tensor, spans: Anchors) -> Tensor:
    starts = len(spans.starts.tokens)
    over_starts, over_ends = into.chunk(2, dim=1)  # (2d, D) each
    of_starts = ends[:starts] @ over_starts.T
    of_ends = torch.addmm(torch.cat([the.span_shift, the.rule_shift]), ends[starts:], over_ends.T)
    return of_starts.index_select(0, spans.starts.of_spans).add_(of_ends.index_select(0, spans.ends.of_spans))


def _ends_backwards(flow: Tensor, into: Tensor, ends: Tensor, spans: Anchors) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of the ends, of both tables of the hidden layer, and of what it adds."""
    starts = len(spans.starts.tokens)
    over_starts, over_ends = into.chunk(2, dim=1)
    of_starts, of_ends = (
        flow.new_zeros(len(edges.tokens), flow.shape[1]).index_add_(0, edges.of_spans, flow)
        for edges in (spans.starts, spans.ends)
    )
    to_in = torch.cat([of_starts.T @ ends[:starts], of_ends.T @ ends[starts:]], dim=1)
    return torch.cat([of_starts @ over_starts, of_ends @ over_ends]), to_in, of_ends.sum(dim=0)


def _picked_products(vectors: Tensor, of_spans: Tensor, rules: Tensor, of_rules: Tensor, pairs: Pairs) -> Tensor:
    """Of each pair vector . rule + of_span + of_rule."""
    if _multiplies_all(vectors):
        return (torch.addmm(of_rules, vectors, rules.T) + of_spans[:, None])[pairs.spans, pairs.rules]
    out = vectors.new_empty(len(pairs.spans))
    score_pairs(*arrays(pairs.spans, pairs.rules, vectors.contiguous(), of_spans, rules, of_rules, out))
    return out


def _products_backwards(flow: Tensor, vectors: Tensor, rules: Tensor, pairs: Pairs) -> tuple[Tensor, ...]:
    """The gradients of vectors, of_spans, rules and of_rules."""
    if _multiplies_all(vectors):
        table = vectors.new_zeros(len(vectors), len(rules))
        table[pairs.spans, pairs.rules] = flow
        return table @ rules, table.sum(dim=1), table.T @ vectors, table.sum(dim=0)
    gradients = [each.new_zeros(size) for each in (vectors, rules) for size in (each.shape, each.shape[:1])]
    tables = arrays(pairs.spans, pairs.rules, vectors.contiguous(), rules, flow.contiguous(), *gradients)
    score_pairs_backwards(*tables)
    return tuple(gradients)


def _multiplies_all(vectors: Tensor) -> bool:
    """Whether all spans are multiplied with all rules: for a GPU that is less work than to pick pairs."""
    return vectors.device.type != "cpu"
