"""Sums over all derivations of a sentence: passes over a hypergraph in a semiring.

The inside value of a hyperedge is the product of its own weight and its children's values, that of
a node the sum of its hyperedges' values. A sum also tells each hyperedge its *local marginal*, the
share of the sum that is its own (the gradient; a one for the best and zeros for the others under
max). Handing these down from the root, the outside pass, gives marginals. Both passes are compiled.
Integers of any size take the inside pass in Python; the k best derivations are found one by one,
from the root down.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from itertools import repeat
from math import exp, log, prod
from typing import NamedTuple, TypeVar

import numpy as np

from nqg.grammar import vectorized
from nqg.grammar.arrays import FloatArray, Int32Array, Int64Array
from nqg.grammar.compilation import inlined, kernel, unmanaged_kernel
from nqg.grammar.derivation import Derivation, Hyperedge
from nqg.grammar.grammar import ChartGrammar
from nqg.grammar.hypergraph import NO_CHILD, NO_ROOT, Hypergraph, NodeId

# The semirings that are compiled. Products of logarithms and of scores are sums.
LOG, MAX, COUNT = range(3)


@unmanaged_kernel
def log_plus(values: FloatArray) -> float:
    """The sum of probabilities given by their logarithms; leaves the softmax as local marginals."""
    # The largest one is taken out, so that no exponential overflows.
    top = -np.inf
    for value in values:
        top = max(top, value)
    if top == -np.inf:
        for at in range(len(values)):
            values[at] = 0.0
        return top
    total = 0.0
    for at in range(len(values)):
        values[at] = exp(values[at] - top)
        total += values[at]
    for at in range(len(values)):
        values[at] /= total
    return float(top + log(total))


@unmanaged_kernel
def max_plus(values: FloatArray) -> float:
    """The best score; of equally good hyperedges the first one wins."""
    best = 0
    for at in range(1, len(values)):
        if values[at] > values[best]:
            best = at
    top = values[best]
    for at in range(len(values)):
        values[at] = 0.0
    values[best] = 1.0
    return float(top)


@inlined
def inside_pass(
    semiring: int,
    first_hyperedge: Int64Array,
    children: Int32Array,
    low: int,
    high: int,
    weights: FloatArray,
    inside: FloatArray,
) -> None:
    """Set `inside` of the nodes from `low` to `high`.

    Their hyperedges' weights become local marginals, but for those of COUNT, which nobody needs.
    """
    # The arrays of weights and of inside values begin at the first of these nodes.
    begin = first_hyperedge[low]
    for node in range(low, high):
        first, last = first_hyperedge[node] - begin, first_hyperedge[node + 1] - begin
        for hyperedge in range(first, last):
            # The times of this semiring: a product of counts, or a sum of scores.
            for at in range(children.shape[1]):
                child = children[begin + hyperedge, at]
                # Children come first, so that there are no more.
                if child == NO_CHILD:
                    break
                if semiring == COUNT:
                    weights[hyperedge] *= inside[child - low]
                else:
                    weights[hyperedge] += inside[child - low]
        # The plus of this semiring; log_plus and max_plus leave local marginals behind.
        if semiring == LOG:
            inside[node - low] = log_plus(weights[first:last])
        elif semiring == MAX:
            inside[node - low] = max_plus(weights[first:last])
        else:
            total = 0.0
            for hyperedge in range(first, last):
                total += weights[hyperedge]
            inside[node - low] = total


@unmanaged_kernel
def outside_pass(
    first_hyperedge: Int64Array,
    children: Int32Array,
    low: int,
    high: int,
    local_marginals: FloatArray,
    outside: FloatArray,
) -> None:
    """Multiply local marginals by their nodes' marginals, `outside`, from the root down."""
    begin = first_hyperedge[low]
    # Parents come after their children, so a node is complete when it is visited.
    for node in range(high - 1, low - 1, -1):
        for hyperedge in range(first_hyperedge[node], first_hyperedge[node + 1]):
            local_marginals[hyperedge - begin] *= outside[node - low]
            for at in range(children.shape[1]):
                child = children[hyperedge, at]
                if child == NO_CHILD:
                    break
                outside[child - low] += local_marginals[hyperedge - begin]


