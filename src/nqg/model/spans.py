"""Spans and pairs of span and rule that forests hold, as tables from which batches are selected.

Numbers of spans and of pairs count from the first one of their sentence in tables, and from the
first one of the batch in what is selected. S spans, P pairs, n sentences, E boundaries.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from nqg.grammar.arrays import Int32Array, Int64Array
from nqg.grammar.hypergraph import Hypergraph
from nqg.grammar.ragged import Ragged, gather_ranges, offsets_from_lengths
from nqg.model.forests import Forests


def to_device(tables: Sequence[Int64Array], device: torch.device | str) -> list[Tensor]:
    """Tables as tensors; a GPU gets all of them in one transfer, because starting one is slow."""
    if torch.device(device).type == "cpu":
        return list(map(torch.from_numpy, tables))
    flat = torch.from_numpy(np.concatenate([table.ravel() for table in tables]))
    moved = flat.pin_memory().to(device, non_blocking=True)
    columns = torch.split(moved, [table.size for table in tables])
    return [column.view(table.shape) for column, table in zip(columns, tables)]


@dataclass(frozen=True, slots=True)
class Boundaries:
    """The distinct tokens at which spans begin (or end), and for every span the number of its
    token.
    """

    sentences: Int64Array  # (E,)
    tokens: Int64Array  # (E,)
    of_spans: Tensor  # (S,) on a device


@dataclass(frozen=True, slots=True)
class Anchors:
    """The spans of a batch of full forests by their first and their last tokens."""

    starts: Boundaries
    ends: Boundaries


def anchors(full: Hypergraph, device: torch.device | str) -> Anchors:
    return SpanTable.of(full).select(np.arange(full.sentences), device)


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

    def numbers(self, graph: Hypergraph) -> Int64Array:
        """For each node of `graph`, all of whose spans are in the table, its span: (N,)."""
        return self.find(_span_keys(graph, self.width))

    def find(self, keys: Int64Array) -> Int64Array:
        return self.order[np.searchsorted(self.keys[self.order], keys)]

    def select(self, batch: Int64Array, device: torch.device | str) -> Anchors:
        """The spans of some sentences."""
        lengths = np.diff(self.first)[batch]
        rows = gather_ranges(self.first[batch], lengths)
        sentences = np.repeat(np.arange(len(batch)), lengths)
        starts, of_starts = _distinct(sentences, self.starts[rows])
        ends, of_ends = _distinct(sentences, self.ends[rows] - 1)
        starts_of_spans, ends_of_spans = to_device([of_starts, of_ends], device)
        return Anchors(
            Boundaries(*starts, starts_of_spans), Boundaries(*ends, ends_of_spans)
        )


def _span_keys(graph: Hypergraph, width: int) -> Int64Array:
    return (sentence_numbers(graph) * width + graph.starts) * width + graph.ends


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
class Pairs:
    """Pairs of a span and a rule, none of them twice, sorted by span."""

    spans: Tensor  # (P,)
    rules: Tensor  # (P,)


@dataclass(frozen=True, slots=True)
class PairTable:
    """The pairs of span and rule in many forests, each once, and for every hyperedge its pair.

    Hyperedges of one pair differ in where their children meet, or in the substring of the target
    that they yield; the model gives them one score.
    """

    anchors: SpanTable
    spans: Ragged
    rules: Ragged
    of_hyperedges: dict[str, Int64Array]  # by the name of the forests

    @classmethod
    def of(cls, forests: Forests) -> PairTable:
        table = SpanTable.of(forests.full)
        rules = int(forests.full.rules.max(initial=0)) + 1

        def pair_keys(graph: Hypergraph) -> Int64Array:
            return table.numbers(graph)[graph.owners()] * rules + graph.rules

        # The full forests have whatever the other ones have.
        keys = np.unique(pair_keys(forests.full))
        first = np.searchsorted(keys, table.first * rules)
        of_hyperedges = {}
        for name, graph in forests.graphs().items():
            first_pairs = first[sentence_numbers(graph)[graph.owners()]]
            of_hyperedges[name] = np.searchsorted(keys, pair_keys(graph)) - first_pairs
        spans = keys // rules - np.repeat(table.first[:-1], np.diff(first))
        return cls(
            table, Ragged(first, spans), Ragged(first, keys % rules), of_hyperedges
        )

    def select(self, batch: Int64Array, device: torch.device | str) -> Pairs:
        first_span = offsets_from_lengths(np.diff(self.anchors.first)[batch])
        spans = self.spans.select(batch, first_span[:-1])
        return Pairs(
            *to_device([spans.values, self.rules.select(batch).values], device)
        )
