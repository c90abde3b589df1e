"""Scores of the pairs of span and rule that occur, and not of all, compiled: P pairs, S spans, R rules.

The vectors of spans are the right parts of `hidden`, as wide as those of rules.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nqg.grammar.arrays import Int64Array
from nqg.model.vectorised import Reals, vectorised


@vectorised
def score_pairs(
    spans: Int64Array,
    rules: Int64Array,
    hidden: Reals,
    of_spans: Reals,
    rule_vectors: Reals,
    of_rules: Reals,
    out: Reals,
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
    spans: Int64Array, rules: Int64Array, of_starts: Int64Array, of_ends: Int64Array,
    flow: Reals, hidden: Reals, slopes: Reals, span_vector: Reals, rule_vectors: Reals,
    to_starts: Reals, to_ends: Reals, to_spans: Reals, to_rule_vectors: Reals, to_rules: Reals,
) -> None:  # fmt: skip
    """Carry `flow`, the gradient of the scores, on to what they come from, whose gradients hold zeros.

    Through `hidden` it goes in one pass, to the starts and the ends of spans; `span_vector` is what gives `of_spans`.
    What arrives at a span is summed up first: where its pairs balance it is 0, and not what rounding makes of it.
    """
    width = len(span_vector)
    here = np.zeros(hidden.shape[1], dtype=hidden.dtype)
    own = flow.dtype.type(0)
    for pair in range(len(spans)):
        span, rule = spans[pair], rules[pair]
        own += flow[pair]
        to_rules[rule] += flow[pair]
        _add(flow[pair], rule_vectors[rule], here[width:])
        _add(flow[pair], hidden[span, width:], to_rule_vectors[rule])
        if pair + 1 == len(spans) or spans[pair + 1] != span:
            to_spans[span] += own
            _add(own, span_vector, here[:width])
            _multiply(slopes[span], here)
            _add(here.dtype.type(1), here, to_starts[of_starts[span]])
            _add(here.dtype.type(1), here, to_ends[of_ends[span]])
            here[:] = 0
            own = flow.dtype.type(0)


@vectorised
def _add(factor: Any, row: Reals, out: Reals) -> None:
    for place in range(len(row)):
        out[place] += factor * row[place]


@vectorised
def _multiply(factors: Reals, out: Reals) -> None:
    for place in range(len(out)):
        out[place] *= factors[place]
