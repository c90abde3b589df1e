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

from collections.abc import Iterable
from math import exp, log
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nqg.grammar.arrays import FloatArray, Int32Array, Int64Array
from nqg.grammar.compilation import are_compiled
from nqg.grammar.encoding import (
    NO_TYPE,
    TYPE_BITS,
    UNKNOWN_WORD,
    GrammarArrays,
    TypeArrays,
    slot_rules,
    value_rows,
)
from nqg.grammar.goal_kernels import LARGE_FOREST, TOKENS_OF_STEP
from nqg.grammar.hypergraph import NO_CHILD, Hypergraph, subgraph
from nqg.grammar.ragged import Ragged, distinct, gather_ranges, offsets_from_lengths

# Below so many hyperedges plain kernels are as fast.
LARGE_GRAPH = 1 << 10


def is_suited(graph: Hypergraph) -> bool:
    """Whether a graph is one for these functions, not for kernels."""
    return graph.hyperedges >= LARGE_GRAPH and not are_compiled()


class NodeLevel(NamedTuple):
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


def levels(graph: Hypergraph) -> list[NodeLevel]:
    """The levels of a graph, children first; nodes keep their order."""
    # Numbers of 16 bits are sorted by radix.
    lengths = (graph.ends - graph.starts).astype(np.uint16)
    order = np.argsort(lengths, kind="stable")
    sizes = np.diff(graph.first_hyperedge)[order]
    hyperedges = gather_ranges(graph.first_hyperedge[order], sizes)
    first = offsets_from_lengths(sizes)
    bounds = np.flatnonzero(np.diff(lengths[order], prepend=0, append=0))
    ordered = []
    for low, high in zip(bounds.tolist(), bounds[1:].tolist()):
        rows = hyperedges[first[low] : first[high]]
        ordered.append(NodeLevel(order[low:high], sizes[low:high], rows))
    return ordered


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
        sums = np.bincount(level.places, shares, len(level.nodes))
        totals = sums.astype(np.float64)
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
    graph: Hypergraph, level: NodeLevel, weights: FloatArray, inside: FloatArray
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
    bounds = np.searchsorted(
        lengths[children], np.arange(int(lengths.max(initial=0)) + 2)
    )
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


# What a combination of goals derives where it derives nothing.
NO_KIND = -1


class _Refiner:
    """Refines charts of B sentences: every node has a goal for each kind of what it derives.

    `rules` are those of hyperedges, for a value that of its slot. A sentence takes at most `limit`
    steps, of which a combination takes `cost`: (B,). N nodes, K children, m combinations of goals.
    """

    def __init__(
        self,
        charts: Hypergraph,
        rules: Int32Array,
        limit: int,
        cost: Int64Array,
    ) -> None:
        self._charts, self._rules = charts, rules
        self._limit, self._cost = limit, cost
        sizes = np.diff(charts.first_node)
        self._sentences = np.repeat(np.arange(charts.sentences), sizes)
        self._steps = np.zeros(charts.sentences, dtype=np.int64)
        # The goals of nodes are numbered level by level. The last value is that of NO_CHILD, which
        # has one goal.
        self._first_goal = np.zeros(charts.nodes + 1, dtype=np.int64)
        self._goals = np.zeros(charts.nodes + 1, dtype=np.int64)
        self._goals[NO_CHILD] = 1
        self._kinds = np.zeros(0, dtype=np.int64)
        self._nodes = np.zeros(0, dtype=np.int64)

    @property
    def exceeded(self) -> NDArray[np.bool_]:
        """Whether sentences need more steps: (B,)."""
        return self._steps > self._limit

    def refine(self, prune: bool = True) -> Hypergraph:
        """The refined charts; those of sentences that need more steps are empty."""
        found = []
        for level in levels(self._charts):
            rows, chosen, kinds = self._combinations(level)
            kept = kinds != NO_KIND
            goals = self._number(level, level.places[rows[kept]], kinds[kept])
            found.append((level.hyperedges[rows[kept]], goals, chosen[kept]))
        hyperedges, goals, children = map(np.concatenate, zip(*found))
        # Goals are numbered once more, in the order of their nodes; hyperedges are grouped by goal.
        order = np.argsort(self._nodes, kind="stable")
        numbers = np.empty(len(order) + 1, dtype=np.int32)
        numbers[order] = np.arange(len(order))
        numbers[NO_CHILD] = NO_CHILD
        heads = numbers[goals]
        rows = np.argsort(heads, kind="stable")
        charts, nodes = self._charts, self._nodes[order]
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
            last = charts.roots()[np.diff(charts.first_node) > 0]
            with_goals = last[self._goals[last] > 0]
            roots = numbers[self._first_goal[with_goals]].astype(np.int64)
            is_kept &= reachable(graph, roots)
        return subgraph(graph, is_kept[graph.owners()])

    def _combinations(
        self, level: NodeLevel
    ) -> tuple[Int64Array, Int64Array, Int64Array]:
        """Rows of the level's hyperedges with each combination of the goals of their children, and
        the kind of what it derives or NO_KIND: (m,), (m, K), (m,).

        Combinations are in the order of the kernel, the last child's goals fastest.
        """
        raise NotImplementedError

    def _candidates(self, level: NodeLevel) -> Int64Array:
        """The rows of a level's hyperedges whose children all have goals."""
        children = self._charts.children[level.hyperedges]
        has_goals = (self._goals[children] > 0).all(axis=1)
        rows = np.flatnonzero(has_goals)
        return rows[~self.exceeded[self._sentences[level.owners[rows]]]]

    def _choices(
        self, nodes: Int32Array, sentences: Int64Array
    ) -> tuple[Int64Array, Int64Array]:
        """The goals of each of these nodes, and the numbers of the nodes beside them.

        A combination takes a step at least, so that too many of them are never made.
        """
        counts = self._goals[nodes]
        steps = self._steps + self._counted(sentences, counts)
        self._steps = np.where(steps > self._limit, steps, self._steps)
        counts = counts * ~self.exceeded[sentences]
        goals = gather_ranges(self._first_goal[nodes], counts)
        return np.repeat(np.arange(len(nodes)), counts), goals

    def _counted(
        self, sentences: Int64Array, steps: NDArray[np.generic] | None = None
    ) -> Int64Array:
        """The steps of so many combinations, of one for each without a choice, by sentence: (B,)."""
        added = np.bincount(sentences, steps, len(self._steps))
        counted: Int64Array = added.astype(np.int64) * self._cost
        return counted

    def _number(
        self, level: NodeLevel, places: Int64Array, kinds: Int64Array
    ) -> Int64Array:
        """The goals of these kinds of nodes of the level; new ones are in the order of their first."""
        width = int(kinds.max(initial=0)) + 1
        rows, numbers = first_of_each(places * width + kinds, len(level.nodes) * width)
        begin = len(self._kinds)
        counts = np.bincount(places[rows], minlength=len(level.nodes))
        self._first_goal[level.nodes] = begin + offsets_from_lengths(counts)[:-1]
        self._goals[level.nodes] = counts
        self._kinds = np.append(self._kinds, kinds[rows])
        self._nodes = np.append(self._nodes, level.nodes[places[rows]])
        return begin + numbers


