"""What can be asked of all derivations at once: a pass over the hypergraph in a semiring; best, k best, marginals."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, product
from math import prod
from typing import Protocol, TypeVar

import numpy as np

from nqg.grammar.arrays import FloatArray, Int32Array, Int64Array, inlined, kernel
from nqg.grammar.derivation import Derivation, Hyperedge, Tokens, substituted
from nqg.grammar.grammar import Grammar
from nqg.grammar.hypergraph import NO_CHILD, NO_ROOT, HyperedgeId, Hypergraph, NodeId


def log_inside(graph: Hypergraph, scores: FloatArray | None = None) -> FloatArray:
    """For every node the log of the sum over its derivations of exp(score): (N,); without scores, of their number."""
    weights = np.zeros(graph.hyperedges) if scores is None else scores
    return _log_inside(graph.first_hyperedge, graph.children, weights)


def max_inside(graph: Hypergraph, scores: FloatArray) -> tuple[FloatArray, Int64Array]:
    """For every node the score of its best derivation, and the hyperedge that it begins with: (N,) each.

    Of equally good hyperedges the first one wins.
    """
    return _max_inside(graph.first_hyperedge, graph.children, scores)


@inlined
def _value(hyperedge: int, children: Int32Array, scores: FloatArray, values: FloatArray) -> float:
    value = scores[hyperedge]
    for child in children[hyperedge]:
        if child != NO_CHILD:
            value += values[child]
    return float(value)


@kernel
def _log_inside(first_hyperedge: Int64Array, children: Int32Array, scores: FloatArray) -> FloatArray:
    values = np.empty(len(first_hyperedge) - 1)
    for node in range(len(values)):
        top, total = -np.inf, 0.0
        for hyperedge in range(first_hyperedge[node], first_hyperedge[node + 1]):
            value = _value(hyperedge, children, scores, values)
            if value > top:  # keep the sum relative to the largest value seen, so that nothing overflows
                total = total * np.exp(top - value) + 1.0
                top = value
            elif value > -np.inf:
                total += np.exp(value - top)
        values[node] = top + np.log(total) if total > 0.0 else -np.inf
    return values


@kernel
def _max_inside(first_hyperedge: Int64Array, children: Int32Array, scores: FloatArray) -> tuple[FloatArray, Int64Array]:
    values = np.empty(len(first_hyperedge) - 1)
    best = np.empty(len(values), dtype=np.int64)
    for node in range(len(values)):
        best[node] = first_hyperedge[node]
        values[node] = _value(best[node], children, scores, values)
        for hyperedge in range(first_hyperedge[node] + 1, first_hyperedge[node + 1]):
            value = _value(hyperedge, children, scores, values)
            if value > values[node]:
                values[node], best[node] = value, hyperedge
    return values, best


Value = TypeVar("Value")


class Algebra(Protocol[Value]):
    """How values rise through a hypergraph."""

    def apply(self, hyperedge: HyperedgeId, children: Sequence[Value]) -> Value:
        """The value of one hyperedge."""
        ...

    def choose(self, values: Iterable[Value]) -> Value:
        """The value of a node between hyperedges, of which there is at least one."""
        ...


def folded(graph: Hypergraph, algebra: Algebra[Value]) -> list[Value]:
    """The value of every node, children before parents."""
    values: list[Value] = []
    for node in graph.node_ids():
        values.append(algebra.choose(_hyperedge_values(graph, node, algebra, values)))
    return values


def _hyperedge_values(
    graph: Hypergraph, node: NodeId, algebra: Algebra[Value], values: Sequence[Value]
) -> Iterator[Value]:
    for hyperedge in graph.hyperedges_of(node):
        yield algebra.apply(hyperedge, [values[child] for child in graph.children_of(hyperedge)])


class Counting:
    """How many derivations there are, exactly."""

    def apply(self, hyperedge: HyperedgeId, children: Sequence[int]) -> int:
        """Every combination of the children's derivations."""
        return prod(children)

    def choose(self, values: Iterable[int]) -> int:
        """The derivations of all hyperedges together."""
        return sum(values)


