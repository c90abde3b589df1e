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

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nqg.grammar.compiled import kernel
from nqg.grammar.target_grammar import Category, TargetGrammar, TargetSymbol, Wildcard
from nqg.grammar.trie import NOWHERE, Integers, Trie, TrieArrays, successor

# Labels of edges: terminals count up from 0, categories down from _FIRST_CATEGORY.
_ONE_TOKEN = -1
_TOKENS = -2
_FIRST_CATEGORY = -3
_NONE = -1
_SHOWN_TOKENS = 8


class _Tables(NamedTuple):
    """A target grammar as kernels see it."""

    trie: TrieArrays
    entries: Integers  # category -> its node below the root
    completes: Integers  # node -> the category that is complete there, or _NONE
    absorbs: Integers  # node -> 1 where the edge into it was <...>, which takes any number of further tokens


class _Column(NamedTuple):
    """The items of one position in order of discovery, found again by hashing (open addressing)."""

    nodes: Integers
    origins: Integers
    slots: Integers  # hash -> item, or _NONE; twice as long as the others
    size: int


class _Waiting(NamedTuple):
    """Items that go on, at `nodes`, once a category is complete; chained by the position and category waited for."""

    nodes: Integers
    origins: Integers
    next: Integers
    heads: Integers  # (position, category) -> the latest of its chain, or _NONE
    size: int


class _Chart(NamedTuple):
    """All that is known after reading `position` tokens."""

    position: int
    column: _Column
    waiting: _Waiting


