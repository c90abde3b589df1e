"""Whether a target is legal, how far, and what may come next: a left-to-right chart after Earley (1970).

Productions lie in one trie, each as its left side followed by its right side, so that productions of a category share
their prefixes. An *item* (node, origin) says: the symbols on the way to `node` derive the tokens from `origin` up to
here. A category that is complete over such a span is an item too, under a node number past the trie's; so it is
processed once, however many derivations it has, and cycles of unary productions end by themselves. The *column* of a
position holds its items; of earlier columns only those items are kept that wait for a category.

No production is empty and every category derives something (`TargetGrammar` sees to both). Therefore a completed span
reaches back to a finished column, and a position is legal exactly when its column is not empty.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nqg.grammar.compiled import inlined, kernel
from nqg.grammar.trie import NOWHERE, Integers, TrieArrays, successor

# Labels of edges: terminals count up from 0, categories down from FIRST_CATEGORY.
ONE_TOKEN = -1
TOKENS = -2
FIRST_CATEGORY = -3
NONE = -1


class Tables(NamedTuple):
    """A target grammar as kernels see it."""

    trie: TrieArrays
    entries: Integers  # category -> its node below the root
    completes: Integers  # node -> the category that is complete there, or NONE
    absorbs: NDArray[np.bool_]  # node -> whether <...> leads into it, which takes further tokens


class Column(NamedTuple):
    """The items of one position in order of discovery, found again by hashing (open addressing)."""

    nodes: Integers
    origins: Integers
    slots: Integers  # hash -> item, or NONE; twice as long as the others
    size: int


class Waiting(NamedTuple):
    """Items that go on, at `nodes`, once a category is complete; chained by the position and category waited for."""

    nodes: Integers
    origins: Integers
    next: Integers
    heads: Integers  # (position, category) -> the latest of its chain, or NONE
    size: int


class Chart(NamedTuple):
    """All that is known after reading `position` tokens."""

    position: int
    column: Column
    waiting: Waiting


@kernel
def empty_chart(tables: Tables) -> Chart:
    """The chart before the first token; category 0 is the start symbol."""
    heads = np.full((1, len(tables.entries)), NONE, dtype=np.int32)
    room = np.empty(16, dtype=np.int32)
    column = _with_item(_empty_column(16), tables.entries[0], 0)
    return _closed(tables, Chart(0, column, Waiting(room, room.copy(), room.copy(), heads, 0)))


@kernel
def read(tables: Tables, chart: Chart, tokens: Integers) -> Chart:
    """The chart after the longest legal part of `tokens`; the given chart is left as it was."""
    chart = Chart(chart.position, chart.column, _copied(chart.waiting, chart.position + len(tokens) + 1))
    for token in tokens:
        column = _scanned(tables, chart.column, token)
        if column.size == 0:
            break
        chart = _closed(tables, Chart(chart.position + 1, column, chart.waiting))
    return chart


@kernel
def _copied(waiting: Waiting, positions: int) -> Waiting:
    """A copy that may be added to, with `heads` for so many positions."""
    heads = np.full((positions, waiting.heads.shape[1]), NONE, dtype=np.int32)
    kept = min(positions, len(waiting.heads))  # heads past the last legal token are empty
    heads[:kept] = waiting.heads[:kept]
    return Waiting(waiting.nodes.copy(), waiting.origins.copy(), waiting.next.copy(), heads, waiting.size)


@kernel
def _scanned(tables: Tables, column: Column, token: int) -> Column:
    """The items of `column` that go on with `token`, moved past it."""
    moved = _empty_column(len(column.nodes))
    for item in range(column.size):
        node, origin = column.nodes[item], column.origins[item]
        if node >= len(tables.completes):
            continue
        moved = _moved(tables, moved, node, origin, token)
        moved = _moved(tables, moved, node, origin, ONE_TOKEN)
        moved = _moved(tables, moved, node, origin, TOKENS)
        if tables.absorbs[node]:
            moved = _with_item(moved, node, origin)
    return moved


@inlined
def _moved(tables: Tables, column: Column, node: int, origin: int, label: int) -> Column:
    """`column` with the item past the edge `label`, where there is one."""
    target = successor(tables.trie, node, label)
    return column if target == NOWHERE else _with_item(column, target, origin)


@kernel
def _closed(tables: Tables, chart: Chart) -> Chart:
    """The chart with all that follows from its column's items: completed categories, and the starts of new ones."""
    position, column, waiting = chart
    item = 0
    while item < column.size:
        node, origin = column.nodes[item], column.origins[item]
        if node >= len(tables.completes):
            column = _resumed(column, waiting, origin, node - len(tables.completes))
        else:
            if tables.completes[node] != NONE:
                column = _with_item(column, len(tables.completes) + tables.completes[node], origin)
            column, waiting = _predicted(tables, position, column, waiting, node, origin)
        item += 1
    return Chart(position, column, waiting)


