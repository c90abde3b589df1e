"""The hypergraph: a node is derived by any of its hyperedges, a hyperedge by its rule and all nodes under it.

One type serves the chart of a sentence, its full forest and its goal forest, alone or many laid end to end.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, NewType

import numpy as np

from nqg.grammar.arrays import Int32Array, Int64Array
from nqg.grammar.ragged import gather_ranges, offsets_from_lengths

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


class Hypergraph(NamedTuple):
    """The hypergraphs of B sentences end to end: N nodes, A hyperedges, at most K children each.

    Nodes are in topological order, children first, so that the last node of a sentence is its root where the graph
    is rooted. Children are numbers of nodes in this same graph. A node stands for a span; in goal graphs for a span
    and a substring of the target, in typed graphs for a span and a type, so that several nodes may share a span.

    A named tuple, because that is what kernels can take apart; `len` is therefore not the number of sentences.
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
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self)

    def span(self, node: NodeId) -> Span:
        return Span(int(self.starts[node]), int(self.ends[node]))

    def node_ids(self) -> Iterator[NodeId]:
        """All nodes, children before parents."""
        return map(NodeId, range(self.nodes))

    def hyperedges_of(self, node: NodeId) -> Iterator[HyperedgeId]:
        """The hyperedges into `node`, one for each way to derive it."""
        return map(
            HyperedgeId, range(int(self.first_hyperedge[node]), int(self.first_hyperedge[node + 1]))
        )

    def children_of(self, hyperedge: HyperedgeId) -> tuple[NodeId, ...]:
        """The nodes under `hyperedge`, left to right in the source."""
        return tuple(NodeId(int(child)) for child in self.children[hyperedge] if child != NO_CHILD)

    def roots(self) -> Int64Array:
        """For every sentence the node that covers it all, or NO_ROOT where it has no derivation: (B,)."""
        return np.where(
            self.first_node[1:] == self.first_node[:-1], NO_ROOT, self.first_node[1:] - 1
        )

    def owners(self) -> Int32Array:
        """For every hyperedge the node that it belongs to: (A,)."""
        return np.repeat(np.arange(self.nodes, dtype=np.int32), np.diff(self.first_hyperedge))

    def select(self, sentences: Sequence[int]) -> Hypergraph:
        """The graphs of some sentences, in the order asked for; a sentence may be asked for twice."""
        chosen = np.asarray(sentences, dtype=np.int64)
        old_first = self.first_node[chosen]
        sizes = self.first_node[chosen + 1] - old_first
        rows = gather_ranges(old_first, sizes)
        first_rows = self.first_hyperedge[rows]
        hyperedge_sizes = self.first_hyperedge[rows + 1] - first_rows
        hyperedge_rows = gather_ranges(first_rows, hyperedge_sizes)
        first_node = offsets_from_lengths(sizes)
        shifts = np.repeat(np.repeat(first_node[:-1] - old_first, sizes), hyperedge_sizes).astype(
            np.int32
        )
        children = self.children[hyperedge_rows]
        return Hypergraph(
            first_node=first_node,
            starts=self.starts[rows],
            ends=self.ends[rows],
            first_hyperedge=offsets_from_lengths(hyperedge_sizes),
            rules=self.rules[hyperedge_rows],
            children=np.where(children == NO_CHILD, NO_CHILD, children + shifts[:, None]),
        )

    @classmethod
    def with_capacity(cls, sentences: int, capacity: int, max_arity: int) -> Hypergraph:
        """Room for so many sentences, and for as many nodes and hyperedges each; no graph is there yet."""
        first_node, first_hyperedge = (
            np.empty(sentences + 1, dtype=np.int64),
            np.empty(capacity + 1, dtype=np.int64),
        )
        first_node[0] = first_hyperedge[0] = 0
        starts, ends, rules = np.empty((3, capacity), dtype=np.int32)
        return cls(
            first_node,
            starts,
            ends,
            first_hyperedge,
            rules,
            np.empty((capacity, max_arity), dtype=np.int32),
        )

    def truncate(self, sentences: int, nodes: int, hyperedges: int) -> Hypergraph:
        """A copy of the first ones."""
        return Hypergraph(
            first_node=self.first_node[: sentences + 1].copy(),
            starts=self.starts[:nodes].copy(),
            ends=self.ends[:nodes].copy(),
            first_hyperedge=self.first_hyperedge[: nodes + 1].copy(),
            rules=self.rules[:hyperedges].copy(),
            children=self.children[:hyperedges].copy(),
        )


def concatenate(graphs: Iterable[Hypergraph]) -> Hypergraph:
    """Several graphs as one, end to end."""
    parts = list(graphs)
    if len(parts) == 1:
        return parts[0]
    first_nodes = offsets_from_lengths([part.nodes for part in parts])
    first_hyperedges = offsets_from_lengths([part.hyperedges for part in parts])
    width = max((part.children.shape[1] for part in parts), default=0)
    children = np.full((int(first_hyperedges[-1]), width), NO_CHILD, dtype=np.int32)
    for part, node, hyperedge in zip(parts, first_nodes, first_hyperedges, strict=False):
        block = children[hyperedge : hyperedge + part.hyperedges, : part.children.shape[1]]
        block[:] = np.where(part.children == NO_CHILD, NO_CHILD, part.children + np.int32(node))

    def joined_offsets(offsets: Sequence[Int64Array], shifts: Int64Array) -> Int64Array:
        """Each part's offsets but the last, which is where the next part begins."""
        raised = [part[:-1] + shift for part, shift in zip(offsets, shifts, strict=False)]
        return np.concatenate([*raised, shifts[-1:]])

    nothing = np.empty(0, dtype=np.int32)
    return Hypergraph(
        first_node=joined_offsets([part.first_node for part in parts], first_nodes),
        starts=np.concatenate([nothing, *(part.starts for part in parts)]),
        ends=np.concatenate([nothing, *(part.ends for part in parts)]),
        first_hyperedge=joined_offsets([part.first_hyperedge for part in parts], first_hyperedges),
        rules=np.concatenate([nothing, *(part.rules for part in parts)]),
        children=children,
    )
