"""Legal targets: accepted or not, how far a target is legal, and what may come next (Earley, 1970).

All productions lie in one trie, each as its left side followed by its right side. An *item* is a
trie node and the position where its production began, packed into one integer; a completed
category is an item too, at a node past the trie's last. The items of a position are an Earley set.
Items that wait for a category are chained by that category and the position where it began.
`TargetGrammar` is the way in.

Right recursion completes as many items at every token as there were tokens before. Where just one
item waits for a category and is complete with it, the chain of such items is passed over to its top
(Leo, 1991), which makes the usual grammars linear.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass, field
from itertools import compress, count
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nqg.errors import FormatError
from nqg.grammar.arrays import Int32Array, Int64Array
from nqg.grammar.compilation import inlined, kernel
from nqg.grammar.encoding import NOWHERE, TRIE_ROOT, TrieArrays, successor, trie_of
from nqg.grammar.ragged import Ragged
from nqg.types.target_grammar import TargetGrammar, TargetSymbol, Wildcard

# Labels of edges: terminals count up from 0, wildcards down from -1 in the order of `Wildcard`,
# then categories.
WILDCARDS = tuple(Wildcard)
TOKENS = -1 - WILDCARDS.index(Wildcard.TOKENS)
FIRST_CATEGORY = -1 - len(WILDCARDS)
NONE = -1
# Tokens that no production names, one for each set of wildcards that match such tokens.
UNKNOWN_TOKENS = ("unknown", "0", "'")


class Tables(NamedTuple):
    """A target grammar as kernels see it."""

    trie: TrieArrays
    # The node of each category below the root.
    entries: Int32Array
    # The category that is complete at each node, or NONE.
    completes: Int32Array
    # Whether <...> leads into a node, which then takes further tokens.
    absorbs: NDArray[np.bool_]
    # Whether a token (by its label) is matched by a wildcard.
    matches: NDArray[np.bool_]


class Waiting(NamedTuple):
    """Items as they go on once a category is complete.

    `heads` has the latest item that waits for a category since a position, `next` the one before
    it in the chain. `tops` has the only item that the completion leads to in the end, if there is
    just one. All are numbers in `items`, or NONE.
    """

    items: Int64Array
    next: Int64Array
    heads: Int64Array
    tops: Int64Array


class Chart(NamedTuple):
    """The Earley set after reading `position` tokens, and all items that wait."""

    position: int
    items: Int64Array
    waiting: Waiting


@inlined
def item_of(trie_node: int, origin: int) -> int:
    return (int(trie_node) << 32) | int(origin)


@inlined
def node_of(item: int) -> int:
    return item >> 32


@inlined
def origin_of(item: int) -> int:
    return item & 0xFFFFFFFF


@kernel
def _add(items: list[int], seen: set[int], item: int) -> None:
    if item not in seen:
        seen.add(item)
        items.append(item)


@kernel
def empty_chart(tables: Tables) -> Chart:
    """The chart before the first token: from the trie's root, the start symbol is read
    like a token.
    """
    nothing = np.empty(0, dtype=np.int64)
    heads = np.empty((0, len(tables.entries)), dtype=np.int64)
    root = np.array([item_of(TRIE_ROOT, 0)])
    chart = Chart(-1, root, Waiting(nothing, nothing, heads, heads))
    return read(tables, chart, np.array([FIRST_CATEGORY], dtype=np.int32))


@kernel
def read(tables: Tables, chart: Chart, tokens: Int32Array) -> Chart:
    """The chart after the longest legal prefix of `tokens`; the argument is left as it was."""
    position, items = chart.position, list(chart.items)
    waiting, following = list(chart.waiting.items), list(chart.waiting.next)
    # The chart's rows past its position are empty: they belong to an illegal token.
    rows = position + 1
    shape = rows + len(tokens), len(tables.entries)
    heads, tops = np.full(shape, NONE), np.full(shape, NONE)
    heads[:rows], tops[:rows] = chart.waiting.heads[:rows], chart.waiting.tops[:rows]
    for token in tokens:
        moved = _scanned(tables, items, token)
        if not moved:
            break
        items = moved
        position += 1
        _close(tables, position, items, waiting, following, heads, tops)
    chains = Waiting(
        np.array(waiting, dtype=np.int64),
        np.array(following, dtype=np.int64),
        heads,
        tops,
    )
    return Chart(position, np.array(items, dtype=np.int64), chains)


@kernel
def _scanned(tables: Tables, items: list[int], token: int) -> list[int]:
    """The items that go on with `token`, moved past it."""
    # Numba takes the types of what is empty from the slice.
    moved = items[:0]
    seen = set(moved)
    for item in items:
        trie_node, origin = node_of(item), origin_of(item)
        if trie_node >= len(tables.completes):
            continue
        target = successor(tables.trie, trie_node, token)
        if target != NOWHERE:
            _add(moved, seen, item_of(target, origin))
        for wildcard in range(tables.matches.shape[1]):
            target = successor(tables.trie, trie_node, -1 - wildcard)
            if target != NOWHERE and tables.matches[token, wildcard]:
                _add(moved, seen, item_of(target, origin))
        if tables.absorbs[trie_node]:
            _add(moved, seen, item)
    return moved


@kernel
def _close(
    tables: Tables,
    position: int,
    items: list[int],
    waiting: list[int],
    following: list[int],
    heads: Int64Array,
    tops: Int64Array,
) -> None:
    """Add all that follows from the items: completed categories, and the starts of new ones."""
    seen = set(items)
    number = 0
    while number < len(items):
        trie_node, origin = node_of(items[number]), origin_of(items[number])
        number += 1
        # A complete category moves the items that have waited for it since its origin.
        category = trie_node - len(tables.completes)
        if category >= 0:
            top = tops[origin, category]
            if top != NONE:
                _add(items, seen, waiting[top])
                continue
            entry = heads[origin, category]
            while entry != NONE:
                _add(items, seen, waiting[entry])
                entry = following[entry]
            continue
        if tables.completes[trie_node] != NONE:
            completed = len(tables.completes) + tables.completes[trie_node]
            _add(items, seen, item_of(completed, origin))
        # Edges are sorted by label, so those of categories come first.
        for edge in range(
            tables.trie.first_edge[trie_node], tables.trie.first_edge[trie_node + 1]
        ):
            category = FIRST_CATEGORY - tables.trie.labels[edge]
            if category < 0:
                break
            _add(items, seen, item_of(tables.entries[category], position))
            following.append(heads[position, category])
            heads[position, category] = len(waiting)
            waiting.append(item_of(tables.trie.successors[edge], origin))
    for category in range(len(tables.entries)):
        tops[position, category] = _top(
            tables, position, category, waiting, following, heads, tops
        )


@kernel
def _top(
    tables: Tables,
    position: int,
    category: int,
    waiting: list[int],
    following: list[int],
    heads: Int64Array,
    tops: Int64Array,
) -> int:
    """The last of the items that are complete one after the other, each the only one that waits.

    The start symbol's own item at position 0 ends the chain, because a target ends with it.
    """
    top = NONE
    # A chain with more steps at one position leads round in a circle.
    for _ in range(len(tables.entries)):
        entry = heads[position, category]
        if entry == NONE or following[entry] != NONE:
            return top
        trie_node, origin = node_of(waiting[entry]), origin_of(waiting[entry])
        if tables.trie.first_edge[trie_node] != tables.trie.first_edge[trie_node + 1]:
            return top
        top, category = entry, tables.completes[trie_node]
        if category == 0 and origin == 0:
            return int(top)
        if origin < position:
            further = tops[origin, category]
            return int(top if further == NONE else further)
    return NONE


@kernel
def legal_labels(
    tables: Tables, items: Int64Array, terminals: int
) -> NDArray[np.bool_]:
    """Whether each terminal may follow and, from the last label backwards, each wildcard."""
    legal = np.zeros(terminals - FIRST_CATEGORY - 1, dtype=np.bool_)
    for item in items:
        trie_node = node_of(item)
        if trie_node >= len(tables.completes):
            continue
        legal[TOKENS] |= tables.absorbs[trie_node]
        for edge in range(
            tables.trie.first_edge[trie_node], tables.trie.first_edge[trie_node + 1]
        ):
            label = tables.trie.labels[edge]
            if label > FIRST_CATEGORY:
                legal[label] = True
    return legal


_SHOWN_TOKENS = 8
_WILDCARD_NAMES = {
    Wildcard.NUMBER: "a number",
    Wildcard.UNQUOTED: "any token but a quotation mark",
    Wildcard.NEW_TOKEN: "a token that the grammar does not name",
}


@dataclass(frozen=True, slots=True)
class Expected:
    """What may follow a prefix: `tokens`, tokens that `wildcards` match, the end of the target.

    `named` are all terminals of the grammar.

    >>> print(Expected((")", ","), (Wildcard.NUMBER,), end=False))
    ')', ',' or a number
    """

    tokens: tuple[str, ...]
    wildcards: tuple[Wildcard, ...]
    end: bool
    named: Container[str] = field(default=(), repr=False, compare=False)

    @property
    def any_token(self) -> bool:
        return Wildcard.ONE_TOKEN in self.wildcards or Wildcard.TOKENS in self.wildcards

    def allows(self, token: str) -> bool:
        return token in self.tokens or any(
            wildcard.matches(token, self.named) for wildcard in self.wildcards
        )

    def __str__(self) -> str:
        if self.any_token:
            names = ["any token"]
        else:
            names = [f"'{token}'" for token in self.tokens[:_SHOWN_TOKENS]]
            names += [_WILDCARD_NAMES[wildcard] for wildcard in self.wildcards]
        if self.end:
            names.append("the end")
        hidden = len(self.tokens) - _SHOWN_TOKENS
        if hidden > 0 and not self.any_token:
            names.append(f"{hidden} more")
        return " or ".join(filter(None, (", ".join(names[:-1]), names[-1])))


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
        legal = self.legal_tokens
        if legal == len(self.tokens):
            return f"legal so far, but it ends too early: expected {self.expected}"
        expected = f"expected {self.expected}, found '{self.tokens[legal]}'"
        if legal == 0:
            return f"illegal from the first token: {expected}"
        return f"legal up to token {legal} '{self.tokens[legal - 1]}', {expected}"


@dataclass(frozen=True, slots=True)
class Prefix:
    """The start of a legal target, for decoders that go from token to token.

    A prefix never changes, so beams may share it.
    """

    recogniser: Recogniser
    chart: Chart

    def then(self, token: str) -> Prefix | None:
        """This prefix and one more token; None where no legal target goes on so."""
        return self.recogniser.prefix([token], self.chart)

    @property
    def expected(self) -> Expected:
        return self.recogniser.expected_after(self.chart)


@dataclass(frozen=True, slots=True)
class Recogniser:
    """A target grammar made ready for the chart; use it through `TargetGrammar`.

    The terminals are sorted; the label of a terminal is its number.
    """

    terminals: tuple[str, ...]
    labels: dict[str, int]
    tables: Tables
    begin: Chart

    @classmethod
    def of(cls, grammar: TargetGrammar) -> Recogniser:
        terminals = tuple(sorted(grammar.terminals))
        categories = grammar.categories
        terminal_labels = dict(zip(terminals, count()))
        labels: dict[TargetSymbol, int] = dict(zip(terminals, count()))
        labels.update(zip(WILDCARDS, count(-1, -1)))
        labels.update(zip(categories, count(FIRST_CATEGORY, -1)))

        # The trie, and what is known about each of its nodes.
        rows = []
        for production in grammar.productions:
            symbols = production.left, *production.right
            rows.append([labels[symbol] for symbol in symbols])
        productions = Ragged.of(rows)
        lefts = FIRST_CATEGORY - productions.values[productions.offsets[:-1]]
        trie = trie_of(productions)
        nodes = len(trie.first_item) - 1
        node_of_item = np.repeat(np.arange(nodes), np.diff(trie.first_item))
        completes = np.full(nodes, NONE, dtype=np.int32)
        completes[node_of_item] = lefts[trie.items]
        absorbs = np.zeros(nodes, dtype=np.bool_)
        absorbs[trie.successors[trie.labels == TOKENS]] = True
        entries = [
            successor(trie, TRIE_ROOT, labels[category]) for category in categories
        ]

        matches = [_matches(token, terminals) for token in terminals]
        matches += map(_matches, UNKNOWN_TOKENS)
        tables = Tables(
            trie,
            np.array(entries, dtype=np.int32),
            completes,
            absorbs,
            np.array(matches),
        )
        return cls(terminals, terminal_labels, tables, empty_chart(tables))

    def accepts(self, tokens: Sequence[str]) -> bool:
        chart = self._read(self.begin, tokens)
        return chart.position == len(tokens) and self._is_complete(chart)

    def explain(self, tokens: Sequence[str]) -> Verdict:
        chart = self._read(self.begin, tokens)
        return Verdict(tuple(tokens), chart.position, self.expected_after(chart))

    def prefix(
        self, tokens: Sequence[str], chart: Chart | None = None
    ) -> Prefix | None:
        """What was read so far with more tokens; None where no legal target starts so."""
        chart = chart or self.begin
        longer = self._read(chart, tokens)
        if longer.position < chart.position + len(tokens):
            return None
        return Prefix(self, longer)

    def expected_after(self, chart: Chart) -> Expected:
        legal = legal_labels(self.tables, chart.items, len(self.terminals))
        named = np.flatnonzero(legal[: len(self.terminals)])
        return Expected(
            tokens=tuple(self.terminals[label] for label in named),
            wildcards=tuple(compress(WILDCARDS, legal[::-1])),
            end=self._is_complete(chart),
            named=self.labels,
        )

    def _is_complete(self, chart: Chart) -> bool:
        """Whether the start symbol derives exactly the tokens read."""
        return item_of(len(self.tables.completes), 0) in chart.items

    def _read(self, chart: Chart, tokens: Sequence[str]) -> Chart:
        if isinstance(tokens, str):
            raise FormatError(
                f"expected a sequence of tokens, found the string {tokens!r}; split it first"
            )
        labels = [self.label(token) for token in tokens]
        return read(self.tables, chart, np.array(labels, dtype=np.int32))

    def label(self, token: str) -> int:
        """The number of a token in kernels.

        No edge bears the numbers of unknown tokens, so only wildcards match them.
        """
        if token in self.labels:
            return self.labels[token]
        if Wildcard.NUMBER.matches(token):
            kind = 1
        elif Wildcard.UNQUOTED.matches(token):
            kind = 0
        else:
            kind = 2
        return len(self.terminals) + kind


def _matches(token: str, named: Container[str] = ()) -> list[bool]:
    """Whether each wildcard matches a token."""
    return [wildcard.matches(token, named) for wildcard in WILDCARDS]
