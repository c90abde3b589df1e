"""Spans and pairs of span and rule that forests hold, as tables from which the rows of a batch are selected."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nqg.grammar.arrays import Int32Array, Int64Array, kernel
from nqg.grammar.hypergraph import Hypergraph, starts_of
from nqg.model.forests import Forests


@dataclass(frozen=True, slots=True)
class Ragged:
    """Numbers of n sentences end to end: those of sentence i are values[first[i]] to values[first[i + 1] - 1]."""

    first: Int64Array  # (n + 1,)
    values: Int64Array

    @classmethod
    def of(cls, rows: Iterable[Sequence[int]]) -> Ragged:
        """The rows end to end.

        >>> Ragged.of([(7, 8), (), (9,)]).first
        array([0, 2, 2, 3])
        """
        rows = list(rows)
        sizes = np.fromiter(map(len, rows), dtype=np.int64, count=len(rows))
        first = starts_of(sizes)
        values = np.fromiter((value for row in rows for value in row), dtype=np.int64, count=int(first[-1]))
        return cls(first, values)

    def sizes(self, batch: Int64Array) -> Int64Array:
        """How many numbers each sentence of the batch has: (B,)."""
        return self.first[batch + 1] - self.first[batch]

    def picked(self, batch: Int64Array, shifts: Int64Array | None = None) -> Int64Array:
        """The numbers of the sentences of the batch end to end, each sentence's raised by its shift.

        >>> Ragged.of([(7, 8), (), (9,)]).picked(np.array([2, 0]), np.array([0, 10]))
        array([ 9, 17, 18])
        """
        picked = np.empty(int(self.sizes(batch).sum()), dtype=np.int64)
        _pick(self.first, self.values, batch, np.zeros_like(batch) if shifts is None else shifts, picked)
        return picked

    def filled(self, batch: Int64Array, padding: int) -> Int64Array:
        """The numbers of the sentences of the batch below each other, filled up to the longest: (B, width).

        >>> Ragged.of([(7, 8), (), (9,)]).filled(np.array([2, 0]), 5)
        array([[9, 5],
               [7, 8]])
        """
        sizes = self.sizes(batch)
        table = np.full((len(batch), int(sizes.max(initial=0))), padding, dtype=np.int64)
        _fill(self.first, self.values, batch, table)
        return table


@kernel
def _fill(first: Int64Array, values: Int64Array, batch: Int64Array, table: Int64Array) -> None:
    for row in range(len(batch)):
        begin = first[batch[row]]
        for at in range(begin, first[batch[row] + 1]):
            table[row, at - begin] = values[at]


@kernel
def _pick(first: Int64Array, values: Int64Array, batch: Int64Array, shifts: Int64Array, picked: Int64Array) -> None:
    place = 0
    for row in range(len(batch)):
        for at in range(first[batch[row]], first[batch[row] + 1]):
            picked[place] = values[at] + shifts[row]
            place += 1


def on_device(tables: Sequence[Int64Array], device: torch.device | str) -> list[Tensor]:
    """Tables as tensors; a GPU gets them all in one transfer, because each would take longer to begin than to make."""
    if torch.device(device).type == "cpu":
        return [torch.from_numpy(table) for table in tables]
    flat = torch.from_numpy(np.concatenate([table.ravel() for table in tables])).pin_memory()
    parts = torch.split(flat.to(device, non_blocking=True), [table.size for table in tables])
    return [part.view(table.shape) for part, table in zip(parts, tables, strict=True)]


def arrays(*tensors: Tensor) -> tuple[Any, ...]:
    """The memory of tensors on the CPU, as kernels take it."""
    return tuple(tensor.detach().numpy() if tensor.requires_grad else tensor.numpy() for tensor in tensors)


@dataclass(frozen=True, slots=True)
class Edges:
    """The tokens at which spans begin (or end), each once, and for every span which is its own, on a device."""

    sentences: Int64Array  # (E,)
    tokens: Int64Array  # (E,)
    of_spans: Tensor  # (S,)


@dataclass(frozen=True, slots=True)
class Anchors:
    """The S spans of a batch of full forests by the tokens at which they begin and end."""

    starts: Edges
    ends: Edges  # at last tokens


@dataclass(frozen=True, slots=True)
class EdgeTable:
    """The edges of the spans of many sentences; `of_spans` counts from the sentence's own first edge."""

    tokens: Ragged
    of_spans: Ragged

    @classmethod
    def of(cls, first_node: Int64Array, tokens: Int32Array) -> EdgeTable:
        """The edges of spans, given the token of each, which are those of the nodes of full forests."""
        counts = np.empty(len(first_node) - 1, dtype=np.int64)
        distinct, numbers = (np.empty(len(tokens), dtype=np.int64) for _ in range(2))
        _number_tokens(first_node, tokens, np.empty(tokens.max(initial=0) + 1, np.int64), counts, distinct, numbers)
        first = starts_of(counts)
        return cls(Ragged(first, distinct[: first[-1]]), Ragged(first_node, numbers))

    def picked(self, batch: Int64Array) -> tuple[Int64Array, Int64Array, Int64Array]:
        """The columns of `Edges` for the sentences of a batch."""
        sizes = self.tokens.sizes(batch)
        sentences = np.repeat(np.arange(len(batch)), sizes)
        return sentences, self.tokens.picked(batch), self.of_spans.picked(batch, starts_of(sizes)[:-1])


