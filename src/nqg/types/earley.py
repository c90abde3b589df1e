"""Legal targets: accepted or not, how far a target is legal, and what may come next (a chart after Earley, 1970).

All productions lie in one trie, each as its left side followed by its right side. An item is a trie node and the
position where its production began; a completed category is an item too, at a node past the trie's last. The items of
a position are an Earley set. `TargetGrammar` is the way in.

Right recursion completes as many items at every token as there were tokens before. Where just one item waits for a
category and is complete with it, the chain of such items is passed over to its top (Leo, 1991), which makes the usual
grammars linear.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nqg.errors import FormatError
from nqg.grammar.arrays import Int32Array, inlined, kernel
from nqg.grammar.encoding import NOWHERE, TRIE_ROOT, TrieArrays, successor, trie_of
from nqg.grammar.ragged import Ragged
from nqg.types.target_grammar import Category, TargetGrammar, TargetSymbol, Wildcard

# Labels of edges: terminals count up from 0, wildcards down from -1 in the order of `Wildcard`, then categories.
WILDCARDS = tuple(Wildcard)
TOKENS = -1 - WILDCARDS.index(Wildcard.TOKENS)
FIRST_CATEGORY = -1 - len(WILDCARDS)
NO_ITEM = -1
UNKNOWN_TOKEN = (
    "unknown",
    "0",
    "'",
)  # kinds of tokens that no production names, one for each set of wildcards that match


class Tables(NamedTuple):
    """A target grammar as kernels see it."""

    trie: TrieArrays
    entries: Int32Array  # category -> its node below the root
    completes: Int32Array  # node -> the category that is complete there, or NONE
    absorbs: NDArray[np.bool_]  # node -> whether <...> leads into it, which takes further tokens
    matches: NDArray[
        np.bool_
    ]  # (label of a token, wildcard) -> whether the wildcard takes the token


class EarleySet(NamedTuple):
    """The items of one position in order of discovery, found again by hashing (open addressing)."""

    trie_nodes: Int32Array
    origins: Int32Array
    buckets: Int32Array  # hash -> item, or NONE; twice as long as the others
    size: int


class Waiting(NamedTuple):
    """Items that go on at `trie_nodes` once a category is complete, chained by the position and category waited for."""

    trie_nodes: Int32Array
    origins: Int32Array
    next: Int32Array
    heads: Int32Array  # (position, category) -> the latest of its chain, or NONE
    tops: Int32Array  # (position, category) -> the only one that its completion leads to in the end, or NONE
    size: int


class Chart(NamedTuple):
    """All that is known after reading `position` tokens."""

    position: int
    column: EarleySet
    waiting: Waiting


@kernel
def empty_chart(tables: Tables) -> Chart:
    """The chart before the first token; category 0 is the start symbol."""
    heads = np.full((1, len(tables.entries)), NO_ITEM, dtype=np.int32)
    room = np.empty(16, dtype=np.int32)
    column = _with_item(_empty_column(16), tables.entries[0], 0)
    return _closed(
        tables, Chart(0, column, Waiting(room, room.copy(), room.copy(), heads, heads.copy(), 0))
    )


@kernel
def read(tables: Tables, chart: Chart, tokens: Int32Array) -> Chart:
    """The chart after the longest legal part of `tokens`; the given chart is left as it was."""
    waiting = chart.waiting
    heads = np.full(
        (chart.position + len(tokens) + 1, waiting.heads.shape[1]), NO_ITEM, dtype=np.int32
    )
    tops = heads.copy()
    kept = min(len(heads), len(waiting.heads))  # heads past the last legal token are empty
    heads[:kept], tops[:kept] = waiting.heads[:kept], waiting.tops[:kept]
    copied = Waiting(
        waiting.trie_nodes.copy(),
        waiting.origins.copy(),
        waiting.next.copy(),
        heads,
        tops,
        waiting.size,
    )
    chart = Chart(chart.position, chart.column, copied)
    for token in tokens:
        column = _scanned(tables, chart.column, token)
        if column.size == 0:
            break
        chart = _closed(tables, Chart(chart.position + 1, column, chart.waiting))
    return chart


@kernel
def _scanned(tables: Tables, column: EarleySet, token: int) -> EarleySet:
    """The items of `column` that go on with `token`, moved past it."""
    moved = _empty_column(len(column.trie_nodes))
    for item in range(column.size):
        trie_node, origin = column.trie_nodes[item], column.origins[item]
        if trie_node >= len(tables.completes):
            continue
        moved = _moved(tables, moved, trie_node, origin, token)
        for wildcard in range(tables.matches.shape[1]):
            if tables.matches[token, wildcard]:
                moved = _moved(tables, moved, trie_node, origin, -1 - wildcard)
        if tables.absorbs[trie_node]:
            moved = _with_item(moved, trie_node, origin)
    return moved


@inlined
def _moved(tables: Tables, column: EarleySet, trie_node: int, origin: int, label: int) -> EarleySet:
    """`column` with the item past the edge `label`, where there is one."""
    target = successor(tables.trie, trie_node, label)
    return column if target == NOWHERE else _with_item(column, target, origin)


@kernel
def _closed(tables: Tables, chart: Chart) -> Chart:
    """The chart with all that follows from its column's items: completed categories, and the starts of new ones."""
    position, column, waiting = chart
    item = 0
    while item < column.size:
        trie_node, origin = column.trie_nodes[item], column.origins[item]
        item += 1
        if trie_node >= len(
            tables.completes
        ):  # a complete category, for which others waited at its origin
            category = trie_node - len(tables.completes)
            top = waiting.tops[origin, category]
            entry = waiting.heads[origin, category] if top == NO_ITEM else top
            while entry != NO_ITEM:
                column = _with_item(column, waiting.trie_nodes[entry], waiting.origins[entry])
                entry = waiting.next[entry] if top == NO_ITEM else NO_ITEM
            continue
        if tables.completes[trie_node] != NO_ITEM:
            column = _with_item(column, len(tables.completes) + tables.completes[trie_node], origin)
        for edge in range(tables.trie.first_edge[trie_node], tables.trie.first_edge[trie_node + 1]):
            category = FIRST_CATEGORY - tables.trie.labels[edge]
            if category < 0:
                break  # edges are sorted by label, so the categories come first
            column = _with_item(column, tables.entries[category], position)
            waiting = _with_waiting(
                waiting, tables.trie.successors[edge], origin, position, category
            )
    for category in range(waiting.tops.shape[1]):
        waiting.tops[position, category] = _top(tables, waiting, position, category)
    return Chart(position, column, waiting)


