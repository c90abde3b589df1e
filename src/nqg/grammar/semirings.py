"""What can be asked of all derivations of a sentence at once: an inside pass in a semiring, and an outside pass back.

The inside value of a hyperedge is the product of its own weight and its children's values, that of a node the sum of
its hyperedges' values. A semiring is its way to multiply and to sum; the sum also tells each hyperedge its *local
marginal*, the share of the sum that is its own (the gradient; a one for the best and zeros for the others under max).
Handing these down from the root, the outside pass, gives marginals. Both passes are compiled. Values that are no
numbers (lists of the k best, integers of any size) take the inside pass in Python.
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
from nqg.grammar.grammar import ChartGrammar
from nqg.grammar.hypergraph import NO_CHILD, NO_ROOT, HyperedgeId, Hypergraph, NodeId

Times = Callable[[float, float], float]
Plus = Callable[
    [FloatArray], float
]  # the sum of some values, which are replaced by their local marginals


@kernel
def log_times(left: float, right: float) -> float:
    return left + right


@kernel
def log_plus(values: FloatArray) -> float:
    """The semiring of logarithms of probabilities: log-sum-exp, with the softmax as local marginals."""
    top = -np.inf
    for value in values:
        top = max(top, value)
    if top == -np.inf:
        values[:] = 0.0
        return top
    total = 0.0
    for at in range(len(values)):
        values[at] = np.exp(values[at] - top)
        total += values[at]
    values /= total
    return float(top + np.log(total))


@kernel
def max_plus(values: FloatArray) -> float:
    """The semiring of the best derivation; of equally good hyperedges the first one wins."""
    best = 0
    for at in range(1, len(values)):
        if values[at] > values[best]:
            best = at
    top = values[best]
    values[:] = 0.0
    values[best] = 1.0
    return float(top)


@kernel
def count_times(left: float, right: float) -> float:
    return left * right


@kernel
def count_plus(values: FloatArray) -> float:
    """The semiring of numbers of derivations; nobody asks for its marginals."""
    total = 0.0
    for value in values:
        total += value
    return total


@inlined
def inside_pass(
    plus: Plus,
    times: Times,
    first_hyperedge: Int64Array,
    children: Int32Array,
    low: int,
    high: int,
    weights: FloatArray,
    inside: FloatArray,
) -> None:
    """Set `inside` of the nodes from `low` to `high`, and turn their hyperedges' weights to local marginals."""
    begin = first_hyperedge[low]
    for node in range(low, high):
        first, last = first_hyperedge[node] - begin, first_hyperedge[node + 1] - begin
        for hyperedge in range(first, last):
            for child in children[begin + hyperedge]:
                if child != NO_CHILD:
                    weights[hyperedge] = times(weights[hyperedge], inside[child - low])
        inside[node - low] = plus(weights[first:last])


@kernel
def outside_pass(
    first_hyperedge: Int64Array,
    children: Int32Array,
    low: int,
    high: int,
    local_marginals: FloatArray,
    outside: FloatArray,
) -> None:
    """Multiply local marginals by those of their nodes, `outside`, and hand the products on to the children."""
    begin = first_hyperedge[low]
    for node in range(high - 1, low - 1, -1):
        for hyperedge in range(first_hyperedge[node], first_hyperedge[node + 1]):
            local_marginals[hyperedge - begin] *= outside[node - low]
            for child in children[hyperedge]:
                if child != NO_CHILD:
                    outside[child - low] += local_marginals[hyperedge - begin]


@kernel
def _log_inside(
    first_hyperedge: Int64Array, children: Int32Array, weights: FloatArray
) -> FloatArray:
    inside = np.empty(len(first_hyperedge) - 1)
    inside_pass(log_plus, log_times, first_hyperedge, children, 0, len(inside), weights, inside)
    return inside