@kernel
def _number_tokens(
    first_node: Int64Array,
    tokens: Int32Array,
    numbers: Int64Array,
    counts: Int64Array,
    distinct: Int64Array,
    of_spans: Int64Array,
) -> None:
    """Number the distinct tokens of every sentence in the order of appearance; `numbers` is room, one per token."""
    total = 0
    for sentence in range(len(counts)):
        numbers[:] = -1
        begun = total
        for span in range(first_node[sentence], first_node[sentence + 1]):
            token = tokens[span]
            if numbers[token] < 0:
                numbers[token] = total - begun
                distinct[total] = token
                total += 1
            of_spans[span] = numbers[token]
        counts[sentence] = total - begun


@dataclass(frozen=True, slots=True)
class AnchorTable:
    """The spans of many full forests, from which `picked` takes those of a batch."""

    starts: EdgeTable
    ends: EdgeTable

    @classmethod
    def of(cls, full: Hypergraph) -> AnchorTable:
        """The spans of full forests; in them every node is a span."""
        return cls(EdgeTable.of(full.first_node, full.starts), EdgeTable.of(full.first_node, full.ends - 1))

    def picked(self, batch: Int64Array, device: torch.device | str) -> Anchors:
        """The spans of the sentences of a batch, on a device."""
        sides = self.starts.picked(batch), self.ends.picked(batch)
        of_spans = on_device([each for _, _, each in sides], device)
        return Anchors(*(Edges(*side[:2], own) for side, own in zip(sides, of_spans, strict=True)))


def anchors(full: Hypergraph, device: torch.device | str) -> Anchors:
    """The spans of a batch of full forests."""
    return AnchorTable.of(full).picked(np.arange(len(full)), device)


def sentence_numbers(graph: Hypergraph) -> Int64Array:
    """For each node the sentence that it belongs to: (N,)."""
    return np.repeat(np.arange(len(graph)), np.diff(graph.first_node))


def span_numbers(graph: Hypergraph, full: Hypergraph) -> Int64Array:
    """For each node of `graph` the number of the node of `full` with the same span."""
    if graph is full:
        return np.arange(full.nodes)
    width = int(full.ends.max(initial=0)) + 1
    known, asked = ((sentence_numbers(each) * width + each.starts) * width + each.ends for each in (full, graph))
    order = np.argsort(known)
    return order[np.searchsorted(known[order], asked)]


@dataclass(frozen=True, slots=True)
class Pairs:
    """Pairs of a span and a rule, none of them twice."""

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
    of_full: Int64Array  # (A of full,)
    of_goal: Int64Array  # (A of goal,)

    @classmethod
    def of(cls, forests: Forests) -> PairTable:
        """The pairs of forests; whatever a goal forest has is also in the full one."""
        full, goal = forests.full, forests.goal
        rules = int(full.rules.max(initial=0)) + 1
        keys, of_full = np.unique(_keys(full, full, rules), return_inverse=True)
        of_goal = np.searchsorted(keys, _keys(goal, full, rules))
        spans, first = keys // rules, np.searchsorted(keys, full.first_node * rules)
        own = np.repeat(full.first_node[:-1], np.diff(first))
        return cls(
            full.first_node,
            Ragged(first, spans - own),
            Ragged(first, keys % rules),
            of_full - first[sentence_numbers(full)[full.owners()]],
            of_goal - first[sentence_numbers(goal)[goal.owners()]],
        )

    def picked(self, batch: Int64Array, device: torch.device | str) -> Pairs:
        """The pairs of the sentences of a batch, on a device."""
        spans = self.first_span[batch + 1] - self.first_span[batch]
        return Pairs(*on_device([self.spans.picked(batch, starts_of(spans)[:-1]), self.rules.picked(batch)], device))


def _keys(graph: Hypergraph, full: Hypergraph, rules: int) -> Int64Array:
    """A number for the span and the rule of each hyperedge: (A,)."""
    return span_numbers(graph, full)[graph.owners()] * rules + graph.rules