@unmanaged_kernel
def fill_inside(
    semiring: int,
    first_hyperedge: Int64Array,
    children: Int32Array,
    weights: FloatArray,
    inside: FloatArray,
) -> None:
    inside_pass(semiring, first_hyperedge, children, 0, len(inside), weights, inside)


def _inside(semiring: int, graph: Hypergraph, weights: FloatArray) -> FloatArray:
    """The inside values of all nodes; weights become local marginals, but for those of COUNT."""
    if semiring != COUNT and vectorized.is_suited(graph):
        by_levels = vectorized.log_inside if semiring == LOG else vectorized.max_inside
        return by_levels(graph, weights)
    inside = np.empty(graph.nodes)
    fill_inside(semiring, graph.first_hyperedge, graph.children, weights, inside)
    return inside


@kernel
def add_log_partitions(
    first_node: Int64Array,
    first_hyperedge: Int64Array,
    children: Int32Array,
    pairs: Int32Array,
    batch: Int64Array,
    first_pair: Int64Array,
    scores: FloatArray,
    sign: float,
    totals: FloatArray,
    gradient: FloatArray,
) -> None:
    """Add `sign` times log Z of every sentence of a batch to its total, and its gradient likewise.

    A hyperedge has the score of its pair of span and rule; `first_pair` says where those of each
    sentence begin.
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
        inside_pass(LOG, first_hyperedge, children, low, high, weights, inside)
        totals[row] += sign * inside[-1]
        # The inside values are not needed any more.
        outside = inside
        outside[:] = 0.0
        outside[-1] = sign
        outside_pass(first_hyperedge, children, low, high, weights, outside)
        for hyperedge in range(begin, end):
            gradient[first_pair[row] + pairs[hyperedge]] += weights[hyperedge - begin]


def log_inside(graph: Hypergraph, scores: FloatArray) -> FloatArray:
    """For every node the log of the sum over its derivations of exp(score): (N,)."""
    return _inside(LOG, graph, scores.copy())


def log_derivation_counts(graph: Hypergraph) -> FloatArray:
    """The natural logarithms of `derivation_counts`, minus infinity for none.

    They are as fast as counting in floats, and never overflow.
    """
    ones = np.ones(graph.hyperedges)
    counts = _inside(COUNT, graph, ones)
    if not np.isfinite(counts).all():
        return root_values(graph, log_inside(graph, np.zeros(graph.hyperedges)))
    # No node is without a derivation.
    return root_values(graph, np.log(counts))


def root_values(graph: Hypergraph, inside: FloatArray) -> FloatArray:
    """The inside values, logarithms, of the roots; minus infinity where there is none: (B,)."""
    # NO_ROOT is -1: the last value.
    return np.append(inside, -np.inf)[graph.roots()]


def marginals(graph: Hypergraph, scores: FloatArray) -> FloatArray:
    """For every hyperedge the probability that a derivation of its sentence contains it: (A,)."""
    return handed_down(graph, local_marginals(graph, scores)[1])


def local_marginals(
    graph: Hypergraph, scores: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """`log_inside`, and the share that each hyperedge has in that of its node: (N,), (A,)."""
    shares = scores.copy()
    return _inside(LOG, graph, shares), shares


def handed_down(graph: Hypergraph, shares: FloatArray) -> FloatArray:
    """The marginals of hyperedges with these local marginals: (A,)."""
    of_hyperedges, roots, outside = shares.copy(), graph.roots(), np.zeros(graph.nodes)
    outside[roots[roots != NO_ROOT]] = 1.0
    if vectorized.is_suited(graph):
        vectorized.outside_pass(graph, of_hyperedges, outside)
        return of_hyperedges
    first_hyperedge, children = graph.first_hyperedge, graph.children
    outside_pass(first_hyperedge, children, 0, graph.nodes, of_hyperedges, outside)
    return of_hyperedges


def max_inside(graph: Hypergraph, scores: FloatArray) -> tuple[FloatArray, Int64Array]:
    """For every node the score and the first hyperedge of its best derivation: (N,) each."""
    is_best = scores.copy()
    inside = _inside(MAX, graph, is_best)
    return inside, np.flatnonzero(is_best)


class ScoredDerivation(NamedTuple):
    """A derivation and the sum of its hyperedges' scores."""

    derivation: Derivation
    score: float


