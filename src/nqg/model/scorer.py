"""Scores of anchored rules (appendix A.3): phi(r, i, j, x) = f_s([w_i, w_j]) + e_r . f_r([w_i, w_j])."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, linear

from nqg.model.anchors import Anchors
from nqg.model.encoder import PieceBatch
from nqg.model.packing import encoded
from nqg.model.pairs import Pairs, pair_scores


class Scorer(nn.Module):
    """An encoder, the two feed-forward networks over the ends of a span, and an embedding for every rule."""

    def __init__(self, encoder: Any, rules: int, dimension: int) -> None:
        super().__init__()
        width = 2 * int(encoder.config.hidden_size)
        self.encoder = encoder
        self.span_network = _feed_forward(width, dimension, 1)
        self.rule_network = _feed_forward(width, dimension, dimension)
        self.rules = nn.Parameter(torch.randn(rules, dimension) * dimension**-0.5)

    def forward(self, sentences: PieceBatch, spans: Anchors, pairs: Pairs | None = None) -> Tensor:
        """The scores of pairs of span and rule: (P,); of every rule over every span if none are given: (S, R)."""
        return self.scores(*self.edges(sentences, spans), spans, pairs)

    def edges(self, sentences: PieceBatch, spans: Anchors) -> tuple[Tensor, Tensor]:
        """The encoder's vectors where spans begin and where they end: (E, D) each."""
        first, last = sentences.places(spans)
        vectors = encoded(self.encoder, sentences, torch.cat([first, last])).flatten(0, 1)  # (B * P, D)
        return vectors.index_select(0, first), vectors.index_select(0, last)

    def scores(self, firsts: Tensor, lasts: Tensor, spans: Anchors, pairs: Pairs | None = None) -> Tensor:
        """What `forward` returns, given the vectors of `edges`."""
        of_spans = self.span_network[-1](_hidden(self.span_network[0], firsts, lasts, spans))  # (S, 1)
        vectors = _hidden(self.rule_network[0], firsts, lasts, spans)  # (S, d)
        rules: Tensor = self.rules  # (R, d)
        last: Any = self.rule_network[-1]
        of_rules = rules @ last.bias  # (R,)
        # e_r . (W h + b) is (e_r W) . h + e_r . b: W goes to the side that has fewer vectors
        if len(rules) < len(vectors):
            rules = rules @ last.weight
        else:
            vectors = linear(vectors, last.weight)
        if pairs is None:
            scores: Tensor = of_spans + linear(vectors, rules, of_rules)
        else:
            scores = pair_scores(vectors, of_spans[:, 0], rules, of_rules, pairs)
        return scores.to(self.rules.dtype)  # full precision, also where the encoder runs in half


def _hidden(layer: Any, firsts: Tensor, lasts: Tensor, spans: Anchors) -> Tensor:
    """The hidden layer of a network over [w_i, w_j]: (S, d).

    It is the sum of a layer over w_i and one over w_j, which are made once for spans that share a w.
    """
    over_firsts, over_lasts = layer.weight.chunk(2, dim=1)  # (d, D) each
    of_firsts = linear(firsts, over_firsts).index_select(0, spans.starts.of_spans)
    return gelu(of_firsts + linear(lasts, over_lasts, layer.bias).index_select(0, spans.ends.of_spans))


def _feed_forward(width: int, hidden: int, out: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(width, hidden), nn.GELU(), nn.Linear(hidden, out))
