"""How probable applications are, all derivations of their sentence taken together: the outside pass.

The probability of an application is that of the choice above it times its share of that choice's inside value; the
probability of a choice is the sum over the applications that lead to it.
"""

from __future__ import annotations

import numpy as np

from nqg.grammar.compiled import kernel
from nqg.grammar.graph import NO_CHILD, NO_ROOT, Graph, Longs
from nqg.grammar.inside import Floats, log_inside
from nqg.grammar.trie import Integers


def marginals(graph: Graph, scores: Floats) -> Floats:
    """For every application the probability that a derivation of its sentence contains it: (A,)."""
    return _marginals(graph.roots(), graph.first_application, graph.children, scores, log_inside(graph, scores))


@kernel
def _marginals(roots: Longs, first_application: Longs, children: Integers, scores: Floats, inside: Floats) -> Floats:
    reached, chances = np.zeros(len(inside)), np.zeros(len(scores))
    for root in roots:
        if root != NO_ROOT:
            reached[root] = 1.0
    for choice in range(len(inside) - 1, -1, -1):  # parents first
        for application in range(first_application[choice], first_application[choice + 1]):
            value = scores[application] - inside[choice]
            for child in children[application]:
                if child != NO_CHILD:
                    value += inside[child]
            chances[application] = reached[choice] * np.exp(value)
            for child in children[application]:
                if child != NO_CHILD:
                    reached[child] += chances[application]
    return chances