def best_derivations(
    grammar: ChartGrammar, graph: Hypergraph, scores: FloatArray
) -> list[ScoredDerivation | None]:
    """The best derivation of each sentence of a pruned graph, or None; a score per hyperedge."""
    # One pass finds the best hyperedge of every node, so every child has rank 0.
    inside, best = max_inside(graph, scores)

    def choose(node: NodeId, rank: int) -> tuple[int, Iterable[int]]:
        return int(best[node]), repeat(0)

    derivations: list[ScoredDerivation | None] = []
    for root in graph.roots().tolist():
        if root == NO_ROOT:
            derivations.append(None)
        else:
            derivation = _derivation(grammar, graph, root, 0, choose)
            derivations.append(ScoredDerivation(derivation, float(inside[root])))
    return derivations


def _derivation(
    grammar: ChartGrammar,
    graph: Hypergraph,
    root: NodeId,
    rank: int,
    choose: Callable[[NodeId, int], tuple[int, Iterable[int]]],
) -> Derivation:
    """The derivation of that rank of a node.

    `choose` gives the hyperedge that a node's derivation of some rank begins with, and the ranks of
    the children's derivations.
    """
    hyperedges = []
    # A stack instead of a recursion: a derivation may be deeper than Python allows.
    pending = [(root, rank)]
    while pending:
        node, rank = pending.pop()
        hyperedge, ranks = choose(node, rank)
        hyperedges.append(
            Hyperedge(grammar[int(graph.rules[hyperedge])], graph.span(node))
        )
        # Reversed, because the stack gives the last one first: the order is preorder.
        below = list(zip(graph.children_of(hyperedge), ranks))
        pending.extend(reversed(below))
    return Derivation(tuple(hyperedges))


Value = TypeVar("Value")
Term = TypeVar("Term")


def inside_values(
    graph: Hypergraph,
    times: Callable[[int, list[Value]], Term],
    plus: Callable[[list[Term]], Value],
) -> list[Value]:
    """The inside pass over any values: `times` for a hyperedge, `plus` for a node."""
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
    # NO_ROOT is -1: the last value.
    counts.append(0)
    return [counts[root] for root in graph.roots()]


class Ranked(NamedTuple):
    """A derivation of a node: a hyperedge and, for each child, the rank of the child's derivation.

    Rank 0 is the best. The order puts better ones first and breaks ties by position.
    """

    cost: float
    hyperedge: int
    ranks: tuple[int, ...]


class RankedNode:
    """The derivations of a node that were asked for so far, best first, and what may come next."""

    def __init__(self, candidates: list[Ranked]) -> None:
        heapq.heapify(candidates)
        self.ranked: list[Ranked] = []
        self.candidates = candidates
        self.queued = {(each.hyperedge, each.ranks) for each in candidates}
        # Hyperedges with ranks whose cost is not known yet.
        self.successors: list[tuple[int, tuple[int, ...]]] = []

    @property
    def is_exhausted(self) -> bool:
        return not self.candidates and not self.successors

    def rank_next(self) -> None:
        """Rank the best candidate, whose successors differ from it in the rank of one child."""
        best = heapq.heappop(self.candidates)
        self.ranked.append(best)
        for at, rank in enumerate(best.ranks):
            ranks = (*best.ranks[:at], rank + 1, *best.ranks[at + 1 :])
            if (best.hyperedge, ranks) not in self.queued:
                self.queued.add((best.hyperedge, ranks))
                self.successors.append((best.hyperedge, ranks))


