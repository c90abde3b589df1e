"""Spans and pairs of span and rule that forests hold, as tables from which batches are selected.

Numbers of spans and of pairs count from the first one of their sentence in tables, and from the
first one of the batch in what is selected. S spans, P pairs, n sentences, E boundaries.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

import numpy as np

from nqg.grammar.arrays import Int32Array, Int64Array
from nqg.grammar.hypergraph import Hypergraph
from nqg.grammar.ragged import Ragged, gather_ranges, offsets_from_lengths

if TYPE_CHECKING:
    from nqg.model.forests import Forests

# Sentences whose pairs are found at once, which takes several times the memory of their forests. It
# changes no result.
BLOCK_SIZE = 1024

Array = TypeVar("Array")  # of NumPy, or of torch on a device
Other = TypeVar("Other")


@dataclass(frozen=True, slots=True)
class Boundaries(Generic[Array]):
    """The distinct tokens at which spans begin (or end), and for every span the number of its
    token.
    """

    sentences: Int64Array  # (E,)
    tokens: Int64Array  # (E,)
    of_spans: Array  # (S,)

    def with_array(self, of_spans: Other) -> Boundaries[Other]:
        return Boundaries(self.sentences, self.tokens, of_spans)


@dataclass(frozen=True, slots=True)
class Anchors(Generic[Array]):
    """The spans of a batch of full forests by their first and their last tokens."""

    starts: Boundaries[Array]
    ends: Boundaries[Array]


def anchors(full: Hypergraph) -> Anchors[Int64Array]:
    return SpanTable.of(full).select(np.arange(full.sentences))


def sentence_numbers(graph: Hypergraph) -> Int64Array:
    """For each node the sentence that it belongs to: (N,)."""
    return np.repeat(np.arange(graph.sentences), np.diff(graph.first_node))


@dataclass(frozen=True, slots=True)
class SpanTable:
    """The spans that have nodes, each once, although a span has a node for each of its types."""

    first: Int64Array  # (n + 1,)
    starts: Int32Array  # (S,)
    ends: Int32Array  # (S,)
    keys: Int64Array  # (S,) one number for a sentence and a span of it
    order: Int64Array  # (S,) sorts the keys
    width: int

    @classmethod
    def of(cls, full: Hypergraph) -> SpanTable:
        width = int(full.ends.max(initial=0)) + 1
        keys = _span_keys(full, width)
        distinct, nodes = np.unique(keys, return_index=True)
        # Where every span has one node, spans are in the order of nodes.
        if len(distinct) == full.nodes:
            return cls(
                full.first_node, full.starts, full.ends, keys, np.argsort(keys), width
            )
        first = np.searchsorted(distinct, np.arange(full.sentences + 1) * width * width)
        order = np.arange(len(distinct))
        return cls(first, full.starts[nodes], full.ends[nodes], distinct, order, width)

    def numbers(
        self, graph: Hypergraph, sentences: Int64Array | None = None
    ) -> Int64Array:
        """For each node of `graph`, all of whose spans are in the table, its span: (N,).

        The graph has these sentences; without a choice all of the table's.
        """
        return self.find(_span_keys(graph, self.width, sentences))

    def find(self, keys: Int64Array) -> Int64Array:
        return self.order[np.searchsorted(self.keys[self.order], keys)]

    def select(self, batch: Int64Array) -> Anchors[Int64Array]:
        """The spans of some sentences."""
        lengths = np.diff(self.first)[batch]
        rows = gather_ranges(self.first[batch], lengths)
        sentences = np.repeat(np.arange(len(batch)), lengths)
        starts, of_starts = _distinct(sentences, self.starts[rows])
        ends, of_ends = _distinct(sentences, self.ends[rows] - 1)
        return Anchors(Boundaries(*starts, of_starts), Boundaries(*ends, of_ends))


def _span_keys(
    graph: Hypergraph, width: int, sentences: Int64Array | None = None
) -> Int64Array:
    of_nodes = sentence_numbers(graph)
    if sentences is not None:
        of_nodes = sentences[of_nodes]
    return (of_nodes * width + graph.starts) * width + graph.ends


def _distinct(
    sentences: Int64Array, tokens: Int32Array
) -> tuple[tuple[Int64Array, Int64Array], Int64Array]:
    """The distinct pairs of sentence and token, sorted, and for every row the number
    of its pair.
    """
    width = int(tokens.max(initial=0)) + 1
    keys, numbers = np.unique(sentences * width + tokens, return_inverse=True)
    return np.divmod(keys, width), numbers


@dataclass(frozen=True, slots=True)
class Pairs(Generic[Array]):
    """Pairs of a span and a rule, by their numbers."""

    spans: Array  # (P,)
    rules: Array  # (P,)


@dataclass(frozen=True, slots=True)
class PairTable:
    """The pairs of span and rule in many forests, each once, and for every hyperedge its pair.

    Hyperedges of one pair differ in where their children meet, or in the substring of the target
    that they yield; the model gives them one score.
    """

    anchors: SpanTable
    spans: Ragged
    rules: Ragged
    of_hyperedges: dict[str, Int32Array]  # by the name of the forests

    @classmethod
    def of(cls, forests: Forests) -> PairTable:
        anchors = SpanTable.of(forests.full)
        spans, rules, first = [], [], [np.zeros(1, dtype=np.int64)]
        of_hyperedges: dict[str, list[Int32Array]] = {}
        for low in range(0, max(1, len(forests)), BLOCK_SIZE):
            high = min(low + BLOCK_SIZE, len(forests))
            block = _PairBlock.of(forests.select(range(low, high)), anchors, low)
            spans.append(block.spans)
            rules.append(block.rules)
            first.append(block.first[1:] + first[-1][-1])
            for name, pairs in block.of_hyperedges.items():
                of_hyperedges.setdefault(name, []).append(pairs)
        offsets = np.concatenate(first)
        return cls(
            anchors,
            Ragged(offsets, np.concatenate(spans)),
            Ragged(offsets, np.concatenate(rules)),
            {name: np.concatenate(pairs) for name, pairs in of_hyperedges.items()},
        )

    def select(self, batch: Int64Array) -> Pairs[Int64Array]:
        first_span = offsets_from_lengths(np.diff(self.anchors.first)[batch])
        spans = self.spans.select(batch, first_span[:-1])
        rules = self.rules.select(batch)
        return Pairs(spans.values, rules.values.astype(np.int64))


class _PairBlock(NamedTuple):
    """The pairs of some sentences of a table."""

    first: Int64Array
    spans: Int32Array
    rules: Int32Array
    of_hyperedges: dict[str, Int32Array]

    @classmethod
    def of(cls, forests: Forests, anchors: SpanTable, low: int) -> _PairBlock:
        """Those of consecutive sentences, the first of which has the number `low`."""
        rules = int(forests.full.rules.max(initial=0)) + 1
        sentences = np.arange(low, low + len(forests))
        first_span = anchors.first[low : low + len(forests) + 1]

        def pair_keys(graph: Hypergraph) -> Int64Array:
            return (
                anchors.numbers(graph, sentences)[graph.owners()] * rules + graph.rules
            )

        # The full forests have whatever the other ones have.
        keys = np.unique(pair_keys(forests.full))
        first = np.searchsorted(keys, first_span * rules)
        of_hyperedges = {}
        for name, graph in forests.graphs().items():
            first_pairs = first[sentence_numbers(graph)[graph.owners()]]
            numbers = np.searchsorted(keys, pair_keys(graph)) - first_pairs
            of_hyperedges[name] = numbers.astype(np.int32)
        spans = keys // rules - np.repeat(first_span[:-1], np.diff(first))
        return cls(
            first,
            spans.astype(np.int32),
            (keys % rules).astype(np.int32),
            of_hyperedges,
        )
