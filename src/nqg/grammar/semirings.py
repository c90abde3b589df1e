"""What can be asked of all derivations of a sentence at once: one pass up the hypergraph in a semiring, one back down.

The value of a hyperedge is the product of its own weight and its children's values, the value of a node the sum of its
hyperedges' values. Numbers are added up in compiled code, where weights are logarithms: products are sums, and a
semiring is its way to sum, which also tells each hyperedge its share of the sum (the gradient; a one for the best and
zeros for the others under max). Handing shares down from the root gives marginals. Values of other types (exact counts,
lists of the k best) rise by the same pass in Python.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from math import prod
from typing import NamedTuple, TypeVar

import numpy as np

from nqg.grammar.arrays import FloatArray, Int32Array, Int64Array, inlined, kernel
from nqg.grammar.derivation import Derivation, Hyperedge
from nqg.grammar.grammar import Grammar
from nqg.grammar.hypergraph import NO_CHILD, NO_ROOT, HyperedgeId, Hypergraph, NodeId

Sum = Callable[[FloatArray], float]  # the sum of some weights, which are replaced by their shares of it


@kernel
def log_sum(weights: FloatArray) -> float:
    """The semiring of logarithms of probabilities: log-sum-exp, with the softmax as shares."""
    top = -np.inf
    for weight in weights:
        top = max(top, weight)
    if top == -np.inf:
        weights[:] = 0.0
        return top
    total = 0.0
    for at in range(len(weights)):
        weights[at] = np.exp(weights[at] - top)
        total += weights[at]
    weights /= total
    return float(top + np.log(total))


@kernel
def max_sum(weights: FloatArray) -> float:
    """The semiring of the best derivation; of equally good hyperedges the first one wins."""
    best = 0
    for at in range(1, len(weights)):
        if weights[at] > weights[best]:
            best = at
    top = weights[best]
    weights[:] = 0.0
    weights[best] = 1.0
    return float(top)


@inlined
def rise(
    plus: Sum,
    first_hyperedge: Int64Array,
    children: Int32Array,
    low: int,
    high: int,
    weights: FloatArray,
    values: FloatArray,
) -> None:
    """The inside pass: set `values` of the nodes from `low` to `high`, and turn their hyperedges' weights to shares."""
    begin = first_hyperedge[low]
    for node in range(low, high):
        first, last = first_hyperedge[node] - begin, first_hyperedge[node + 1] - begin
        for hyperedge in range(first, last):
            for child in children[begin + hyperedge]:
                if child != NO_CHILD:
                    weights[hyperedge] += values[child - low]
        values[node - low] = plus(weights[first:last])


@kernel
def descend(
    first_hyperedge: Int64Array, children: Int32Array, low: int, high: int, shares: FloatArray, reached: FloatArray
) -> None:
    """The outside pass: multiply shares by how far their nodes are `reached`, and hand them on to the children."""
    begin = first_hyperedge[low]
    for node in range(high - 1, low - 1, -1):
        for hyperedge in range(first_hyperedge[node], first_hyperedge[node + 1]):
            shares[hyperedge - begin] *= reached[node - low]
            for child in children[hyperedge]:
                if child != NO_CHILD:
                    reached[child - low] += shares[hyperedge - begin]


@kernel
def _log_values(first_hyperedge: Int64Array, children: Int32Array, weights: FloatArray) -> FloatArray:
    values = np.empty(len(first_hyperedge) - 1)
    rise(log_sum, first_hyperedge, children, 0, len(values), weights, values)
    return values


@kernel
def _max_values(first_hyperedge: Int64Array, children: Int32Array, weights: FloatArray) -> FloatArray:
    values = np.empty(len(first_hyperedge) - 1)
    rise(max_sum, first_hyperedge, children, 0, len(values), weights, values)
    return values


@kernel
def add_log_partitions(
    first_node: Int64Array,
    first_hyperedge: Int64Array,
    children: Int32Array,
    pairs: Int64Array,
    batch: Int64Array,
    first_pair: Int64Array,
    scores: FloatArray,
    sign: float,
    totals: FloatArray,
    gradient: FloatArray,
) -> None:
    """Add `sign` times log Z of every sentence of a batch to its total, and its gradient to that of its scores.

    A hyperedge has the score of its pair of span and rule; `first_pair` says where those of each sentence begin.
    """
    for row in range(len(batch)):
        low, high = first_node[batch[row]], first_node[batch[row] + 1]
        if low == high:
            totals[row] -= sign * np.inf
            continue
        begin, end = first_hyperedge[low], first_hyperedge[high]
        weights, values = np.empty(end - begin), np.empty(high - low)
        for hyperedge in range(begin, end):
            weights[hyperedge - begin] = scores[first_pair[row] + pairs[hyperedge]]
        rise(log_sum, first_hyperedge, children, low, high, weights, values)
        totals[row] += sign * values[-1]
        values[:] = 0.0
        values[-1] = sign
        descend(first_hyperedge, children, low, high, weights, values)
        for hyperedge in range(begin, end):
            gradient[first_pair[row] + pairs[hyperedge]] += weights[hyperedge - begin]


def log_inside(graph: Hypergraph, scores: FloatArray | None = None) -> FloatArray:
    """For every node the log of the sum over its derivations of exp(score): (N,); without scores, of their number."""
    weights = np.zeros(graph.hyperedges) if scores is None else scores.copy()
    return _log_values(graph.first_hyperedge, graph.children, weights)