def first_of_each(keys: Int64Array, bound: int) -> tuple[Int64Array, Int64Array]:
    """The places of distinct keys from 0 to `bound`, and for every key the number of its place.

    >>> first_of_each(np.array([7, 3, 7]), 8)
    (array([0, 1]), array([0, 1, 0]))
    """
    found, of_keys = distinct(keys, bound)
    first = np.empty(len(found), dtype=np.int64)
    # Of several assignments the last one counts: the first of each key.
    first[of_keys[::-1]] = np.arange(len(keys) - 1, -1, -1)
    numbers = np.empty_like(first)
    order = np.argsort(first)
    numbers[order] = np.arange(len(first))
    return first[order], numbers[of_keys]


class TypeRefiner(_Refiner):
    """Goals are types, as in `goal_kernels.fill_types`.

    `lengths` are those of the sentences, and `wanted` has a mask of types for every node.
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
        sizes = np.diff(charts.first_hyperedge[charts.first_node])
        is_counted = (sizes >= LARGE_FOREST).astype(np.int64)
        super().__init__(charts, rules, limit, is_counted)
        self._types, self._wanted = types, wanted
        of_nodes = lengths[self._sentences]
        self._is_whole = (charts.starts == 0) & (charts.ends == of_nodes)

    def _combinations(
        self, level: NodeLevel
    ) -> tuple[Int64Array, Int64Array, Int64Array]:
        types, children = self._types, self._charts.children[level.hyperedges]
        rules = self._rules[level.hyperedges]
        nodes = level.owners
        sentences = self._sentences[nodes]
        rows = self._candidates(level)
        cells = np.zeros(len(rows), dtype=np.int64)
        chosen = np.full((len(rows), children.shape[1]), NO_CHILD, dtype=np.int64)
        for column in range(children.shape[1]):
            below = children[rows, column]
            if (below == NO_CHILD).all():
                break
            repeated, goals = self._choices(below, sentences[rows])
            rows, cells, chosen = rows[repeated], cells[repeated], chosen[repeated]
            # Rules that have no such argument stay as they are.
            has = np.flatnonzero(children[rows, column] != NO_CHILD)
            chosen[has, column] = goals[has]
            arguments = types.first_place[rules[rows[has]]] + column
            classes = types.classes[arguments, self._kinds[goals[has]]]
            cells[has] = cells[has] * types.sizes[arguments] + classes
            # Where these children decide, those that follow do not matter.
            fits = np.ones(len(rows), dtype=bool)
            fits[has] = classes != NO_TYPE
            self._steps += self._counted(sentences[rows[~fits]])
            rows, cells, chosen = rows[fits], cells[fits], chosen[fits]
        self._steps += self._counted(sentences[rows])
        kinds = types.results[types.first_result[rules[rows]] + cells].astype(np.int64)
        has_type = kinds != NO_TYPE
        rows, chosen, kinds = rows[has_type], chosen[has_type], kinds[has_type]
        is_wanted = self._wanted[nodes[rows]] >> (kinds % TYPE_BITS) & 1 == 1
        # What covers a whole sentence has one goal, that of legal targets.
        is_whole = self._is_whole[nodes[rows]]
        is_wanted &= types.is_whole[kinds] | ~is_whole
        kinds[is_whole] = len(types.is_whole)
        return rows, chosen, np.where(is_wanted, kinds, NO_KIND)


class GoalRefiner(_Refiner):
    """Goals are substrings of the sentence's target, as in `goal_kernels.fill_goals`.

    Strings of Python stand for sequences of tokens, one character for each: their search is as fast
    as NumPy, and few combinations of goals are left to search for.
    """

    def __init__(
        self,
        charts: Hypergraph,
        grammar: GrammarArrays,
        targets: Ragged,
        limit: int,
    ) -> None:
        cost = 1 + np.diff(targets.offsets).astype(np.int64) // TOKENS_OF_STEP
        rules = slot_rules(charts.rules, grammar.values)
        super().__init__(charts, rules, limit, cost)
        self._grammar = grammar
        self._targets = [characters(targets.row(row)) for row in range(targets.rows)]
        self._is_root = np.zeros(charts.nodes, dtype=bool)
        self._is_root[charts.roots()[np.diff(charts.first_node) > 0]] = True
        # The kinds of goals are numbers of strings.
        self._strings: list[str] = []
        self._numbers: dict[str, int] = {}
        self._pieces_of_rules: dict[int, list[str | int]] = {}

    def _combinations(
        self, level: NodeLevel
    ) -> tuple[Int64Array, Int64Array, Int64Array]:
        children = self._charts.children[level.hyperedges]
        nodes = level.owners
        sentences = self._sentences[nodes]
        rows = self._candidates(level)
        rows = rows[self._has_tokens(self._charts.rules[level.hyperedges[rows]])]
        chosen = np.full((len(rows), children.shape[1]), NO_CHILD, dtype=np.int64)
        for column in range(children.shape[1]):
            repeated, goals = self._choices(children[rows, column], sentences[rows])
            rows, chosen = rows[repeated], chosen[repeated]
            has = children[rows, column] != NO_CHILD
            chosen[has, column] = goals[has]
        self._steps += self._counted(sentences[rows])
        kinds = self._yields(level.hyperedges[rows], nodes[rows], chosen)
        return rows, chosen, kinds

    def _has_tokens(self, rules: Int32Array) -> NDArray[np.bool_]:
        """Whether rules are no values, or values that a target may have."""
        values = self._grammar.values
        has_tokens = np.ones(len(rules), dtype=bool)
        is_value = rules >= values.first
        rows = value_rows(rules[is_value], values)
        has_tokens[is_value] = values.sizes[rows] > 0
        return has_tokens

    def _yields(
        self, hyperedges: Int64Array, nodes: Int64Array, chosen: Int64Array
    ) -> Int64Array:
        """The numbers of the strings that hyperedges yield over chosen goals; NO_KIND for what is
        not in the target, or at the root is not the target: (m,).
        """
        kinds = []
        rules = self._charts.rules[hyperedges].tolist()
        sentences = self._sentences[nodes].tolist()
        below = np.append(self._kinds, NO_KIND)[chosen].tolist()
        for rule, sentence, is_root, of_children in zip(
            rules, sentences, self._is_root[nodes].tolist(), below
        ):
            string = ""
            for piece in self._pieces(rule):
                if isinstance(piece, str):
                    string += piece
                else:
                    string += self._strings[of_children[piece]]
            target = self._targets[sentence]
            if string not in target or (is_root and string != target):
                kinds.append(NO_KIND)
                continue
            number = self._numbers.setdefault(string, len(self._strings))
            if number == len(self._strings):
                self._strings.append(string)
            kinds.append(number)
        return np.array(kinds, dtype=np.int64)

    def _pieces(self, rule: int) -> list[str | int]:
        """What a rule yields: strings, and the numbers of children from 0."""
        pieces = self._pieces_of_rules.get(rule)
        if pieces is not None:
            return pieces
        values, meaning, slot = self._grammar.values, "", NO_KIND
        (of_slot,) = slot_rules(np.array([rule], dtype=np.int32), values).tolist()
        if rule >= values.first:
            (row,) = value_rows(np.array([rule], dtype=np.int32), values).tolist()
            first = values.first_token[row]
            meaning = characters(values.tokens[first : first + values.sizes[row]])
            slot = values.slots[of_slot]
        pieces = []
        for symbol in self._grammar.targets.row(of_slot).tolist():
            if symbol < 0:
                pieces.append(-symbol - 1)
            else:
                pieces.append(meaning if symbol == slot else characters([symbol]))
        self._pieces_of_rules[rule] = pieces
        return pieces


def characters(tokens: Iterable[int]) -> str:
    """A character for each number of a token, that of unknown words among them."""
    return "".join([chr(token - UNKNOWN_WORD) for token in tokens])
