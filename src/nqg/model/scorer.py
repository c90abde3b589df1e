"""Scores of anchored rules (appendix A.3): phi(r, i, j, x) = f_s([w_i, w_j]) + e_r . f_r([w_i, w_j])."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from nqg.model.anchors import AnchoredForest, Anchors
from nqg.model.encoder import PieceBatch


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
        """The score of every rule over every span: (S, R)."""
        pieces = self.encoder(input_ids=sentences.ids, attention_mask=sentences.mask).last_hidden_state  # (B, P, D)
        first = sentences.first[spans.sentences, spans.starts]
        last = sentences.last[spans.sentences, spans.ends]
        ends = torch.cat([pieces[spans.sentences, first], pieces[spans.sentences, last]], dim=-1)  # (S, 2D)
        scores: Tensor = self.span_network(ends) + self.rule_network(ends) @ self.rules.T
        return scores.to(self.rules.dtype)  # full precision, also where the encoder runs in half


def application_scores(scores: Tensor, forest: AnchoredForest) -> Tensor:
    """The scores of a forest's applications, in the order of its levels: (A,)."""
    return scores[forest.spans, forest.rules]


def _feed_forward(width: int, hidden: int, out: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(width, hidden), nn.GELU(), nn.Linear(hidden, out))