def derivation_counts(graph: Hypergraph) -> list[int]:
    """How many derivations each sentence of a pruned graph has, exactly; 0 where it has none."""
    counts = folded(graph, Counting())
    return [0 if root == NO_ROOT else counts[root] for root in graph.roots()]


def log_derivation_counts(graph: Hypergraph) -> FloatArray:
    """The natural logarithms of `derivation_counts`, minus infinity for none: fast, and never too large a number."""
    roots = graph.roots()
    values = np.append(log_inside(graph), -np.inf)  # where NO_ROOT, which is -1, leads to
    return values[roots]


@dataclass(frozen=True, slots=True)
class TargetSet:
    """Some targets, shortest first and then by text; `is_complete` says that there are no others."""

    targets: tuple[Tokens, ...]
    is_complete: bool


@dataclass(frozen=True, slots=True)
class Yielding:
    """Which targets there are: at most `most` of them, none with more than `longest` tokens."""

    grammar: Grammar
    graph: Hypergraph
    most: int
    longest: int

    def apply(self, hyperedge: HyperedgeId, children: Sequence[TargetSet]) -> TargetSet:
        """The rule's target with every combination of the children's targets in it."""
        side = self.grammar[int(self.graph.rules[hyperedge])].target
        combinations = product(*(child.targets for child in children))
        found = {substituted(side, combination) for combination in islice(combinations, self.most)}
        whole = prod(len(child.targets) for child in children) <= self.most
        return self._bounded(found, whole and all(child.is_complete for child in children))

    def choose(self, values: Iterable[TargetSet]) -> TargetSet:
        """The targets of all hyperedges together."""
        values = list(values)
        found = {target for value in values for target in value.targets}
        return self._bounded(found, all(value.is_complete for value in values))

    def _bounded(self, found: set[Tokens], is_complete: bool) -> TargetSet:
        short = sorted((target for target in found if len(target) <= self.longest), key=lambda t: (len(t), t))
        return TargetSet(tuple(short[: self.most]), is_complete and len(short) == len(found) <= self.most)


def targets(grammar: Grammar, graph: Hypergraph, *, most: int = 1000, longest: int = 10_000) -> list[TargetSet]:
    """The targets that each sentence of a pruned graph can yield."""
    sets = folded(graph, Yielding(grammar, graph, most, longest))
    return [TargetSet((), is_complete=True) if root == NO_ROOT else sets[root] for root in graph.roots()]


@dataclass(frozen=True, slots=True)
class ScoredDerivation:
    """A derivation and the sum of its hyperedges' scores."""

    derivation: Derivation
    score: float


def best_derivations(grammar: Grammar, graph: Hypergraph, scores: FloatArray) -> list[ScoredDerivation | None]:
    """The best derivation of each sentence of a pruned graph, under a score per hyperedge; None where it has none."""
    values, best = max_inside(graph, scores)

    def derivation(root: NodeId) -> ScoredDerivation:
        picks = _walked(graph, root, lambda node: HyperedgeId(int(best[node])))
        return ScoredDerivation(_derivation(grammar, graph, picks), float(values[root]))

    return [None if root == NO_ROOT else derivation(NodeId(int(root))) for root in graph.roots()]


def _walked(
    graph: Hypergraph, root: NodeId, pick: Callable[[NodeId], HyperedgeId]
) -> Iterator[tuple[NodeId, HyperedgeId]]:
    """The nodes of one derivation, parents before children, with the hyperedge picked for each."""
    pending = [root]
    while pending:
        node = pending.pop()
        hyperedge = pick(node)
        yield node, hyperedge
        pending.extend(reversed(graph.children_of(hyperedge)))


def _derivation(grammar: Grammar, graph: Hypergraph, picks: Iterable[tuple[NodeId, HyperedgeId]]) -> Derivation:
    rules = graph.rules
    return Derivation(tuple(Hyperedge(grammar[int(rules[hyperedge])], graph.span(node)) for node, hyperedge in picks))


