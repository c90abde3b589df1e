"""Large graphs with NumPy: what kernels do hyperedge by hyperedge, a level of the graph at a time.

Plain Python takes a microsecond for each hyperedge of each pass, and the chart of a long sentence with
free text has hundreds of thousands. The children of a hyperedge cover less than its head does, so
that all nodes over spans of one length, a *level*, are independent of each other, in one sentence as
in many. Where kernels are compiled nothing of this is needed.

The results have the same bytes as those of the kernels, which are the twins of these functions:
terms are added in the same order, logarithms and exponentials are the C library's, and steps are
counted likewise (`tests/grammar/test_vectorized.py`).
"""

from __future__ import annotations

from math import exp, log
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nqg.grammar.arrays import FloatArray, Int32Array, Int64Array
from nqg.grammar.compilation import are_compiled
from nqg.grammar.encoding import (
    NO_TYPE,
    TYPE_BITS,
    GrammarArrays,
    TypeArrays,
    slot_rules,
    value_rows,
)
from nqg.grammar.goal_kernels import LARGE_FOREST
from nqg.grammar.hypergraph import NO_CHILD, Hypergraph, subgraph
from nqg.grammar.ragged import Ragged, gather_ranges, offsets_from_lengths

# Below so many hyperedges plain kernels are as fast.
LARGE_GRAPH = 1 << 10


def is_suited(graph: Hypergraph) -> bool:
    """Whether a graph is one for these functions, not for kernels."""
    return graph.hyperedges >= LARGE_GRAPH and not are_compiled()


class Level(NamedTuple):
    """Nodes that are independent of each other, and their hyperedges, one node after the other."""

    nodes: Int64Array  # (n,)
    sizes: Int64Array  # (n,) how many hyperedges each has
    hyperedges: Int64Array  # (a,)

    @property
    def owners(self) -> Int64Array:
        """The node of each hyperedge: (a,)."""
        return np.repeat(self.nodes, self.sizes)

    @property
    def places(self) -> Int64Array:
        """The place of that node among those of the level: (a,)."""
        return np.repeat(np.arange(len(self.nodes)), self.sizes)


def levels(graph: Hypergraph) -> list[Level]:
    """The levels of a graph, children first; nodes keep their order."""
    # Numbers of 16 bits are sorted by radix.
    lengths = (graph.ends - graph.starts).astype(np.uint16)
    order = np.argsort(lengths, kind="stable")
    sizes = np.diff(graph.first_hyperedge)[order]
    hyperedges = gather_ranges(graph.first_hyperedge[order], sizes)
    first = offsets_from_lengths(sizes)
    bounds = np.flatnonzero(np.diff(lengths[order], prepend=0, append=0))
    found = []
    for low, high in zip(bounds.tolist(), bounds[1:].tolist()):
        rows = hyperedges[first[low] : first[high]]
        found.append(Level(order[low:high], sizes[low:high], rows))
    return found


def exponentials(values: FloatArray) -> FloatArray:
    """Those of the C library: NumPy's own may differ in the last bit."""
    return np.fromiter(map(exp, values.tolist()), np.float64, len(values))


def logarithms(values: FloatArray) -> FloatArray:
    return np.fromiter(map(log, values.tolist()), np.float64, len(values))


def log_inside(graph: Hypergraph, weights: FloatArray) -> FloatArray:
    """The inside values of all nodes, logarithms; weights become local marginals."""
    # The last value is that of NO_CHILD.
    inside = np.zeros(graph.nodes + 1)
    for level in levels(graph):
        if not len(level.hyperedges):
            continue
        terms, top = _terms(graph, level, weights, inside)
        # Nodes without any chance have shares of 0, not of 0 / 0.
        is_possible = top > -np.inf
        raised = np.where(is_possible, top, 0.0)
        shares = exponentials(terms - np.repeat(raised, level.sizes))
        # Like the kernel, `bincount` adds one term after the other.
        totals = np.bincount(level.places, shares, len(level.nodes))
        totals[~is_possible] = 1.0
        weights[level.hyperedges] = shares / np.repeat(totals, level.sizes)
        inside[level.nodes] = top + logarithms(totals)
    return inside[:-1]


