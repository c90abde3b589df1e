"""Scores of the pairs of span and rule that occur, and not of all, compiled: P pairs, S spans, R rules.

The vectors of spans are the right parts of `hidden`, as wide as those of rules.
"""

from __future__ import annotations

from typing import Any

from nqg.grammar.graph import Longs
from nqg.model.vectorised import Reals, vectorised


@vectorised
def score_pairs(
    spans: Longs, rules: Longs, hidden: Reals, of_spans: Reals, rule_vectors: Reals, of_rules: Reals, out: Reals
) -> None:
    """Fill `out` with the product of each pair's vectors, plus what its span and its rule have of their own: (P,)."""
    left = hidden.shape[1] - rule_vectors.shape[1]
    for pair in range(len(spans)):
        vector, rule = hidden[spans[pair], left:], rule_vectors[rules[pair]]
        score = of_spans[spans[pair]] + of_rules[rules[pair]]
        for place in range(len(rule)):
            score += vector[place] * rule[place]
        out[pair] = score


@vectorised
def score_pairs_backwards(
    spans: Longs, rules: Longs, hidden: Reals, rule_vectors: Reals, flow: Reals,
    to_hidden: Reals, to_spans: Reals, to_rule_vectors: Reals, to_rules: Reals,
) -> None:  # fmt: skip
    """Carry `flow`, the gradient of the scores, on to everything that they come from, whose gradients hold zeros."""
    left = hidden.shape[1] - rule_vectors.shape[1]
    for pair in range(len(spans)):
        span, rule, here = spans[pair], rules[pair], flow[pair]
        to_spans[span] += here
        to_rules[rule] += here
        _add(here, rule_vectors[rule], to_hidden[span, left:])
        _add(here, hidden[span, left:], to_rule_vectors[rule])


@vectorised
def _add(factor: Any, row: Reals, out: Reals) -> None:
    for place in range(len(row)):
        out[place] += factor * row[place]