@dataclass(frozen=True, slots=True)
class Expected:
    """What may follow a prefix: one of `tokens`, any token at all, the end of the target.

    >>> print(Expected((")", ","), any_token=False, end=False))
    ')' or ','
    """

    tokens: tuple[str, ...]
    any_token: bool
    end: bool

    def allows(self, token: str) -> bool:
        """Whether `token` may come next."""
        return self.any_token or token in self.tokens

    def __str__(self) -> str:
        named = ["any token"] if self.any_token else [f"'{token}'" for token in self.tokens]
        hidden = len(named) - _SHOWN_TOKENS
        choices = [*named[:_SHOWN_TOKENS], *(["the end"] if self.end else [])]
        if hidden > 0:
            choices.append(f"{hidden} more")
        return " or ".join(part for part in (", ".join(choices[:-1]), choices[-1]) if part)


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether `tokens` are legal, how many of them from the left are, and what may follow those."""

    tokens: tuple[str, ...]
    legal_tokens: int
    expected: Expected

    @property
    def accepted(self) -> bool:
        """Whether the whole target is legal."""
        return self.legal_tokens == len(self.tokens) and self.expected.end

    def __str__(self) -> str:
        if self.accepted:
            return "legal"
        if self.legal_tokens == len(self.tokens):
            return f"legal so far, but it ends too early: expected {self.expected}"
        found = self.tokens[self.legal_tokens]
        if self.legal_tokens == 0:
            return f"illegal from the first token: expected {self.expected}, found '{found}'"
        last = self.tokens[self.legal_tokens - 1]
        return f"legal up to token {self.legal_tokens} '{last}', expected {self.expected}, found '{found}'"


@dataclass(frozen=True, slots=True)
class Prefix:
    """The start of a legal target, for decoders that go from token to token; never changes, so beams may share it."""

    recogniser: Recogniser
    chart: _Chart

    def then(self, token: str) -> Prefix | None:
        """This prefix and one more token; None where no legal target goes on so."""
        return self.recogniser.extended(self, [token])

    @property
    def length(self) -> int:
        """How many tokens have been read."""
        return self.chart.position

    @property
    def expected(self) -> Expected:
        """What may come next."""
        return self.recogniser.expected_after(self.chart)

    @property
    def may_end(self) -> bool:
        """Whether the prefix is a whole legal target."""
        return bool(_is_complete(self.recogniser.tables, self.chart))


@dataclass(frozen=True, slots=True)
class Recogniser:
    """A target grammar made ready for the chart; use it through `TargetGrammar`."""

    terminals: tuple[str, ...]  # sorted; a terminal's label is its position
    labels: dict[str, int]
    tables: _Tables
    begin: _Chart

    @classmethod
    def of(cls, grammar: TargetGrammar) -> Recogniser:
        """The recogniser of `grammar`."""
        symbols = (symbol for production in grammar.productions for symbol in production.right)
        terminals = tuple(sorted({symbol for symbol in symbols if isinstance(symbol, str)}))
        labels = {terminal: label for label, terminal in enumerate(terminals)}
        tables = _tables(grammar, labels)
        return cls(terminals, labels, tables, _begin(tables))

    def accepts(self, tokens: Sequence[str]) -> bool:
        """Whether `tokens` are a legal target."""
        chart = self._read(self.begin, tokens)
        return chart.position == len(tokens) and bool(_is_complete(self.tables, chart))

    def explain(self, tokens: Sequence[str]) -> Verdict:
        """How far `tokens` are legal, and what may follow there."""
        chart = self._read(self.begin, tokens)
        return Verdict(tuple(tokens), chart.position, self.expected_after(chart))

    def prefix(self, tokens: Sequence[str]) -> Prefix | None:
        """The prefix `tokens`; None where no legal target starts with them."""
        return self.extended(Prefix(self, self.begin), tokens)

    def extended(self, prefix: Prefix, tokens: Sequence[str]) -> Prefix | None:
        """`prefix` with more tokens; None where no legal target starts so."""
        chart = self._read(prefix.chart, tokens)
        return Prefix(self, chart) if chart.position == prefix.length + len(tokens) else None

    def expected_after(self, chart: _Chart) -> Expected:
        """What may follow the tokens that `chart` has read."""
        legal = _legal_labels(self.tables, chart.column, len(self.terminals))
        return Expected(
            tokens=tuple(self.terminals[label] for label in np.flatnonzero(legal[:-1])),
            any_token=bool(legal[-1]),
            end=bool(_is_complete(self.tables, chart)),
        )

    def _read(self, chart: _Chart, tokens: Sequence[str]) -> _Chart:
        unknown = len(self.terminals)  # no edge bears this label, so only wildcards match
        return _read(
            self.tables, chart, np.array([self.labels.get(token, unknown) for token in tokens], dtype=np.int32)
        )


def _tables(grammar: TargetGrammar, labels: dict[str, int]) -> _Tables:
    numbers = {category: number for number, category in enumerate(grammar.categories)}

    def label(symbol: TargetSymbol) -> int:
        if isinstance(symbol, Category):
            return _FIRST_CATEGORY - numbers[symbol]
        if isinstance(symbol, Wildcard):
            return _ONE_TOKEN if symbol is Wildcard.ONE_TOKEN else _TOKENS
        return labels[symbol]

    sequences = [[label(each.left), *map(label, each.right)] for each in grammar.productions]
    trie = Trie.of(sequences)
    completes = np.full(len(trie), _NONE, dtype=np.int32)
    for production, sequence in zip(grammar.productions, sequences, strict=True):
        completes[trie.node(sequence)] = numbers[production.left]
    absorbs = np.zeros(len(trie), dtype=np.int32)
    absorbs[trie.arrays.successors[trie.arrays.labels == _TOKENS]] = 1
    entries = np.array([trie.node([label(category)]) for category in grammar.categories], dtype=np.int32)
    return _Tables(trie.arrays, entries, completes, absorbs)


@kernel
def _begin(tables: _Tables) -> _Chart:
    """The chart before the first token; category 0 is the start symbol."""
    heads = np.full((1, len(tables.entries)), _NONE, dtype=np.int32)
    room = np.empty(16, dtype=np.int32)
    column = _with_item(_empty_column(16), tables.entries[0], 0)
    return _closed(tables, _Chart(0, column, _Waiting(room, room.copy(), room.copy(), heads, 0)))


@kernel
def _read(tables: _Tables, chart: _Chart, tokens: Integers) -> _Chart:
    """The chart after the longest legal part of `tokens`; the given chart is left as it was."""
    chart = _Chart(chart.position, chart.column, _copied(chart.waiting, chart.position + len(tokens) + 1))
    for token in tokens:
        column = _scanned(tables, chart.column, token)
        if column.size == 0:
            break
        chart = _closed(tables, _Chart(chart.position + 1, column, chart.waiting))
    return chart


@kernel
def _copied(waiting: _Waiting, positions: int) -> _Waiting:
    """A copy that may be added to, with `heads` for so many positions."""
    heads = np.full((positions, waiting.heads.shape[1]), _NONE, dtype=np.int32)
    kept = min(positions, len(waiting.heads))  # heads past the last legal token are empty
    heads[:kept] = waiting.heads[:kept]
    return _Waiting(waiting.nodes.copy(), waiting.origins.copy(), waiting.next.copy(), heads, waiting.size)


@kernel
def _scanned(tables: _Tables, column: _Column, token: int) -> _Column:
    """The items of `column` that go on with `token`, moved past it."""
    moved = _empty_column(len(column.nodes))
    for item in range(column.size):
        node, origin = column.nodes[item], column.origins[item]
        if node >= len(tables.completes):
            continue
        moved = _moved(tables, moved, node, origin, token)
        moved = _moved(tables, moved, node, origin, _ONE_TOKEN)
        moved = _moved(tables, moved, node, origin, _TOKENS)
        if tables.absorbs[node]:
            moved = _with_item(moved, node, origin)
    return moved


@kernel
def _moved(tables: _Tables, column: _Column, node: int, origin: int, label: int) -> _Column:
    """`column` with the item past the edge `label`, where there is one."""
    target = successor(tables.trie, node, label)
    return column if target == NOWHERE else _with_item(column, target, origin)


@kernel
def _closed(tables: _Tables, chart: _Chart) -> _Chart:
    """The chart with all that follows from its column's items: completed categories, and the starts of new ones."""
    position, column, waiting = chart
    item = 0
    while item < column.size:
        node, origin = column.nodes[item], column.origins[item]
        if node >= len(tables.completes):
            column = _resumed(column, waiting, origin, node - len(tables.completes))
        else:
            if tables.completes[node] != _NONE:
                column = _with_item(column, len(tables.completes) + tables.completes[node], origin)
            column, waiting = _predicted(tables, position, column, waiting, node, origin)
        item += 1
    return _Chart(position, column, waiting)


