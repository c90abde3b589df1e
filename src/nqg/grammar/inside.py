"""One pass over an and-or graph from the leaves to the roots, in the log or in the max semiring.

Scores belong to applications and add up along a derivation. The value of an application is its score plus its
children's values; the value of a choice is the log-sum-exp of its applications' values, or their maximum.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from nqg.grammar.compiled import inlined, kernel
from nqg.grammar.graph import NO_CHILD, Graph, Longs
from nqg.grammar.trie import Integers

Floats = NDArray[np.float64]


def log_inside(graph: Graph, scores: Floats | None = None) -> Floats:
    """For every choice the log of the sum over its derivations of exp(score): (N,); without scores, of their number."""
    weights = np.zeros(graph.applications) if scores is None else scores
    return _log_inside(graph.first_application, graph.children, weights)


def max_inside(graph: Graph, scores: Floats) -> tuple[Floats, Longs]:
    """For every choice the score of its best derivation, and the application that it begins with: (N,) each.

    Of equally good applications the first one wins.
    """
    return _max_inside(graph.first_application, graph.children, scores)


@inlined
def _value(application: int, children: Integers, scores: Floats, values: Floats) -> float:
    value = scores[application]
    for child in children[application]:
        if child != NO_CHILD:
            value += values[child]
    return float(value)


@kernel
def _log_inside(first_application: Longs, children: Integers, scores: Floats) -> Floats:
    values = np.empty(len(first_application) - 1)
    for choice in range(len(values)):
        top, total = -np.inf, 0.0
        for application in range(first_application[choice], first_application[choice + 1]):
            value = _value(application, children, scores, values)
            if value > top:  # keep the sum relative to the largest value seen, so that nothing overflows
                total = total * np.exp(top - value) + 1.0
                top = value
            elif value > -np.inf:
                total += np.exp(value - top)
        values[choice] = top + np.log(total) if total > 0.0 else -np.inf
    return values


@kernel
def _max_inside(first_application: Longs, children: Integers, scores: Floats) -> tuple[Floats, Longs]:
    values = np.empty(len(first_application) - 1)
    best = np.empty(len(values), dtype=np.int64)
    for choice in range(len(values)):
        best[choice] = first_application[choice]
        values[choice] = _value(best[choice], children, scores, values)
        for application in range(first_application[choice] + 1, first_application[choice + 1]):
            value = _value(application, children, scores, values)
            if value > values[choice]:
                values[choice], best[choice] = value, application
    return values, best
