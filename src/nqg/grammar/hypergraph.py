"""The hypergraph: any hyperedge derives its node, by a rule and from all nodes under the hyperedge.

One type serves the chart of a sentence, its full forest and its goal forest, of one sentence or of
many end to end.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, NewType

import numpy as np
from numpy.typing import NDArray

from nqg.grammar.arrays import Int32Array, Int64Array
from nqg.grammar.ragged import gather_ranges, offsets_from_lengths

NodeId = NewType("NodeId", int)
NO_CHILD = -1
NO_ROOT = -1


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """Tokens `start` to `end` (not included) of a sentence."""

    start: int
    end: int

    def __str__(self) -> str:
        return f"{self.start}:{self.end}"


class Hypergraph(NamedTuple):
    """The hypergraphs of B sentences end to end: N nodes, A hyperedges, at most K children each.

    Nodes are in topological order, children first, so that the last node of a sentence is its root
    where the graph is rooted. Children are numbers of nodes in this same graph. A node stands for a
    span; in goal graphs for a span and a substring of the target, in typed graphs for a span and a
    type, so that several nodes may share a span.

    It is a named tuple, which Numba can unpack; `len` is therefore not the number of sentences.
    """

    first_node: Int64Array  # (B + 1,)
    starts: Int32Array  # (N,)
    ends: Int32Array  # (N,)
    first_hyperedge: Int64Array  # (N + 1,)
    rules: Int32Array  # (A,)
    children: Int32Array  # (A, K), NO_CHILD where a rule has fewer

    @property
    def sentences(self) -> int:
        return len(self.first_node) - 1

    @property
    def nodes(self) -> int:
        return len(self.starts)

    @property
    def hyperedges(self) -> int:
        return len(self.rules)

    @property
    def most_nodes(self) -> int:
        """How many nodes a sentence has at most."""
        return int((self.first_node[1:] - self.first_node[:-1]).max(initial=0))

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self)

    def span(self, node: NodeId) -> Span:
        return Span(int(self.starts[node]), int(self.ends[node]))

    def node_ids(self) -> Iterator[NodeId]:
        """All nodes, children before parents."""
        return map(NodeId, range(self.nodes))

    def hyperedges_of(self, node: NodeId) -> range:
        """The hyperedges into `node`, one for each way to derive it."""
        return range(*self.first_hyperedge[node : node + 2].tolist())

    def children_of(self, hyperedge: int) -> tuple[NodeId, ...]:
        """The nodes under `hyperedge`, left to right in the source."""
        children = self.children[hyperedge].tolist()
        return tuple(child for child in children if child != NO_CHILD)

    def roots(self) -> Int64Array:
        """The root of every sentence, or NO_ROOT where it has no derivation: (B,)."""
        begins, ends = self.first_node[:-1], self.first_node[1:]
        return np.where(begins == ends, NO_ROOT, ends - 1)

    def owners(self) -> Int32Array:
        """For every hyperedge the node that it belongs to: (A,)."""
        return np.repeat(
            np.arange(self.nodes, dtype=np.int32), np.diff(self.first_hyperedge)
        )

    def select(self, sentences: Sequence[int]) -> Hypergraph:
        """The graphs of some sentences in this order; a sentence may be among them twice."""
        chosen = np.asarray(sentences, dtype=np.int64)
        if np.array_equal(chosen, np.arange(self.sentences)):
            return self
        old_first = self.first_node[chosen]
        sizes = self.first_node[chosen + 1] - old_first
        # The rows of the sentences' nodes, and those of their hyperedges.
        rows = gather_ranges(old_first, sizes)
        first_rows = self.first_hyperedge[rows]
        hyperedge_sizes = self.first_hyperedge[rows + 1] - first_rows
        hyperedge_rows = gather_ranges(first_rows, hyperedge_sizes)
        # Children move with the first node of their sentence.
        first_node = offsets_from_lengths(sizes)
        node_shifts = np.repeat((first_node[:-1] - old_first).astype(np.int32), sizes)
        shifts = np.repeat(node_shifts, hyperedge_sizes)
        children = self.children[hyperedge_rows]
        return Hypergraph(
            first_node,
            self.starts[rows],
            self.ends[rows],
            offsets_from_lengths(hyperedge_sizes),
            self.rules[hyperedge_rows],
            np.where(children == NO_CHILD, NO_CHILD, children + shifts[:, None]),
        )

    @classmethod
    def with_capacity(cls, sentences: int, capacity: int, max_arity: int) -> Hypergraph:
        """Room for so many sentences, and for `capacity` nodes and hyperedges; it has none yet."""
        first_node = np.empty(sentences + 1, dtype=np.int64)
        first_hyperedge = np.empty(capacity + 1, dtype=np.int64)
        first_node[0] = first_hyperedge[0] = 0
        starts, ends, rules = np.empty((3, capacity), dtype=np.int32)
        children = np.empty((capacity, max_arity), dtype=np.int32)
        return cls(first_node, starts, ends, first_hyperedge, rules, children)

    def truncate(self, sentences: int) -> Hypergraph:
        """A copy of the graphs of the first sentences."""
        nodes = self.first_node[sentences]
        hyperedges = self.first_hyperedge[nodes]
        return Hypergraph(
            self.first_node[: sentences + 1].copy(),
            self.starts[:nodes].copy(),
            self.ends[:nodes].copy(),
            self.first_hyperedge[: nodes + 1].copy(),
            self.rules[:hyperedges].copy(),
            self.children[:hyperedges].copy(),
        )


def concatenate(graphs: Iterable[Hypergraph]) -> Hypergraph:
    """Several graphs of one grammar as one, end to end; one graph alone is given back itself."""
    joined: Hypergraph | None = None
    has_own_arrays = False
    for graph in graphs:
        if joined is None:
            joined = graph
            continue
        if not has_own_arrays:
            joined = joined.truncate(joined.sentences)
            has_own_arrays = True
        extend(joined, graph)
    if joined is None:
        return Hypergraph.with_capacity(0, 0, 0)
    return joined


def extend(graph: Hypergraph, more: Hypergraph) -> None:
    """Append the sentences of `more` to a graph that shares its arrays with nobody.

    The arrays grow in place: those of large graphs are moved by the operating system, page by page,
    so that the graphs of a corpus never take twice their memory.
    """
    nodes, hyperedges = graph.nodes, graph.hyperedges
    # The numbers of children count from the first node of all graphs.
    is_child = more.children != NO_CHILD
    children = np.where(is_child, more.children + np.int32(nodes), NO_CHILD)
    _append(graph.first_node, more.first_node[1:] + nodes)
    _append(graph.starts, more.starts)
    _append(graph.ends, more.ends)
    _append(graph.first_hyperedge, more.first_hyperedge[1:] + hyperedges)
    _append(graph.rules, more.rules)
    _append(graph.children, children)


def _append(array: NDArray[Any], rows: NDArray[Any]) -> None:
    size = len(array)
    # Nobody but its graph refers to the array, so its memory may move.
    array.resize((size + len(rows), *array.shape[1:]), refcheck=False)
    array[size:] = rows


def subgraph(graph: Hypergraph, is_kept: NDArray[np.bool_]) -> Hypergraph:
    """A graph without some hyperedges, and without the nodes that then have none.

    The children of a hyperedge that is kept must have hyperedges that are kept.
    """
    kept = offsets_from_lengths(is_kept)[graph.first_hyperedge]
    sizes = np.diff(kept)
    is_used = sizes > 0
    # The nodes that are left get new numbers.
    numbers = offsets_from_lengths(is_used)
    children = graph.children[is_kept]
    renumbered = np.where(children == NO_CHILD, NO_CHILD, numbers[children])
    return Hypergraph(
        first_node=numbers[graph.first_node],
        starts=graph.starts[is_used],
        ends=graph.ends[is_used],
        first_hyperedge=offsets_from_lengths(sizes[is_used]),
        rules=graph.rules[is_kept],
        children=renumbered.astype(np.int32),
    )