@kernel
def _max_inside(
    first_hyperedge: Int64Array, children: Int32Array, weights: FloatArray
) -> FloatArray:
    inside = np.empty(len(first_hyperedge) - 1)
    inside_pass(max_plus, log_times, first_hyperedge, children, 0, len(inside), weights, inside)
    return inside


@kernel
def _count_inside(
    first_hyperedge: Int64Array, children: Int32Array, weights: FloatArray
) -> FloatArray:
    inside = np.empty(len(first_hyperedge) - 1)
    inside_pass(count_plus, count_times, first_hyperedge, children, 0, len(inside), weights, inside)
    return inside


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
        weights, inside = np.empty(end - begin), np.empty(high - low)
        for hyperedge in range(begin, end):
            weights[hyperedge - begin] = scores[first_pair[row] + pairs[hyperedge]]
        inside_pass(log_plus, log_times, first_hyperedge, children, low, high, weights, inside)
        totals[row] += sign * inside[-1]
        outside = inside  # which is not needed any more
        outside[:] = 0.0
        outside[-1] = sign
        outside_pass(first_hyperedge, children, low, high, weights, outside)
        for hyperedge in range(begin, end):
            gradient[first_pair[row] + pairs[hyperedge]] += weights[hyperedge - begin]


def log_inside(graph: Hypergraph, scores: FloatArray) -> FloatArray:
    """For every node the log of the sum over its derivations of exp(score): (N,)."""
    return _log_inside(graph.first_hyperedge, graph.children, scores.copy())


def log_derivation_counts(graph: Hypergraph) -> FloatArray:
    """The natural logarithms of `derivation_counts`, minus infinity for none: fast, and never too large a number."""
    counts = _count_inside(graph.first_hyperedge, graph.children, np.ones(graph.hyperedges))
    if not np.isfinite(counts).all():
        return root_values(graph, log_inside(graph, np.zeros(graph.hyperedges)))
    return root_values(graph, np.log(counts))  # no node is without a derivation


def root_values(graph: Hypergraph, inside: FloatArray) -> FloatArray:
    """The inside values, logarithms, of the sentences' roots; minus infinity where a sentence has none: (B,)."""
    return np.append(inside, -np.inf)[graph.roots()]  # NO_ROOT is -1: the last


def marginals(graph: Hypergraph, scores: FloatArray) -> FloatArray:
    """For every hyperedge the probability that a derivation of its sentence contains it: (A,)."""
    local_marginals, roots, outside = scores.copy(), graph.roots(), np.zeros(graph.nodes)
    _log_inside(graph.first_hyperedge, graph.children, local_marginals)
    outside[roots[roots != NO_ROOT]] = 1.0
    outside_pass(graph.first_hyperedge, graph.children, 0, graph.nodes, local_marginals, outside)
    return local_marginals


def max_inside(graph: Hypergraph, scores: FloatArray) -> tuple[FloatArray, Int64Array]:
    """For every node the score of its best derivation, and the hyperedge that it begins with: (N,) each."""
    is_best = scores.copy()
    inside = _max_inside(graph.first_hyperedge, graph.children, is_best)
    return inside, np.flatnonzero(is_best)


class ScoredDerivation(NamedTuple):
    """A derivation and the sum of its hyperedges' scores."""

    derivation: Derivation
    score: float


def best_derivations(
    grammar: ChartGrammar, graph: Hypergraph, scores: FloatArray
) -> list[ScoredDerivation | None]:
    """The best derivation of each sentence of a pruned graph, under a score per hyperedge; None where it has none."""
    inside, best = max_inside(graph, scores)

    def hyperedges(root: int) -> Iterator[tuple[NodeId, HyperedgeId]]:
        pending = [NodeId(root)]
        while pending:
            node = pending.pop()
            hyperedge = HyperedgeId(int(best[node]))
            yield node, hyperedge
            pending.extend(reversed(graph.children_of(hyperedge)))

    derivations: list[ScoredDerivation | None] = []
    for root in graph.roots().tolist():
        if root == NO_ROOT:
            derivations.append(None)
        else:
            derivation = _derivation(grammar, graph, hyperedges(root))
            derivations.append(ScoredDerivation(derivation, float(inside[root])))
    return derivations