@dataclass(frozen=True, slots=True, order=True)
class Ranked:
    """One derivation of a node: a hyperedge and, for each child, which of the child's derivations (0 the best).

    The order puts better ones first and breaks ties by position.
    """

    cost: float
    hyperedge: HyperedgeId
    ranks: tuple[int, ...]


def k_best_derivations(grammar: Grammar, graph: Hypergraph, scores: FloatArray, k: int) -> list[list[ScoredDerivation]]:
    """The k best derivations of each sentence of a pruned graph, best first; fewer where there are fewer."""
    ranked: list[list[Ranked]] = []
    for node in graph.node_ids():
        ranked.append(list(islice(_ranked(graph, node, scores, ranked), k)))
    return [
        [] if root == NO_ROOT else _ranked_derivations(grammar, graph, NodeId(int(root)), ranked)
        for root in graph.roots()
    ]


def _ranked(graph: Hypergraph, node: NodeId, scores: FloatArray, below: Sequence[Sequence[Ranked]]) -> Iterator[Ranked]:
    """The derivations of `node` from the best on, made only as far as they are asked for."""

    def candidate(hyperedge: HyperedgeId, ranks: tuple[int, ...]) -> Ranked:
        children = zip(graph.children_of(hyperedge), ranks, strict=True)
        return Ranked(
            sum((below[child][rank].cost for child, rank in children), -float(scores[hyperedge])), hyperedge, ranks
        )

    def next_worse(found: Ranked) -> Iterator[Ranked]:
        for at, child in enumerate(graph.children_of(found.hyperedge)):
            if found.ranks[at] + 1 < len(below[child]):
                yield candidate(found.hyperedge, (*found.ranks[:at], found.ranks[at] + 1, *found.ranks[at + 1 :]))

    heap = [candidate(hyperedge, (0,) * len(graph.children_of(hyperedge))) for hyperedge in graph.hyperedges_of(node)]
    heapq.heapify(heap)
    queued = {(found.hyperedge, found.ranks) for found in heap}
    while heap:
        found = heapq.heappop(heap)
        yield found
        for worse in next_worse(found):
            if (worse.hyperedge, worse.ranks) not in queued:
                queued.add((worse.hyperedge, worse.ranks))
                heapq.heappush(heap, worse)


def _ranked_derivations(
    grammar: Grammar, graph: Hypergraph, root: NodeId, ranked: Sequence[Sequence[Ranked]]
) -> list[ScoredDerivation]:
    def picks(rank: int) -> Iterator[tuple[NodeId, HyperedgeId]]:
        pending = [(root, rank)]
        while pending:
            node, at = pending.pop()
            found = ranked[node][at]
            yield node, found.hyperedge
            pending.extend(reversed(list(zip(graph.children_of(found.hyperedge), found.ranks, strict=True))))

    return [
        ScoredDerivation(_derivation(grammar, graph, picks(rank)), -found.cost)
        for rank, found in enumerate(ranked[root])
    ]


def marginals(graph: Hypergraph, scores: FloatArray) -> FloatArray:
    """For every hyperedge the probability that a derivation of its sentence contains it: (A,)."""
    return _marginals(graph.roots(), graph.first_hyperedge, graph.children, scores, log_inside(graph, scores))


@kernel
def _marginals(
    roots: Int64Array, first_hyperedge: Int64Array, children: Int32Array, scores: FloatArray, inside: FloatArray
) -> FloatArray:
    reached, chances = np.zeros(len(inside)), np.zeros(len(scores))
    for root in roots:
        if root != NO_ROOT:
            reached[root] = 1.0
    for node in range(len(inside) - 1, -1, -1):  # parents first
        for hyperedge in range(first_hyperedge[node], first_hyperedge[node + 1]):
            value = scores[hyperedge] - inside[node]
            for child in children[hyperedge]:
                if child != NO_CHILD:
                    value += inside[child]
            chances[hyperedge] = reached[node] * np.exp(value)
            for child in children[hyperedge]:
                if child != NO_CHILD:
                    reached[child] += chances[hyperedge]
    return chances
