"""Spans and pairs of span and rule that forests hold, as tables from which the rows of a batch are selected."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from nqg.grammar.arrays import Int32Array, Int64Array
from nqg.grammar.hypergraph import Hypergraph
from nqg.grammar.ragged import Ragged, offsets_from_lengths
from nqg.model.forests import Forests


def to_device(tables: Sequence[Int64Array], device: torch.device | str) -> list[Tensor]:
    """Tables as tensors; a GPU gets them all in one transfer, because each would take longer to begin than to make."""
    if torch.device(device).type == "cpu":
        return [torch.from_numpy(table) for table in tables]
    flat = torch.from_numpy(np.concatenate([table.ravel() for table in tables])).pin_memory()
    parts = torch.split(flat.to(device, non_blocking=True), [table.size for table in tables])
    return [part.view(table.shape) for part, table in zip(parts, tables, strict=True)]


@dataclass(frozen=True, slots=True)
class Boundaries:
    """The tokens at which spans begin (or end), each once, and for every span which is its own, on a device."""

    sentences: Int64Array  # (E,)
    tokens: Int64Array  # (E,)
    of_spans: Tensor  # (S,)


@dataclass(frozen=True, slots=True)
class Anchors:
    """The S spans of a batch of full forests by the tokens at which they begin and end."""

    starts: Boundaries
    ends: Boundaries  # at last tokens


@dataclass(frozen=True, slots=True)
class BoundaryTable:
    """The boundaries of the spans of many sentences; `of_spans` counts from the sentence's own first one."""

    tokens: Ragged
    of_spans: Ragged

    @classmethod
    def of(cls, spans: SpanTable, tokens: Int32Array) -> BoundaryTable:
        width = int(tokens.max(initial=0)) + 1
        sentences = np.repeat(np.arange(len(spans.first) - 1), np.diff(spans.first))
        keys, of_spans = np.unique(sentences * width + tokens, return_inverse=True)
        first = np.searchsorted(keys, np.arange(len(spans.first)) * width)
        return cls(Ragged(first, keys % width), Ragged(spans.first, of_spans - first[sentences]))

    def select(self, batch: Int64Array) -> tuple[Int64Array, Int64Array, Int64Array]:
        """The columns of `Boundaries`."""
        tokens = self.tokens.select(batch)
        sentences = np.repeat(np.arange(len(batch)), tokens.lengths)
        return sentences, tokens.values, self.of_spans.select(batch, tokens.offsets[:-1]).values


@dataclass(frozen=True, slots=True)
class AnchorTable:
    """The spans of many full forests, from which those of a batch are selected."""

    starts: BoundaryTable
    ends: BoundaryTable

    @classmethod
    def of(cls, full: Hypergraph) -> AnchorTable:
        spans = SpanTable.of(full)
        return cls(BoundaryTable.of(spans, spans.starts), BoundaryTable.of(spans, spans.ends - 1))

    def select(self, batch: Int64Array, device: torch.device | str) -> Anchors:
        starts, ends = self.starts.select(batch), self.ends.select(batch)
        of_starts, of_ends = to_device([starts[2], ends[2]], device)
        return Anchors(Boundaries(*starts[:2], of_starts), Boundaries(*ends[:2], of_ends))


def anchors(full: Hypergraph, device: torch.device | str) -> Anchors:
    return AnchorTable.of(full).select(np.arange(full.sentences), device)


def sentence_numbers(graph: Hypergraph) -> Int64Array:
    """For each node the sentence that it belongs to: (N,)."""
    return np.repeat(np.arange(graph.sentences), np.diff(graph.first_node))


@dataclass(frozen=True, slots=True)
class SpanTable:
    """The spans that have nodes, each once, although a span has a node for each of its types."""

    first: Int64Array  # (n + 1,)
    starts: Int32Array  # (S,)
    ends: Int32Array  # (S,)
    keys: Int64Array  # (S,) one number for a sentence's span
    order: Int64Array  # (S,) of the keys
    width: int

    @classmethod
    def of(cls, full: Hypergraph) -> SpanTable:
        width = int(full.ends.max(initial=0)) + 1
        keys = _span_keys(full, width)
        distinct, nodes = np.unique(keys, return_index=True)
        if len(distinct) == full.nodes:
            return cls(full.first_node, full.starts, full.ends, keys, np.argsort(keys), width)
        first = np.searchsorted(distinct, np.arange(full.sentences + 1) * width * width)
        return cls(
            first, full.starts[nodes], full.ends[nodes], distinct, np.arange(len(distinct)), width
        )

    def numbers(self, graph: Hypergraph) -> Int64Array:
        """For each node of `graph`, all of whose spans are in the table, the number of its span: (N,)."""
        return self.find(_span_keys(graph, self.width))

    def find(self, keys: Int64Array) -> Int64Array:
        return self.order[np.searchsorted(self.keys[self.order], keys)]


def _span_keys(graph: Hypergraph, width: int) -> Int64Array:
    return (sentence_numbers(graph) * width + graph.starts) * width + graph.ends


@dataclass(frozen=True, slots=True)
class Pairs:
    """Pairs of a span and a rule, none of them twice, sorted by span."""

    spans: Tensor  # (P,)
    rules: Tensor  # (P,)


@dataclass(frozen=True, slots=True)
class PairTable:
    """The pairs of span and rule in many forests, each once, and for every hyperedge its pair.

    Spans and pairs are counted from the sentence's own first one. Hyperedges of one pair differ in where their
    children meet, or in the part of the target that they yield; the model gives them one score.
    """

    first_span: Int64Array  # (n + 1,)
    spans: Ragged
    rules: Ragged
    of_hyperedges: Mapping[str, Int64Array]  # by the name of the forests

    @classmethod
    def of(cls, forests: Forests) -> PairTable:
        table, rules = SpanTable.of(forests.full), int(forests.full.rules.max(initial=0)) + 1
        found = {
            name: table.numbers(graph)[graph.owners()] * rules + graph.rules
            for name, graph in forests.graphs().items()
        }
        keys = np.unique(found["full"])  # whatever the other forests have is also in the full ones
        spans, first = keys // rules, np.searchsorted(keys, table.first * rules)
        own = np.repeat(table.first[:-1], np.diff(first))
        return cls(
            table.first,
            Ragged(first, spans - own),
            Ragged(first, keys % rules),
            {
                name: np.searchsorted(keys, found[name])
                - first[sentence_numbers(graph)[graph.owners()]]
                for name, graph in forests.graphs().items()
            },
        )

    def select(self, batch: Int64Array, device: torch.device | str) -> Pairs:
        first_span = offsets_from_lengths(self.first_span[batch + 1] - self.first_span[batch])
        spans, rules = self.spans.select(batch, first_span[:-1]), self.rules.select(batch)
        return Pairs(*to_device([spans.values, rules.values], device))
