"""Sequences of integer labels that share their prefixes, as arrays for the chart kernels.

Both charts walk one of these: the source sides of a `Grammar`, and the productions of a `TargetGrammar`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nqg.grammar.compiled import inlined

Integers = NDArray[np.int32]
ROOT = 0
NOWHERE = -1


class TrieArrays(NamedTuple):
    """The trie as kernels see it: edges of node s are rows first_edge[s]:first_edge[s+1], sorted by label."""

    first_edge: Integers
    labels: Integers
    successors: Integers
    first_item: Integers
    items: Integers


@dataclass(frozen=True, slots=True)
class Trie:
    """All sequences by prefix; `items` of a node are the numbers of the sequences that end there.

    >>> trie = Trie.of([[5, 7], [5, 7], [5]])
    >>> trie.node([5, 7]), trie.items_at(trie.node([5, 7])), trie.items_at(trie.node([5])), trie.node([7])
    (2, [0, 1], [2], -1)
    """

    arrays: TrieArrays

    @classmethod
    def of(cls, sequences: Iterable[Sequence[int]]) -> Trie:
        """The trie of `sequences`; the i-th one becomes item i of the node where it ends."""
        edges: dict[tuple[int, int], int] = {}
        ends: list[int] = []
        for sequence in sequences:
            node = ROOT
            for label in sequence:
                node = edges.setdefault((node, label), len(edges) + 1)
            ends.append(node)
        return cls(_arrays(edges, np.array(ends, dtype=np.int32)))

    def __len__(self) -> int:
        return len(self.arrays.first_item) - 1

    def node(self, sequence: Iterable[int]) -> int:
        """Where `sequence` leads from the root, or NOWHERE."""
        node = ROOT
        for label in sequence:
            node = successor(self.arrays, node, label) if node != NOWHERE else NOWHERE
        return node

    def items_at(self, node: int) -> list[int]:
        """The numbers of the sequences that end at `node`."""
        first = self.arrays.first_item
        return [int(item) for item in self.arrays.items[first[node] : first[node + 1]]]


def _arrays(edges: dict[tuple[int, int], int], ends: Integers) -> TrieArrays:
    nodes = len(edges) + 1
    keys = np.array(list(edges), dtype=np.int32).reshape(-1, 2)
    order = np.lexsort((keys[:, 1], keys[:, 0]))
    by_end = np.argsort(ends, kind="stable").astype(np.int32)
    return TrieArrays(
        first_edge=_starts(keys[:, 0], nodes),
        labels=np.ascontiguousarray(keys[order, 1]),
        successors=(order + 1).astype(np.int32),
        first_item=_starts(ends, nodes),
        items=by_end,
    )


def _starts(owners: Integers, count: int) -> Integers:
    """Where each owner's rows begin when rows are grouped by owner."""
    sizes = np.bincount(owners, minlength=count)
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)


@inlined
def successor(trie: TrieArrays, node: int, label: int) -> int:
    """Where the edge `label` leads from `node`, or NOWHERE."""
    low, high = trie.first_edge[node], trie.first_edge[node + 1]
    while low < high:
        middle = (low + high) // 2
        if trie.labels[middle] < label:
            low = middle + 1
        else:
            high = middle
    if low < trie.first_edge[node + 1] and trie.labels[low] == label:
        return int(trie.successors[low])
    return NOWHERE