def max_inside(graph: Hypergraph, weights: FloatArray) -> FloatArray:
    """The best scores of all nodes; of a node's weights, the first of the best becomes 1, others 0."""
    inside = np.zeros(graph.nodes + 1)
    for level in levels(graph):
        if not len(level.hyperedges):
            continue
        terms, top = _terms(graph, level, weights, inside)
        is_best = np.flatnonzero(terms == np.repeat(top, level.sizes))
        _, first = np.unique(level.places[is_best], return_index=True)
        weights[level.hyperedges] = 0.0
        weights[level.hyperedges[is_best[first]]] = 1.0
        inside[level.nodes] = top
    return inside[:-1]


def _terms(
    graph: Hypergraph, level: Level, weights: FloatArray, inside: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """The score of each hyperedge over its children, and the best one of each node."""
    terms = weights[level.hyperedges]
    children = graph.children[level.hyperedges]
    for column in range(children.shape[1]):
        terms += inside[children[:, column]]
    return terms, np.maximum.reduceat(terms, offsets_from_lengths(level.sizes)[:-1])


def outside_pass(
    graph: Hypergraph, local_marginals: FloatArray, outside: FloatArray
) -> None:
    """Multiply local marginals by their nodes' marginals, `outside`, from the root down."""
    sizes = np.diff(graph.first_hyperedge)
    # Every place of a child, in the order in which the kernel adds to it: parents backwards.
    hyperedges = gather_ranges(graph.first_hyperedge[-2::-1], sizes[::-1])
    children = graph.children[hyperedges]
    is_child = children != NO_CHILD
    parents = np.repeat(hyperedges, is_child.sum(axis=1))
    children = children[is_child]
    lengths = (graph.ends - graph.starts).astype(np.uint16)
    order = np.argsort(lengths[children], kind="stable")
    children, parents = children[order], parents[order]
    bounds = np.searchsorted(lengths[children], np.arange(int(lengths.max(initial=0)) + 2))
    for level in reversed(levels(graph)):
        length = lengths[level.nodes[0]]
        places = slice(bounds[length], bounds[length + 1])
        added = local_marginals[parents[places]]
        outside += np.bincount(children[places], added, len(outside))
        local_marginals[level.hyperedges] *= outside[level.owners]


def reachable(graph: Hypergraph, roots: Int64Array) -> NDArray[np.bool_]:
    """The nodes that roots lead to, the roots among them: (N,)."""
    # The last value is that of NO_CHILD.
    is_reached = np.zeros(graph.nodes + 1, dtype=bool)
    is_reached[roots] = True
    for level in reversed(levels(graph)):
        below = graph.children[level.hyperedges[is_reached[level.owners]]]
        is_reached[below] = True
    return is_reached[:-1]


class TypeRefiner:
    """Refines charts by types, as `nqg.grammar.goal_kernels` does sentence by sentence.

    `rules` are those of hyperedges that have types, `lengths` those of the sentences, and `wanted` has
    a mask of types for every node. A large sentence takes at most `limit` steps. N nodes, K children,
    T types; a goal is a type of a node.
    """

    def __init__(
        self,
        charts: Hypergraph,
        rules: Int32Array,
        types: TypeArrays,
        lengths: Int64Array,
        wanted: Int64Array,
        limit: int,
    ) -> None:
        self._charts, self._rules, self._types = charts, rules, types
        self._wanted, self._limit = wanted, limit
        self._sentences = np.repeat(
            np.arange(charts.sentences), np.diff(charts.first_node)
        )
        self._is_whole = (charts.starts == 0) & (charts.ends == lengths[self._sentences])
        sizes = np.diff(charts.first_hyperedge[charts.first_node])
        self._is_counted = sizes >= LARGE_FOREST
        self._steps = np.zeros(charts.sentences, dtype=np.int64)
        # The goals of nodes are numbered level by level. The last value is that of NO_CHILD, which
        # has one goal.
        self._first_goal = np.zeros(charts.nodes + 1, dtype=np.int64)
        self._goals = np.zeros(charts.nodes + 1, dtype=np.int64)
        self._goals[NO_CHILD] = 1
        self._types_of_goals = np.zeros(0, dtype=np.int64)
        self._nodes_of_goals = np.zeros(0, dtype=np.int64)

    @property
    def exceeded(self) -> NDArray[np.bool_]:
        """Whether sentences need more steps: (B,)."""
        return self._steps > self._limit

    def refine(self, prune: bool) -> Hypergraph:
        """The well-typed derivations; of sentences that need more steps none."""
        found = []
        for level in levels(self._charts):
            found.append(self._refine_level(level))
        hyperedges, goals, children = map(np.concatenate, zip(*found))
        # Goals are numbered once more, in the order of their nodes; hyperedges are grouped by goal.
        order = np.argsort(self._nodes_of_goals, kind="stable")
        numbers = np.empty(len(order) + 1, dtype=np.int32)
        numbers[order] = np.arange(len(order))
        numbers[NO_CHILD] = NO_CHILD
        heads = numbers[goals]
        rows = np.argsort(heads, kind="stable")
        charts, nodes = self._charts, self._nodes_of_goals[order]
        graph = Hypergraph(
            np.searchsorted(nodes, charts.first_node),
            charts.starts[nodes],
            charts.ends[nodes],
            offsets_from_lengths(np.bincount(heads, minlength=len(order))),
            charts.rules[hyperedges[rows]],
            numbers[children[rows]],
        )
        is_kept = ~self.exceeded[self._sentences[nodes]]
        if prune:
            is_kept &= reachable(graph, self._roots(numbers))
        return subgraph(graph, is_kept[graph.owners()])

    def _roots(self, numbers: Int32Array) -> Int64Array:
        """The goals of the last nodes of sentences, where these have any."""
        last = self._charts.roots()[np.diff(self._charts.first_node) > 0]
        goals: Int64Array = numbers[self._first_goal[last[self._goals[last] > 0]]]
        return goals

    def _refine_level(self, level: Level) -> tuple[Int64Array, Int64Array, Int64Array]:
        """Hyperedges of the charts, the goals that they derive, and those that they derive them
        from: (m,), (m,), (m, K).
        """
        rows, chosen, results = self._combinations(level)
        places = level.places[rows]
        nodes = level.nodes[places]
        # What covers a whole sentence has one goal, that of legal targets.
        types = self._types
        is_legal = types.is_whole[results]
        is_wanted = self._wanted[nodes] >> (results % TYPE_BITS) & 1 == 1
        is_whole = self._is_whole[nodes]
        kinds = np.where(is_whole, len(types.is_whole), results)
        kept = (results != NO_TYPE) & is_wanted & (is_legal | ~is_whole)
        goals = self._number(level, places[kept], kinds[kept])
        return level.hyperedges[rows[kept]], goals, chosen[kept]

    def _combinations(self, level: Level) -> tuple[Int64Array, Int64Array, Int64Array]:
        """Rows of the level's hyperedges with each combination of the goals of their children, and
        the type of that or NO_TYPE: (m,), (m, K), (m,).

        Combinations are in the order of the kernel, the last child's goals fastest.
        """
        types, children = self._types, self._charts.children[level.hyperedges]
        sentences = self._sentences[level.owners]
        rows = np.flatnonzero((self._goals[children] > 0).all(axis=1))
        rows = rows[~self.exceeded[sentences[rows]]]
        rules = self._rules[level.hyperedges]
        cells = np.zeros(len(rows), dtype=np.int64)
        chosen = np.full((len(rows), children.shape[1]), NO_CHILD, dtype=np.int64)
        for column in range(children.shape[1]):
            nodes = children[rows, column]
            if (nodes == NO_CHILD).all():
                break
            # Each combination takes a step at least, so that too many of them are never made.
            self._add_steps(sentences[rows], self._goals[nodes], only_if_exceeded=True)
            is_left = ~self.exceeded[sentences[rows]]
            counts = self._goals[nodes] * is_left
            goals = gather_ranges(self._first_goal[nodes], counts)
            rows, cells = np.repeat(rows, counts), np.repeat(cells, counts)
            chosen = np.repeat(chosen, counts, axis=0)
            # Rules that have no such argument stay as they are.
            (has,) = np.nonzero(children[rows, column] != NO_CHILD)
            chosen[has, column] = goals[has]
            arguments = types.first_place[rules[rows[has]]] + column
            classes = types.classes[arguments, self._types_of_goals[goals[has]]]
            cells[has] = cells[has] * types.sizes[arguments] + classes
            # Where these children decide, those that follow do not matter.
            fits = np.ones(len(rows), dtype=bool)
            fits[has] = classes != NO_TYPE
            self._add_steps(sentences[rows], ~fits)
            rows, cells, chosen = rows[fits], cells[fits], chosen[fits]
        self._add_steps(sentences[rows], np.ones(len(rows), dtype=bool))
        results = types.results[types.first_result[rules[rows]] + cells]
        return rows, chosen, results.astype(np.int64)

    def _add_steps(
        self,
        sentences: Int64Array,
        steps: NDArray[np.generic],
        *,
        only_if_exceeded: bool = False,
    ) -> None:
        """Count steps of sentences, as far as theirs are counted."""
        added = np.bincount(sentences, steps, len(self._steps)).astype(np.int64)
        total = self._steps + added * self._is_counted
        if only_if_exceeded:
            total = np.where(total > self._limit, total, self._steps)
        self._steps = total

    def _number(
        self, level: Level, places: Int64Array, kinds: Int64Array
    ) -> Int64Array:
        """The goals of these types of nodes of the level; new ones are in the order of their first."""
        width = len(self._types.is_whole) + 1
        keys = places * width + kinds
        first = np.full(len(level.nodes) * width, len(keys))
        # Of several assignments the last one counts: the first of each key.
        first[keys[::-1]] = np.arange(len(keys) - 1, -1, -1)
        rows = np.sort(first[first < len(keys)])
        numbers = np.empty_like(first)
        numbers[keys[rows]] = len(self._types_of_goals) + np.arange(len(rows))
        counts = np.bincount(places[rows], minlength=len(level.nodes))
        begin = len(self._types_of_goals)
        self._first_goal[level.nodes] = begin + offsets_from_lengths(counts)[:-1]
        self._goals[level.nodes] = counts
        self._types_of_goals = np.append(self._types_of_goals, kinds[rows])
        nodes = level.nodes[places[rows]]
        self._nodes_of_goals = np.append(self._nodes_of_goals, nodes)
        return numbers[keys]


def without_dead_ends(
    charts: Hypergraph, grammar: GrammarArrays, targets: Ragged
) -> Hypergraph:
    """Charts without the hyperedges that have a child no derivation of which yields a substring of
    the sentence's target; nodes stay, also those without hyperedges.

    A child that is left may yield none either: only words are looked at, not their order.
    """
    rules = slot_rules(charts.rules, grammar.values)
    sentences = np.repeat(np.arange(charts.sentences), np.diff(charts.first_node))
    has_words = _rules_with_words(grammar, targets)
    is_possible = has_words[sentences[charts.owners()], rules]
    # Values that the target lacks have no tokens.
    (values,) = np.nonzero(charts.rules >= grammar.values.first)
    tokens = grammar.values.sizes[value_rows(charts.rules[values], grammar.values)]
    is_possible[values] &= tokens > 0
    # The last value is that of NO_CHILD.
    has_goals = np.zeros(charts.nodes + 1, dtype=bool)
    has_goals[NO_CHILD] = True
    is_kept = np.zeros(charts.hyperedges, dtype=bool)
    for level in levels(charts):
        rows = level.hyperedges
        is_kept[rows] = has_goals[charts.children[rows]].all(axis=1)
        yields = level.owners[is_kept[rows] & is_possible[rows]]
        has_goals[yields] = True
    return charts._replace(
        first_hyperedge=offsets_from_lengths(is_kept)[charts.first_hyperedge],
        rules=charts.rules[is_kept],
        children=charts.children[is_kept],
    )


def _rules_with_words(grammar: GrammarArrays, targets: Ragged) -> NDArray[np.bool_]:
    """Which rules have no terminals on the target side but those of a target: (B, R)."""
    symbols, lengths = grammar.targets.values, grammar.targets.lengths
    of_rules = np.repeat(np.arange(grammar.targets.rows), lengths)
    # For the terminal of a slot the value's tokens stand.
    is_word = symbols >= 0
    if len(grammar.values.slots):
        is_word &= symbols != grammar.values.slots[of_rules]
    words, rules = symbols[is_word], of_rules[is_word]
    has_words = np.ones((targets.rows, grammar.targets.rows), dtype=bool)
    for sentence in range(targets.rows):
        has_words[sentence, rules[~np.isin(words, targets.row(sentence))]] = False
    return has_words