def log_derivation_counts(graph: Hypergraph) -> FloatArray:
    """The natural logarithms of `derivation_counts`, minus infinity for none: fast, and never too large a number."""
    return np.append(log_inside(graph), -np.inf)[graph.roots()]  # NO_ROOT is -1: the last


def marginals(graph: Hypergraph, scores: FloatArray) -> FloatArray:
    """For every hyperedge the probability that a derivation of its sentence contains it: (A,)."""
    shares, roots, reached = scores.copy(), graph.roots(), np.zeros(graph.nodes)
    _log_values(graph.first_hyperedge, graph.children, shares)
    reached[roots[roots != NO_ROOT]] = 1.0
    descend(graph.first_hyperedge, graph.children, 0, graph.nodes, shares, reached)
    return shares


def max_inside(graph: Hypergraph, scores: FloatArray) -> tuple[FloatArray, Int64Array]:
    """For every node the score of its best derivation, and the hyperedge that it begins with: (N,) each."""
    shares = scores.copy()
    values = _max_values(graph.first_hyperedge, graph.children, shares)
    return values, np.flatnonzero(shares)


class ScoredDerivation(NamedTuple):
    """A derivation and the sum of its hyperedges' scores."""

    derivation: Derivation
    score: float


def best_derivations(grammar: Grammar, graph: Hypergraph, scores: FloatArray) -> list[ScoredDerivation | None]:
    """The best derivation of each sentence of a pruned graph, under a score per hyperedge; None where it has none."""
    values, best = max_inside(graph, scores)

    def picks(root: int) -> Iterator[tuple[NodeId, HyperedgeId]]:
        pending = [NodeId(root)]
        while pending:
            node = pending.pop()
            hyperedge = HyperedgeId(int(best[node]))
            yield node, hyperedge
            pending.extend(reversed(graph.children_of(hyperedge)))

    return [
        None if root == NO_ROOT else ScoredDerivation(_derivation(grammar, graph, picks(root)), float(values[root]))
        for root in graph.roots().tolist()
    ]


def _derivation(grammar: Grammar, graph: Hypergraph, picks: Iterable[tuple[NodeId, HyperedgeId]]) -> Derivation:
    rules = graph.rules
    return Derivation(tuple(Hyperedge(grammar[int(rules[hyperedge])], graph.span(node)) for node, hyperedge in picks))


Value = TypeVar("Value")
Term = TypeVar("Term")


def inside(
    graph: Hypergraph, times: Callable[[HyperedgeId, list[Value]], Term], plus: Callable[[Iterator[Term]], Value]
) -> list[Value]:
    """The inside pass over any values: `times` gives that of a hyperedge from its children's, `plus` that of a node."""
    values: list[Value] = []
    for node in graph.node_ids():
        below = ((each, [values[child] for child in graph.children_of(each)]) for each in graph.hyperedges_of(node))
        values.append(plus(times(each, children) for each, children in below))
    return values


def derivation_counts(graph: Hypergraph) -> list[int]:
    """How many derivations each sentence of a pruned graph has, exactly; 0 where it has none."""
    counts: list[int] = inside(graph, lambda _, children: prod(children), lambda terms: sum(terms))
    return [0 if root == NO_ROOT else counts[root] for root in graph.roots()]


class Ranked(NamedTuple):
    """One derivation of a node: a hyperedge and, for each child, which of the child's derivations (0 the best).

    The order puts better ones first and breaks ties by position.
    """

    cost: float
    hyperedge: HyperedgeId
    ranks: tuple[int, ...]


def k_best_derivations(grammar: Grammar, graph: Hypergraph, scores: FloatArray, k: int) -> list[list[ScoredDerivation]]:
    """The k best derivations of each sentence of a pruned graph, best first; fewer where there are fewer.

    Hyperedges list theirs only as far as they are asked (the lazy product of Huang and Chiang, 2005).
    """

    def product(hyperedge: HyperedgeId, children: list[list[Ranked]]) -> Iterator[Ranked]:
        own = -float(scores[hyperedge])

        def ranked(ranks: tuple[int, ...]) -> Ranked:
            costs = (below[rank].cost for below, rank in zip(children, ranks, strict=True))
            return Ranked(sum(costs, own), hyperedge, ranks)

        heap = [ranked((0,) * len(children))]
        queued = {heap[0].ranks}
        while heap:
            found = heapq.heappop(heap)
            yield found
            for at, (below, rank) in enumerate(zip(children, found.ranks, strict=True)):
                worse = (*found.ranks[:at], rank + 1, *found.ranks[at + 1 :])
                if rank + 1 < len(below) and worse not in queued:
                    queued.add(worse)
                    heapq.heappush(heap, ranked(worse))

    best = inside(graph, product, lambda streams: list(islice(heapq.merge(*streams), k)))

    def picks(root: int, rank: int) -> Iterator[tuple[NodeId, HyperedgeId]]:
        pending = [(NodeId(root), rank)]
        while pending:
            node, at = pending.pop()
            found = best[node][at]
            yield node, found.hyperedge
            pending.extend(reversed(list(zip(graph.children_of(found.hyperedge), found.ranks, strict=True))))

    return [
        [
            ScoredDerivation(_derivation(grammar, graph, picks(root, rank)), -found.cost)
            for rank, found in enumerate([] if root == NO_ROOT else best[root])
        ]
        for root in graph.roots().tolist()
    ]