@kernel
def _top(tables: Tables, waiting: Waiting, position: int, category: int) -> int:
    """The last of the items that are complete one after the other with `category`, each the only one that waits.

    The start symbol's own item at position 0 ends the chain, because a target ends with it.
    """
    top = NO_ITEM
    for _ in range(waiting.heads.shape[1]):  # longer ones of one position lead round in a circle
        entry = waiting.heads[position, category]
        if entry == NO_ITEM or waiting.next[entry] != NO_ITEM:
            return top
        trie_node, origin = waiting.trie_nodes[entry], waiting.origins[entry]
        if tables.trie.first_edge[trie_node] != tables.trie.first_edge[trie_node + 1]:
            return top
        top, category = entry, tables.completes[trie_node]
        if category == 0 and origin == 0:
            return int(top)
        if origin < position:
            return int(
                top if waiting.tops[origin, category] == NO_ITEM else waiting.tops[origin, category]
            )
    return NO_ITEM


@inlined
def _with_waiting(
    waiting: Waiting, trie_node: int, origin: int, position: int, category: int
) -> Waiting:
    trie_nodes, origins, following, heads, tops, size = waiting
    if size == len(trie_nodes):
        trie_nodes, origins, following = (
            _doubled(trie_nodes),
            _doubled(origins),
            _doubled(following),
        )
    trie_nodes[size], origins[size], following[size] = trie_node, origin, heads[position, category]
    heads[position, category] = size
    return Waiting(trie_nodes, origins, following, heads, tops, size + 1)


@kernel
def _empty_column(room: int) -> EarleySet:
    buckets = np.full(2 * room, NO_ITEM, dtype=np.int32)
    return EarleySet(np.empty(room, dtype=np.int32), np.empty(room, dtype=np.int32), buckets, 0)