def _derivation(
    grammar: ChartGrammar, graph: Hypergraph, chosen: Iterable[tuple[NodeId, HyperedgeId]]
) -> Derivation:
    rules = graph.rules
    return Derivation(
        tuple(
            Hyperedge(grammar[int(rules[hyperedge])], graph.span(node))
            for node, hyperedge in chosen
        )
    )


Value = TypeVar("Value")
Term = TypeVar("Term")


def inside_values(
    graph: Hypergraph,
    times: Callable[[HyperedgeId, list[Value]], Term],
    plus: Callable[[list[Term]], Value],
) -> list[Value]:
    """The inside pass over any values: `times` gives that of a hyperedge from its children's, `plus` that of a node."""
    values: list[Value] = []
    for node in graph.node_ids():
        terms: list[Term] = []
        for hyperedge in graph.hyperedges_of(node):
            children = [values[child] for child in graph.children_of(hyperedge)]
            terms.append(times(hyperedge, children))
        values.append(plus(terms))
    return values


def derivation_counts(graph: Hypergraph) -> list[int]:
    """How many derivations each sentence of a pruned graph has, exactly; 0 where it has none."""
    counts: list[int] = inside_values(
        graph, lambda _, children: prod(children), lambda terms: sum(terms)
    )
    return [0 if root == NO_ROOT else counts[root] for root in graph.roots()]


class Ranked(NamedTuple):
    """One derivation of a node: a hyperedge and, for each child, which of the child's derivations (0 the best).

    The order puts better ones first and breaks ties by position.
    """

    cost: float
    hyperedge: HyperedgeId
    ranks: tuple[int, ...]


def k_best_derivations(
    grammar: ChartGrammar, graph: Hypergraph, scores: FloatArray, k: int
) -> list[list[ScoredDerivation]]:
    """The k best derivations of each sentence of a pruned graph, best first; fewer where there are fewer.

    Hyperedges list theirs only as far as they are asked (the lazy product of Huang and Chiang, 2005).
    """

    def product(hyperedge: HyperedgeId, children: list[list[Ranked]]) -> Iterator[Ranked]:
        """The derivations that begin with a hyperedge, best first."""

        def ranked(ranks: tuple[int, ...]) -> Ranked:
            costs = (below[rank].cost for below, rank in zip(children, ranks, strict=True))
            return Ranked(sum(costs, -float(scores[hyperedge])), hyperedge, ranks)

        heap = [ranked((0,) * len(children))]
        queued = {heap[0].ranks}
        while heap:
            best_left = heapq.heappop(heap)
            yield best_left
            for at, rank in enumerate(best_left.ranks):
                worse = (*best_left.ranks[:at], rank + 1, *best_left.ranks[at + 1 :])
                if rank + 1 < len(children[at]) and worse not in queued:
                    queued.add(worse)
                    heapq.heappush(heap, ranked(worse))

    best = inside_values(graph, product, lambda streams: list(islice(heapq.merge(*streams), k)))

    def hyperedges(root: int, rank: int) -> Iterator[tuple[NodeId, HyperedgeId]]:
        pending = [(NodeId(root), rank)]
        while pending:
            node, of_node = pending.pop()
            ranked = best[node][of_node]
            yield node, ranked.hyperedge
            below = zip(graph.children_of(ranked.hyperedge), ranked.ranks, strict=True)
            pending.extend(reversed(list(below)))

    lists: list[list[ScoredDerivation]] = []
    for root in graph.roots().tolist():
        ranking = [] if root == NO_ROOT else best[root]
        derivations = [
            _derivation(grammar, graph, hyperedges(root, rank)) for rank in range(len(ranking))
        ]
        scored = zip(derivations, ranking, strict=True)
        lists.append([ScoredDerivation(derivation, -ranked.cost) for derivation, ranked in scored])
    return lists
