"""The inside and the outside pass over the forests of single sentences, compiled.

They read the forests of a whole corpus where they lie: a batch is a list of sentence numbers, and nothing is copied.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from nqg.grammar.compiled import kernel
from nqg.grammar.graph import NO_CHILD, Longs
from nqg.grammar.trie import Integers

Floats = NDArray[np.float64]


@kernel
def add_log_inside_and_marginals(
    first_choice: Longs,
    first_application: Longs,
    children: Integers,
    pairs: Longs,
    batch: Longs,
    first_pair: Longs,
    scores: Floats,
    sign: float,
    totals: Floats,
    gradient: Floats,
) -> None:
    """Add `sign` times log Z of every sentence to its total, and `sign` times the marginals of its pairs to theirs.

    `first_pair` says where the pairs of each sentence of the batch begin in `scores` and `gradient`.
    """
    for row in range(len(batch)):
        low, high = first_choice[batch[row]], first_choice[batch[row] + 1]
        if low == high:
            totals[row] -= sign * np.inf
            continue
        begin = first_application[low]
        shares = np.empty(first_application[high] - begin)
        values, flow = np.empty(high - low), np.zeros(high - low)
        for choice in range(low, high):
            values[choice - low] = _united(
                first_application[choice], first_application[choice + 1], begin, low,
                children, pairs, scores, first_pair[row], values, shares,
            )  # fmt: skip
        totals[row] += sign * values[-1]
        flow[-1] = sign
        for choice in range(high - 1, low - 1, -1):
            for application in range(first_application[choice], first_application[choice + 1]):
                share = shares[application - begin] * flow[choice - low]
                gradient[first_pair[row] + pairs[application]] += share
                for child in children[application]:
                    if child != NO_CHILD:
                        flow[child - low] += share


@kernel
def _united(
    first: int,
    stop: int,
    begin: int,
    low: int,
    children: Integers,
    pairs: Longs,
    scores: Floats,
    first_pair: int,
    values: Floats,
    shares: Floats,
) -> float:
    """The log-sum-exp over a choice's applications, whose `shares` of it are noted."""
    top = -np.inf
    for application in range(first, stop):
        value = scores[first_pair + pairs[application]]
        for child in children[application]:
            if child != NO_CHILD:
                value += values[child - low]
        shares[application - begin] = value
        top = max(top, value)
    if top == -np.inf:
        shares[first - begin : stop - begin] = 0.0
        return top
    total = 0.0
    for application in range(first - begin, stop - begin):
        shares[application] = np.exp(shares[application] - top)
        total += shares[application]
    shares[first - begin : stop - begin] /= total
    return float(top + np.log(total))