@inlined
def _with_item(column: EarleySet, trie_node: int, origin: int) -> EarleySet:
    bucket = _bucket(column, trie_node, origin)
    if column.buckets[bucket] != NO_ITEM:
        return column
    if column.size == len(column.trie_nodes):
        column = _with_room(column)
        bucket = _bucket(column, trie_node, origin)
    column.trie_nodes[column.size], column.origins[column.size] = trie_node, origin
    column.buckets[bucket] = column.size
    return EarleySet(column.trie_nodes, column.origins, column.buckets, column.size + 1)


@inlined
def _bucket(column: EarleySet, trie_node: int, origin: int) -> int:
    """Where the item is, or belongs; at least half of the buckets are free, and their number is a power of two."""
    mask = len(column.buckets) - 1
    bucket = (trie_node * 2654435761 + origin * 2246822519) & mask
    while True:
        item = column.buckets[bucket]
        if item == NO_ITEM or (
            column.trie_nodes[item] == trie_node and column.origins[item] == origin
        ):
            return bucket
        bucket = (bucket + 1) & mask


@kernel
def _with_room(column: EarleySet) -> EarleySet:
    larger = _empty_column(2 * len(column.trie_nodes))
    larger.trie_nodes[: column.size], larger.origins[: column.size] = (
        column.trie_nodes,
        column.origins,
    )
    for item in range(column.size):
        larger.buckets[_bucket(larger, column.trie_nodes[item], column.origins[item])] = item
    return EarleySet(larger.trie_nodes, larger.origins, larger.buckets, column.size)


@kernel
def _doubled(array: Int32Array) -> Int32Array:
    larger = np.empty(2 * len(array), dtype=np.int32)
    larger[: len(array)] = array
    return larger


@kernel
def is_complete(tables: Tables, chart: Chart) -> bool:
    """Whether the start symbol derives exactly the tokens read."""
    return bool(chart.column.buckets[_bucket(chart.column, len(tables.completes), 0)] != NO_ITEM)


@kernel
def legal_labels(tables: Tables, column: EarleySet, terminals: int) -> NDArray[np.bool_]:
    """Whether each terminal may follow by name and, from the last place backwards, whether each wildcard may."""
    legal = np.zeros(terminals - FIRST_CATEGORY - 1, dtype=np.bool_)
    for item in range(column.size):
        trie_node = column.trie_nodes[item]
        if trie_node >= len(tables.completes):
            continue
        legal[TOKENS] |= tables.absorbs[trie_node]
        for edge in range(tables.trie.first_edge[trie_node], tables.trie.first_edge[trie_node + 1]):
            label = tables.trie.labels[edge]
            if label > FIRST_CATEGORY:
                legal[label] = True
    return legal


_SHOWN_TOKENS = 8
_KINDS = {
    Wildcard.NUMBER: "a number",
    Wildcard.UNQUOTED: "any token but a quotation mark",
    Wildcard.NEW_TOKEN: "a token that the grammar does not name",
}