class LazyRanking:
    """The derivations of nodes by rank, found when they are asked for (Huang and Chiang, 2005,
    algorithm 3): but for the scores of the best, only nodes of the derivations wanted are visited.
    """

    def __init__(self, graph: Hypergraph, scores: FloatArray) -> None:
        self._graph, self._scores = graph, scores
        self._best, _ = max_inside(graph, scores)
        self._nodes: dict[int, RankedNode] = {}

    def find(self, node: NodeId, rank: int) -> Ranked | None:
        """The derivation of that rank, or None if the node has fewer."""
        # A stack instead of a recursion: a derivation may be deeper than Python allows.
        wanted = [(int(node), rank)]
        while wanted:
            of_node, wanted_rank = wanted[-1]
            ranking = self._ranking(of_node)
            if len(ranking.ranked) > wanted_rank or ranking.is_exhausted:
                wanted.pop()
            elif ranking.successors:
                missing = self._price_successors(ranking)
                if missing is not None:
                    wanted.append(missing)
            else:
                ranking.rank_next()
        ranked = self._nodes[int(node)].ranked
        return ranked[rank] if rank < len(ranked) else None

    def _ranking(self, node: int) -> RankedNode:
        if node not in self._nodes:
            candidates = []
            for hyperedge in self._graph.hyperedges_of(NodeId(node)):
                cost = -float(self._scores[hyperedge])
                children = self._graph.children_of(hyperedge)
                for child in children:
                    cost -= float(self._best[child])
                candidates.append(Ranked(cost, hyperedge, (0,) * len(children)))
            self._nodes[node] = RankedNode(candidates)
        return self._nodes[node]

    def _price_successors(self, ranking: RankedNode) -> tuple[int, int] | None:
        """Make successors candidates; stops at a child's derivation that has to be found first."""
        while ranking.successors:
            hyperedge, ranks = ranking.successors[-1]
            cost = -float(self._scores[hyperedge])
            is_possible = True
            for child, rank in zip(self._graph.children_of(hyperedge), ranks):
                below = self._ranking(child)
                if rank < len(below.ranked):
                    cost += below.ranked[rank].cost
                elif rank == 0:
                    cost -= float(self._best[child])
                elif below.is_exhausted:
                    is_possible = False
                else:
                    return child, rank
            ranking.successors.pop()
            if is_possible:
                heapq.heappush(ranking.candidates, Ranked(cost, hyperedge, ranks))
        return None


def k_best_derivations(
    grammar: ChartGrammar,
    graph: Hypergraph,
    scores: FloatArray,
    k: int,
    most_hyperedges: int | None = None,
) -> list[list[ScoredDerivation]]:
    """The k best derivations of each sentence of a pruned graph, best first, or all.

    The last of them is the one with which they have `most_hyperedges` together, if there is a bound.
    """
    ranking = LazyRanking(graph, scores)

    def choose(node: NodeId, rank: int) -> tuple[int, Iterable[int]]:
        ranked = ranking.find(node, rank)
        assert ranked is not None, "a derivation that was ranked has children"
        return ranked.hyperedge, ranked.ranks

    lists: list[list[ScoredDerivation]] = []
    for root in graph.roots().tolist():
        derivations: list[ScoredDerivation] = []
        hyperedges = 0
        while root != NO_ROOT and len(derivations) < k:
            ranked = ranking.find(root, len(derivations))
            if ranked is None:
                break
            derivation = _derivation(grammar, graph, root, len(derivations), choose)
            derivations.append(ScoredDerivation(derivation, -ranked.cost))
            hyperedges += len(derivation.hyperedges)
            if most_hyperedges is not None and hyperedges >= most_hyperedges:
                break
        lists.append(derivations)
    return lists
