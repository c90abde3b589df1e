"""Scores of anchored rules (appendix A.3): phi(r, i, j, x) = f_s([w_i, w_j]) + e_r . f_r([w_i, w_j])."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, linear

from nqg.model.encoder import PieceBatch
from nqg.model.packing import encoded
from nqg.model.pair_scores import pair_scores
from nqg.model.spans import Anchors, Pairs


class Scorer(nn.Module):
    """An encoder, the two feed-forward networks over the ends of a span, and an embedding for every rule."""

    def __init__(self, encoder: Any, rules: int, dimension: int) -> None:
        super().__init__()
        width = 2 * int(encoder.config.hidden_size)
        self.encoder = encoder
        self.span_network = _feed_forward(width, dimension, 1)
        self.rule_network = _feed_forward(width, dimension, dimension)
        self.rules = nn.Parameter(torch.randn(rules, dimension) * dimension**-0.5)

    def forward(self, sentences: PieceBatch, spans: Anchors) -> Tensor:
        """The scores of every rule over every span: (S, R)."""
        ends = encoded(self.encoder, sentences, sentences.places(spans))  # (E, D)
        firsts, lasts = ends.tensor_split([len(spans.starts.tokens)])
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
        scores: Tensor = of_spans + linear(vectors, rules, of_rules)
        return scores.to(self.rules.dtype)  # full precision, also where the encoder runs in half

    def of_pairs(self, ends: Tensor, spans: Anchors, pairs: Pairs) -> Tensor:
        """The same of some pairs of span and rule: (P,), given the encoder's vectors where spans begin and end."""
        weights = *self.span_network.parameters(), *self.rule_network.parameters(), self.rules
        return pair_scores(ends, spans, pairs, weights)


def _hidden(layer: Any, firsts: Tensor, lasts: Tensor, spans: Anchors) -> Tensor:
    """The hidden layer of a network over [w_i, w_j]: (S, d).

    It is the sum of a layer over w_i and one over w_j, which are made once for spans that share a w.
    """
    over_firsts, over_lasts = layer.weight.chunk(2, dim=1)  # (d, D) each
    of_firsts = linear(firsts, over_firsts).index_select(0, spans.starts.of_spans)
    return gelu(of_firsts + linear(lasts, over_lasts, layer.bias).index_select(0, spans.ends.of_spans))


def _feed_forward(width: int, hidden: int, out: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(width, hidden), nn.GELU(), nn.Linear(hidden, out))
