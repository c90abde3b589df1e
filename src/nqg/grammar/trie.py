"""Sequences of integer labels that share their prefixes, as arrays for the chart kernels.

Both charts walk one of these: the source sides of a `Grammar`, and the productions of a `TargetGrammar`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nqg.grammar.compiled import inlined, kernel

Integers = NDArray[np.int32]
Longs = NDArray[np.int64]
ROOT = 0
NOWHERE = -1
_LABEL_SHIFT = 1 << 31  # labels may be negative
_SCRAMBLE = 0x9E3779B97F4A7C1  # odd: multiplying by it spreads keys over the hash table


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
        sequences = list(sequences)
        labels = np.fromiter(chain.from_iterable(sequences), dtype=np.int32)
        return cls.of_labels(firsts_of(sequences), labels)

    @classmethod
    def of_labels(cls, firsts: Integers, labels: Integers) -> Trie:
        """The trie of sequences that lie end to end: the i-th one is labels[firsts[i]:firsts[i + 1]]."""
        keys, ends = _edges(firsts, labels)
        nodes, order = len(keys) + 1, np.argsort(keys).astype(np.int32)
        return cls(
            TrieArrays(
                first_edge=_starts(keys >> 32, nodes),
                labels=_key_labels(keys[order]),
                successors=order + np.int32(1),
                first_item=_starts(ends, nodes),
                items=np.argsort(ends, kind="stable").astype(np.int32),
            )
        )

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


def firsts_of(sequences: Sequence[Sequence[object]]) -> Integers:
    """Where each sequence begins when they lie end to end, and where the last one ends.

    >>> firsts_of(["ab", "", "c"])
    array([0, 2, 2, 3], dtype=int32)
    """
    firsts = np.zeros(len(sequences) + 1, dtype=np.int32)
    np.cumsum(np.fromiter(map(len, sequences), dtype=np.int32, count=len(sequences)), out=firsts[1:])
    return firsts


def _key_labels(keys: Longs) -> Integers:
    return ((keys & 0xFFFFFFFF) - _LABEL_SHIFT).astype(np.int32)


@kernel
def _edges(firsts: Integers, labels: Integers) -> tuple[Longs, Integers]:
    """The edges in the order in which they are first needed, edge e leading to node e + 1, and each sequence's node.

    An edge is one integer: its node in the upper and its label in the lower half, so that sorting puts the edges of a
    node side by side in the order of their labels.
    """
    size = 8
    while size < 2 * len(labels):
        size *= 2
    table = np.full(size, NOWHERE, dtype=np.int32)  # a hash table of edges, probed one by one
    keys = np.empty(len(labels), dtype=np.int64)
    ends = np.empty(len(firsts) - 1, dtype=np.int32)
    count = 0
    for sequence in range(len(ends)):
        node = ROOT
        for label in labels[firsts[sequence] : firsts[sequence + 1]]:
            key = (np.int64(node) << 32) + np.int64(label) + _LABEL_SHIFT
            slot = (key * _SCRAMBLE >> 20) & (size - 1)
            while table[slot] != NOWHERE and keys[table[slot]] != key:
                slot = (slot + 1) & (size - 1)
            if table[slot] == NOWHERE:
                table[slot] = count
                keys[count] = key
                count += 1
            node = table[slot] + 1
        ends[sequence] = node
    return keys[:count].copy(), ends


def _starts(owners: Integers | Longs, count: int) -> Integers:
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
