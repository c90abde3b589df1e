"""Attention within sentences that are laid end to end, forwards and backwards, compiled.

Sentences of ten pieces are too short for general routines, whose time goes into preparations, and here no padding is
needed. There are H heads of width D. The queries of sentence i are asked[i] to asked[i + 1] - 1, its keys and values
those of `everything`. `weights` holds, for every sentence and head, its queries x its keys, end to end; `kept` has the
factors that dropout gives them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nqg.grammar.graph import Longs
from nqg.model.vectorised import Reals, vectorised


@vectorised
def attend(
    asked: Longs, everything: Longs, queries: Reals, keys: Reals, values: Reals, kept: Reals, weights: Reals, out: Reals
) -> None:
    """Fill `weights`, and add to `out`, which holds zeros: (M, H, D)."""
    heads, width = queries.shape[1], queries.shape[2]
    scale = queries.dtype.type(width**-0.5)
    at = 0
    for sentence in range(len(asked) - 1):
        low, high = everything[sentence], everything[sentence + 1]
        for head in range(heads):
            for query in range(asked[sentence], asked[sentence + 1]):
                for key in range(low, high):
                    weights[at + key - low] = scale * _product(queries, query, keys, key, head)
                _normalise(weights[at : at + high - low])
                for key in range(low, high):
                    weight = weights[at + key - low] * kept[at + key - low]
                    for place in range(width):
                        out[query, head, place] += weight * values[key, head, place]
                at += high - low


@vectorised
def _product(left: Reals, row: int, right: Reals, other: int, head: int) -> Any:
    product = left[row, head, 0] * right[other, head, 0]
    for place in range(1, left.shape[2]):
        product += left[row, head, place] * right[other, head, place]
    return product


@vectorised
def _normalise(row: Reals) -> None:
    """The softmax of a row, in place."""
    top = row.max()
    total = row[0] - row[0]  # a zero of the row's type
    for place in range(len(row)):
        row[place] = np.exp(row[place] - top)
        total += row[place]
    for place in range(len(row)):
        row[place] /= total


@vectorised
def attend_backwards(
    asked: Longs, everything: Longs, queries: Reals, keys: Reals, values: Reals, kept: Reals, weights: Reals,
    flow: Reals, to_queries: Reals, to_keys: Reals, to_values: Reals,
) -> None:  # fmt: skip
    """Carry `flow`, the gradient of `out`, on to queries, keys and values, whose gradients hold zeros."""
    heads, width = queries.shape[1], queries.shape[2]
    scale = queries.dtype.type(width**-0.5)
    room = np.empty(np.diff(everything).max(), dtype=weights.dtype)
    at = 0
    for sentence in range(len(asked) - 1):
        low, high = everything[sentence], everything[sentence + 1]
        for head in range(heads):
            for query in range(asked[sentence], asked[sentence + 1]):
                mean = weights[at] - weights[at]  # a zero of the weights' type
                for key in range(low, high):
                    room[key - low] = kept[at + key - low] * _product(flow, query, values, key, head)
                    mean += room[key - low] * weights[at + key - low]
                for key in range(low, high):
                    weight = weights[at + key - low]
                    slope = scale * weight * (room[key - low] - mean)
                    weight *= kept[at + key - low]
                    for place in range(width):
                        to_values[key, head, place] += weight * flow[query, head, place]
                        to_queries[query, head, place] += slope * keys[key, head, place]
                        to_keys[key, head, place] += slope * queries[query, head, place]
                at += high - low
