"""The hypergraph: a node is derived by any of its hyperedges, a hyperedge by its rule and all nodes under it.

One type serves the chart of a sentence, its full forest and its goal forest, alone or many laid end to end.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NewType

import numpy as np
from numpy.typing import NDArray

from nqg.errors import FormatError
from nqg.grammar.arrays import Int32Array, Int64Array

NodeId = NewType("NodeId", int)
HyperedgeId = NewType("HyperedgeId", int)
NO_CHILD = -1
NO_ROOT = -1


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """Tokens `start` to `end` (not included) of a sentence."""

    start: int
    end: int

    def __str__(self) -> str:
        return f"{self.start}:{self.end}"


@dataclass(frozen=True, slots=True)
class Hypergraph:
    """The hypergraphs of B sentences end to end: N nodes, A hyperedges, at most K children each.

    Nodes are in topological order, children first, so that the last node of a sentence is its root where the graph
    is rooted. Children are numbers of nodes in this same graph. In goal graphs a node stands for a span and a part
    of the target, which begins at `target_starts` (its first occurrence) and has `target_lengths` tokens. In typed
    graphs it stands for a span and a type.
    """

    first_node: Int64Array  # (B + 1,)
    starts: Int32Array  # (N,)
    ends: Int32Array  # (N,)
    first_hyperedge: Int64Array  # (N + 1,)
    rules: Int32Array  # (A,)
    children: Int32Array  # (A, K), NO_CHILD where a rule has fewer
    target_starts: Int32Array | None = None  # (N,)
    target_lengths: Int32Array | None = None  # (N,)
    types: Int32Array | None = None  # (N,)

    def __len__(self) -> int:
        """How many sentences lie in it."""
        return len(self.first_node) - 1

    @property
    def nodes(self) -> int:
        return len(self.starts)

    @property
    def hyperedges(self) -> int:
        return len(self.rules)

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self.arrays().values())

    def arrays(self) -> dict[str, NDArray[np.int32] | NDArray[np.int64]]:
        """The arrays by name, those that are there."""
        named = ((name, getattr(self, name)) for name in self.__slots__)
        return {name: array for name, array in named if array is not None}

    def span(self, node: NodeId) -> Span:
        return Span(int(self.starts[node]), int(self.ends[node]))

    def node_ids(self) -> Iterator[NodeId]:
        """All nodes, children before parents."""
        return map(NodeId, range(self.nodes))

    def hyperedges_of(self, node: NodeId) -> Iterator[HyperedgeId]:
        """The hyperedges into `node`, one for each way to derive it."""
        return map(HyperedgeId, range(int(self.first_hyperedge[node]), int(self.first_hyperedge[node + 1])))

    def children_of(self, hyperedge: HyperedgeId) -> tuple[NodeId, ...]:
        """The nodes under `hyperedge`, left to right in the source."""
        return tuple(NodeId(int(child)) for child in self.children[hyperedge] if child != NO_CHILD)

    def roots(self) -> Int64Array:
        """For every sentence the node that covers it all, or NO_ROOT where it has no derivation: (B,)."""
        return np.where(np.diff(self.first_node) == 0, NO_ROOT, self.first_node[1:] - 1)

    def owners(self) -> Int32Array:
        """For every hyperedge the node that it belongs to: (A,)."""
        return np.repeat(np.arange(self.nodes, dtype=np.int32), np.diff(self.first_hyperedge))

    def check(self) -> None:
        """Refuse arrays that do not make a graph: kernels trust every number in them."""
        for name, array in self.arrays().items():
            wanted = np.int64 if name.startswith("first_") else np.int32
            if array.dtype != wanted or array.ndim != (2 if name == "children" else 1):
                found = f"type {array.dtype} and {array.ndim} dimensions"
                raise FormatError(f"array {name} has {found}, expected {wanted.__name__}")
        groups = {"first_node": self.nodes, "first_hyperedge": self.hyperedges}
        for name, members in groups.items():
            firsts = getattr(self, name)
            if len(firsts) == 0 or firsts[0] != 0 or firsts[-1] != members or np.any(np.diff(firsts) < 0):
                raise FormatError(f"array {name} does not divide {members} members into groups")
        columns = (self.starts, self.ends, self.target_starts, self.target_lengths, self.types)
        if any(column is not None and len(column) != self.nodes for column in columns):
            raise FormatError("the columns of the nodes differ in length")
        if len(self.children) != self.hyperedges or self.rules.min(initial=0) < 0:
            raise FormatError("the columns of the hyperedges differ in length or hold a negative rule")
        lowest = np.repeat(np.repeat(self.first_node[:-1], np.diff(self.first_node)), np.diff(self.first_hyperedge))
        inside = (self.children >= lowest[:, None]) & (self.children < self.owners()[:, None])
        if not np.all(inside | (self.children == NO_CHILD)):
            raise FormatError("a hyperedge has a child that does not come before it in its own graph")

    def __getitem__(self, sentence: int) -> Hypergraph:
        return self.select([sentence])

    def __iter__(self) -> Iterator[Hypergraph]:
        return (self[sentence] for sentence in range(len(self)))

    def select(self, sentences: Sequence[int]) -> Hypergraph:
        """The graphs of some sentences, in the order asked for; a sentence may be asked for twice.

        Nothing else is looked at: of arrays that are mapped from a file, only the rows of these sentences are read.
        """
        picked = np.asarray(sentences, dtype=np.int64)
        old_first = self.first_node[picked]
        sizes = self.first_node[picked + 1] - old_first
        rows = ranges(old_first, sizes)
        first_rows = self.first_hyperedge[rows]
        hyperedge_sizes = self.first_hyperedge[rows + 1] - first_rows
        hyperedge_rows = ranges(first_rows, hyperedge_sizes)
        first_node = starts_of(sizes)
        shifts = np.repeat(np.repeat(first_node[:-1] - old_first, sizes), hyperedge_sizes).astype(np.int32)
        children = self.children[hyperedge_rows]
        return Hypergraph(
            first_node=first_node,
            starts=self.starts[rows],
            ends=self.ends[rows],
            first_hyperedge=starts_of(hyperedge_sizes),
            rules=self.rules[hyperedge_rows],
            children=np.where(children == NO_CHILD, NO_CHILD, children + shifts[:, None]),
            target_starts=None if self.target_starts is None else self.target_starts[rows],
            target_lengths=None if self.target_lengths is None else self.target_lengths[rows],
            types=None if self.types is None else self.types[rows],
        )


def starts_of(sizes: Int64Array) -> Int64Array:
    """Where each of several groups begins when they lie end to end, and where the last one ends.

    >>> starts_of(np.array([2, 0, 3]))
    array([0, 2, 2, 5])
    """
    firsts = np.zeros(len(sizes) + 1, dtype=np.int64)
    np.cumsum(sizes, out=firsts[1:])
    return firsts


def ranges(firsts: Int64Array, sizes: Int64Array) -> Int64Array:
    """The numbers firsts[i], firsts[i] + 1, … of every group i, one group after the other.

    >>> ranges(np.array([5, 0]), np.array([2, 3]))
    array([5, 6, 0, 1, 2])
    """
    shifts = np.asarray(firsts, dtype=np.int64) - starts_of(sizes)[:-1]
    return np.repeat(shifts, sizes) + np.arange(int(np.sum(sizes)), dtype=np.int64)


def concatenated(graphs: Iterable[Hypergraph]) -> Hypergraph:
    """Several graphs as one, end to end; all of them are goal graphs or none is."""
    parts = list(graphs)
    if len(parts) == 1:
        return parts[0]
    first_nodes = starts_of(np.array([part.nodes for part in parts], dtype=np.int64))
    first_hyperedges = starts_of(np.array([part.hyperedges for part in parts], dtype=np.int64))
    width = max((part.children.shape[1] for part in parts), default=0)
    children = np.full((int(first_hyperedges[-1]), width), NO_CHILD, dtype=np.int32)
    for part, node, hyperedge in zip(parts, first_nodes, first_hyperedges, strict=False):
        block = children[hyperedge : hyperedge + part.hyperedges, : part.children.shape[1]]
        block[:] = np.where(part.children == NO_CHILD, NO_CHILD, part.children + np.int32(node))

    def moved(tables: Iterable[Int64Array], shifts: Int64Array) -> Int64Array:
        """Each table of group starts but the last ends where the next one begins."""
        each = [table[:-1] + shift for table, shift in zip(tables, shifts, strict=False)]
        return np.concatenate([*each, shifts[-1:]])

    def stacked(name: str) -> Int32Array:
        return np.concatenate([np.empty(0, dtype=np.int32), *(getattr(part, name) for part in parts)])

    are_goals = any(part.target_starts is not None for part in parts)
    return Hypergraph(
        first_node=moved((part.first_node for part in parts), first_nodes),
        starts=stacked("starts"),
        ends=stacked("ends"),
        first_hyperedge=moved((part.first_hyperedge for part in parts), first_hyperedges),
        rules=stacked("rules"),
        children=children,
        target_starts=stacked("target_starts") if are_goals else None,
        target_lengths=stacked("target_lengths") if are_goals else None,
        types=stacked("types") if any(part.types is not None for part in parts) else None,
    )
