"""Scores of the pairs of span and rule that occur, and not of all, compiled: P pairs, S spans, R rules."""

from __future__ import annotations

from nqg.grammar.graph import Longs
from nqg.model.vectorised import Reals, vectorised


@vectorised
def score_pairs(
    spans: Longs, rules: Longs, vectors: Reals, of_spans: Reals, rule_vectors: Reals, of_rules: Reals, out: Reals
) -> None:
    """Fill `out` with the product of each pair's vectors, plus what its span and its rule have of their own: (P,)."""
    for pair in range(len(spans)):
        span, rule = spans[pair], rules[pair]
        score = of_spans[span] + of_rules[rule]
        for place in range(vectors.shape[1]):
            score += vectors[span, place] * rule_vectors[rule, place]
        out[pair] = score


@vectorised
def score_pairs_backwards(
    spans: Longs, rules: Longs, vectors: Reals, rule_vectors: Reals, flow: Reals,
    to_vectors: Reals, to_spans: Reals, to_rule_vectors: Reals, to_rules: Reals,
) -> None:  # fmt: skip
    """Carry `flow`, the gradient of the scores, on to everything that they come from, whose gradients hold zeros."""
    for pair in range(len(spans)):
        span, rule, here = spans[pair], rules[pair], flow[pair]
        to_spans[span] += here
        to_rules[rule] += here
        for place in range(vectors.shape[1]):
            to_vectors[span, place] += here * rule_vectors[rule, place]
            to_rule_vectors[rule, place] += here * vectors[span, place]
