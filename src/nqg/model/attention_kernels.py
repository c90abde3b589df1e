"""Attention within sentences that are laid end to end, forwards and backwards, compiled.

Sentences of ten pieces are too short for general routines, whose time goes into preparations, and here no padding is
needed. There are H heads of width D. The queries of sentence i are asked[i] to asked[i + 1] - 1, its pairs of key and
value those of `everything`. `weights` holds, for every sentence and head, its queries x its keys, end to end; `kept`
has the factors that dropout gives them. Loops over D do one thing each, and are then vectorised.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nqg.grammar.arrays import Int64Array
from nqg.model.vectorised import Reals, vectorised


@vectorised
def attend(
    asked: Int64Array,
    everything: Int64Array,
    queries: Reals,
    pairs: Reals,
    kept: Reals,
    weights: Reals,
    out: Reals,
) -> None:
    """Fill `weights` and `out`: (M, H, D); `pairs` are (M, 2, H, D)."""
    heads, width = queries.shape[1], queries.shape[2]
    scale = queries.dtype.type(width**-0.5)
    at = 0
    for sentence in range(len(asked) - 1):
        low, high = everything[sentence], everything[sentence + 1]
        for head in range(heads):
            for query in range(asked[sentence], asked[sentence + 1]):
                for key in range(low, high):
                    weights[at + key - low] = scale * _product(queries, query, pairs, key, 0, head)
                _normalise(weights[at : at + high - low])
                out[query, head, :] = 0
                for key in range(low, high):
                    weight = weights[at + key - low] * kept[at + key - low]
                    for place in range(width):
                        out[query, head, place] += weight * pairs[key, 1, head, place]
                at += high - low


@vectorised
def _product(queries: Reals, query: int, pairs: Reals, key: int, side: int, head: int) -> Any:
    product = queries.dtype.type(0)
    for place in range(queries.shape[2]):
        product += queries[query, head, place] * pairs[key, side, head, place]
    return product


@vectorised
def _normalise(row: Reals) -> None:
    """The softmax of a row, in place."""
    top = row.max()
    total = row.dtype.type(0)
    for place in range(len(row)):
        row[place] = np.exp(row[place] - top)
        total += row[place]
    for place in range(len(row)):
        row[place] /= total


@vectorised
def attend_backwards(
    asked: Int64Array, everything: Int64Array, queries: Reals, pairs: Reals, kept: Reals, weights: Reals, flow: Reals,
    to_queries: Reals, to_pairs: Reals,
) -> None:  # fmt: skip
    """Fill the gradients of queries and pairs, given `flow`, the gradient of `out`."""
    heads, width = queries.shape[1], queries.shape[2]
    scale = queries.dtype.type(width**-0.5)
    slopes = np.empty(np.diff(everything).max(), dtype=weights.dtype)
    at = 0
    for sentence in range(len(asked) - 1):
        low, high = everything[sentence], everything[sentence + 1]
        to_queries[asked[sentence] : asked[sentence + 1]] = 0
        to_pairs[low:high] = 0
        for head in range(heads):
            for query in range(asked[sentence], asked[sentence + 1]):
                for key in range(low, high):
                    slopes[key - low] = kept[at + key - low] * _product(flow, query, pairs, key, 1, head)
                _softmax_backwards(weights[at : at + high - low], scale, slopes[: high - low])
                for key in range(low, high):
                    slope, weight = slopes[key - low], weights[at + key - low] * kept[at + key - low]
                    for place in range(width):
                        to_queries[query, head, place] += slope * pairs[key, 0, head, place]
                    for place in range(width):
                        to_pairs[key, 0, head, place] += slope * queries[query, head, place]
                    for place in range(width):
                        to_pairs[key, 1, head, place] += weight * flow[query, head, place]
                at += high - low


@vectorised
def _softmax_backwards(weights: Reals, scale: Any, slopes: Reals) -> None:
    """Turn the gradient of a row of weights into that of the products that they came from, in place."""
    mean = weights.dtype.type(0)
    for place in range(len(weights)):
        mean += slopes[place] * weights[place]
    for place in range(len(weights)):
        slopes[place] = scale * weights[place] * (slopes[place] - mean)