@dataclass(frozen=True, slots=True)
class Expected:
    """What may follow a prefix: one of `tokens`, a token that one of `wildcards` matches, the end of the target.

    >>> print(Expected((")", ","), (Wildcard.NUMBER,), end=False))
    ')', ',' or a number
    """

    tokens: tuple[str, ...]
    wildcards: tuple[Wildcard, ...]
    end: bool
    named: Container[str] = field(
        default=(), repr=False, compare=False
    )  # all terminals of the grammar

    @property
    def any_token(self) -> bool:
        return Wildcard.ONE_TOKEN in self.wildcards or Wildcard.TOKENS in self.wildcards

    def allows(self, token: str) -> bool:
        return token in self.tokens or any(
            wildcard.matches(token, self.named) for wildcard in self.wildcards
        )

    def __str__(self) -> str:
        named = ["any token"] if self.any_token else [f"'{token}'" for token in self.tokens]
        hidden = len(named) - _SHOWN_TOKENS
        kinds = [_KINDS[wildcard] for wildcard in self.wildcards if not self.any_token]
        end, more = ["the end"] if self.end else [], [f"{hidden} more"] if hidden > 0 else []
        parts = [*named[:_SHOWN_TOKENS], *kinds, *end, *more]
        return " or ".join(part for part in (", ".join(parts[:-1]), parts[-1]) if part)


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether `tokens` are legal, how many of them from the left are, and what may follow those."""

    tokens: tuple[str, ...]
    legal_tokens: int
    expected: Expected

    @property
    def accepted(self) -> bool:
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
    chart: Chart

    def then(self, token: str) -> Prefix | None:
        """This prefix and one more token; None where no legal target goes on so."""
        return self.recogniser.extended(self, [token])

    @property
    def length(self) -> int:
        return self.chart.position

    @property
    def expected(self) -> Expected:
        return self.recogniser.expected_after(self.chart)


@dataclass(frozen=True, slots=True)
class Recogniser:
    """A target grammar made ready for the chart; use it through `TargetGrammar`."""

    terminals: tuple[str, ...]  # sorted; a terminal's label is its position
    labels: dict[str, int]
    tables: Tables
    begin: Chart

    @classmethod
    def of(cls, grammar: TargetGrammar) -> Recogniser:
        terminals = tuple(sorted(grammar.terminals))
        labels = {terminal: label for label, terminal in enumerate(terminals)}
        numbers = {category: number for number, category in enumerate(grammar.categories)}

        def label(symbol: TargetSymbol) -> int:
            if isinstance(symbol, Category):
                return FIRST_CATEGORY - numbers[symbol]
            if isinstance(symbol, Wildcard):
                return -1 - WILDCARDS.index(symbol)
            return labels[symbol]

        written = [[label(each.left), *map(label, each.right)] for each in grammar.productions]
        trie = trie_of(Ragged.of(written))
        lefts = np.array([numbers[each.left] for each in grammar.productions], dtype=np.int32)
        nodes = len(trie.first_item) - 1
        completes = np.full(nodes, NO_ITEM, dtype=np.int32)
        completes[np.repeat(np.arange(nodes), np.diff(trie.first_item))] = lefts[trie.items]
        absorbs = np.zeros(nodes, dtype=np.bool_)
        absorbs[trie.successors[trie.labels == TOKENS]] = True
        entries = np.array(
            [successor(trie, TRIE_ROOT, label(category)) for category in numbers], dtype=np.int32
        )
        known = [
            [wildcard.matches(token, terminals) for wildcard in WILDCARDS] for token in terminals
        ]
        matches = known + [
            [wildcard.matches(token) for wildcard in WILDCARDS] for token in UNKNOWN_TOKEN
        ]
        tables = Tables(trie, entries, completes, absorbs, np.array(matches))
        return cls(terminals, labels, tables, empty_chart(tables))

    def accepts(self, tokens: Sequence[str]) -> bool:
        chart = self._read(self.begin, tokens)
        return chart.position == len(tokens) and bool(is_complete(self.tables, chart))

    def explain(self, tokens: Sequence[str]) -> Verdict:
        chart = self._read(self.begin, tokens)
        return Verdict(tuple(tokens), chart.position, self.expected_after(chart))

    def prefix(self, tokens: Sequence[str]) -> Prefix | None:
        return self.extended(Prefix(self, self.begin), tokens)

    def extended(self, prefix: Prefix, tokens: Sequence[str]) -> Prefix | None:
        """`prefix` with more tokens; None where no legal target starts so."""
        chart = self._read(prefix.chart, tokens)
        return Prefix(self, chart) if chart.position == prefix.length + len(tokens) else None

    def expected_after(self, chart: Chart) -> Expected:
        legal = legal_labels(self.tables, chart.column, len(self.terminals))
        return Expected(
            tokens=tuple(
                self.terminals[label] for label in np.flatnonzero(legal[: len(self.terminals)])
            ),
            wildcards=tuple(wildcard for at, wildcard in enumerate(WILDCARDS) if legal[-1 - at]),
            end=bool(is_complete(self.tables, chart)),
            named=self.labels,
        )

    def _read(self, chart: Chart, tokens: Sequence[str]) -> Chart:
        if isinstance(tokens, str):
            raise FormatError(
                f"expected a sequence of tokens, found the string {tokens!r}; split it first"
            )
        return read(
            self.tables, chart, np.array([self.label(token) for token in tokens], dtype=np.int32)
        )

    def label(self, token: str) -> int:
        """The number of a token in kernels; no edge bears the numbers of unknown ones, so only wildcards match them."""
        if token in self.labels:
            return self.labels[token]
        kind = 1 if Wildcard.NUMBER.matches(token) else 0 if Wildcard.UNQUOTED.matches(token) else 2
        return len(self.terminals) + kind