@inlined
def _resumed(column: Column, waiting: Waiting, origin: int, category: int) -> Column:
    """`column` with the items that waited for a category that is now complete."""
    entry = waiting.heads[origin, category]
    while entry != NONE:
        column = _with_item(column, waiting.nodes[entry], waiting.origins[entry])
        entry = waiting.next[entry]
    return column


@inlined
def _predicted(
    tables: Tables, position: int, column: Column, waiting: Waiting, node: int, origin: int
) -> tuple[Column, Waiting]:
    """Each category that may follow the item starts here, and the item waits for it."""
    for edge in range(tables.trie.first_edge[node], tables.trie.first_edge[node + 1]):
        category = FIRST_CATEGORY - tables.trie.labels[edge]
        if category < 0:
            break  # edges are sorted by label, so the categories come first
        column = _with_item(column, tables.entries[category], position)
        waiting = _with_waiting(waiting, tables.trie.successors[edge], origin, position, category)
    return column, waiting


@inlined
def _with_waiting(waiting: Waiting, node: int, origin: int, position: int, category: int) -> Waiting:
    nodes, origins, following, heads, size = waiting
    if size == len(nodes):
        nodes, origins, following = _doubled(nodes), _doubled(origins), _doubled(following)
    nodes[size], origins[size], following[size] = node, origin, heads[position, category]
    heads[position, category] = size
    return Waiting(nodes, origins, following, heads, size + 1)


@kernel
def _empty_column(room: int) -> Column:
    slots = np.full(2 * room, NONE, dtype=np.int32)
    return Column(np.empty(room, dtype=np.int32), np.empty(room, dtype=np.int32), slots, 0)


@inlined
def _with_item(column: Column, node: int, origin: int) -> Column:
    slot = _slot(column, node, origin)
    if column.slots[slot] != NONE:
        return column
    if column.size == len(column.nodes):
        column = _with_room(column)
        slot = _slot(column, node, origin)
    column.nodes[column.size], column.origins[column.size] = node, origin
    column.slots[slot] = column.size
    return Column(column.nodes, column.origins, column.slots, column.size + 1)


@inlined
def _slot(column: Column, node: int, origin: int) -> int:
    """Where the item is, or belongs; at least half of the slots are free, and their number is a power of two."""
    mask = len(column.slots) - 1
    slot = (node * 2654435761 + origin * 2246822519) & mask
    while True:
        item = column.slots[slot]
        if item == NONE or (column.nodes[item] == node and column.origins[item] == origin):
            return slot
        slot = (slot + 1) & mask


@kernel
def _with_room(column: Column) -> Column:
    larger = Column(
        _doubled(column.nodes),
        _doubled(column.origins),
        np.full(2 * len(column.slots), NONE, dtype=np.int32),
        column.size,
    )
    for item in range(column.size):
        larger.slots[_slot(larger, column.nodes[item], column.origins[item])] = item
    return larger


@kernel
def _doubled(array: Integers) -> Integers:
    larger = np.empty(2 * len(array), dtype=np.int32)
    larger[: len(array)] = array
    return larger


@kernel
def is_complete(tables: Tables, chart: Chart) -> bool:
    """Whether the start symbol derives exactly the tokens read."""
    start = len(tables.completes)
    column = chart.column
    return bool(column.slots[_slot(column, start, 0)] != NONE)


@kernel
def legal_labels(tables: Tables, column: Column, terminals: int) -> NDArray[np.bool_]:
    """For each terminal whether it may follow by name, and in the last place whether any token may."""
    legal = np.zeros(terminals + 1, dtype=np.bool_)
    for item in range(column.size):
        node = column.nodes[item]
        if node >= len(tables.completes):
            continue
        legal[terminals] |= tables.absorbs[node]
        for edge in range(tables.trie.first_edge[node], tables.trie.first_edge[node + 1]):
            label = tables.trie.labels[edge]
            if label > FIRST_CATEGORY:
                legal[label if label >= 0 else terminals] = True
    return legal