@kernel
def _resumed(column: _Column, waiting: _Waiting, origin: int, category: int) -> _Column:
    """`column` with the items that waited for a category that is now complete."""
    entry = waiting.heads[origin, category]
    while entry != _NONE:
        column = _with_item(column, waiting.nodes[entry], waiting.origins[entry])
        entry = waiting.next[entry]
    return column


@kernel
def _predicted(
    tables: _Tables, position: int, column: _Column, waiting: _Waiting, node: int, origin: int
) -> tuple[_Column, _Waiting]:
    """The item waits for each category that may follow it; a category nobody waited for here starts here."""
    for edge in range(tables.trie.first_edge[node], tables.trie.first_edge[node + 1]):
        category = _FIRST_CATEGORY - tables.trie.labels[edge]
        if category < 0:
            break  # edges are sorted by label, so the categories come first
        if waiting.heads[position, category] == _NONE:
            column = _with_item(column, tables.entries[category], position)
        waiting = _with_waiting(waiting, tables.trie.successors[edge], origin, position, category)
    return column, waiting


@kernel
def _with_waiting(waiting: _Waiting, node: int, origin: int, position: int, category: int) -> _Waiting:
    nodes, origins, following, heads, size = waiting
    if size == len(nodes):
        nodes, origins, following = _doubled(nodes), _doubled(origins), _doubled(following)
    nodes[size], origins[size], following[size] = node, origin, heads[position, category]
    heads[position, category] = size
    return _Waiting(nodes, origins, following, heads, size + 1)


@kernel
def _empty_column(room: int) -> _Column:
    slots = np.full(2 * room, _NONE, dtype=np.int32)
    return _Column(np.empty(room, dtype=np.int32), np.empty(room, dtype=np.int32), slots, 0)


@kernel
def _with_item(column: _Column, node: int, origin: int) -> _Column:
    slot = _slot(column, node, origin)
    if column.slots[slot] != _NONE:
        return column
    if column.size == len(column.nodes):
        column = _with_room(column)
        slot = _slot(column, node, origin)
    column.nodes[column.size], column.origins[column.size] = node, origin
    column.slots[slot] = column.size
    return _Column(column.nodes, column.origins, column.slots, column.size + 1)


@kernel
def _slot(column: _Column, node: int, origin: int) -> int:
    """Where the item is, or belongs; at least half of the slots are free, and their number is a power of two."""
    mask = len(column.slots) - 1
    slot = (node * 2654435761 + origin * 2246822519) & mask
    while True:
        item = column.slots[slot]
        if item == _NONE or (column.nodes[item] == node and column.origins[item] == origin):
            return slot
        slot = (slot + 1) & mask


@kernel
def _with_room(column: _Column) -> _Column:
    larger = _Column(
        _doubled(column.nodes),
        _doubled(column.origins),
        np.full(2 * len(column.slots), _NONE, dtype=np.int32),
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
def _is_complete(tables: _Tables, chart: _Chart) -> bool:
    """Whether the start symbol derives exactly the tokens read."""
    start = len(tables.completes)
    column = chart.column
    return bool(column.slots[_slot(column, start, 0)] != _NONE)


@kernel
def _legal_labels(tables: _Tables, column: _Column, terminals: int) -> NDArray[np.bool_]:
    """For each terminal whether it may follow by name, and in the last place whether any token may."""
    legal = np.zeros(terminals + 1, dtype=np.bool_)
    for item in range(column.size):
        node = column.nodes[item]
        if node >= len(tables.completes):
            continue
        legal[terminals] |= tables.absorbs[node] == 1
        for edge in range(tables.trie.first_edge[node], tables.trie.first_edge[node + 1]):
            label = tables.trie.labels[edge]
            if label > _FIRST_CATEGORY:
                legal[label if label >= 0 else terminals] = True
    return legal
