"""The spans of full forests, by the tokens at which they begin and end, each such token once.

All of it belongs to a sentence and not to a batch, so it is worked out once and only picked for each batch.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from nqg.grammar.compiled import kernel
from nqg.grammar.graph import Graph, Longs, starts_of
from nqg.grammar.trie import Integers
from nqg.model.ragged import Ragged, on_device


@dataclass(frozen=True, slots=True)
class Edges:
    """The tokens at which spans begin (or end), each once, and for every span which is its own, on a device."""

    sentences: Longs  # (E,)
    tokens: Longs  # (E,)
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
    def of(cls, first_choice: Longs, tokens: Integers) -> EdgeTable:
        """The edges of spans, given the token of each, which are those of the choices of full forests."""
        counts = np.empty(len(first_choice) - 1, dtype=np.int64)
        distinct, numbers = (np.empty(len(tokens), dtype=np.int64) for _ in range(2))
        _number_tokens(first_choice, tokens, np.empty(tokens.max(initial=0) + 1, np.int64), counts, distinct, numbers)
        first = starts_of(counts)
        return cls(Ragged(first, distinct[: first[-1]]), Ragged(first_choice, numbers))

    def picked(self, batch: Longs) -> tuple[Longs, Longs, Longs]:
        """The columns of `Edges` for the sentences of a batch."""
        sizes = self.tokens.sizes(batch)
        sentences = np.repeat(np.arange(len(batch)), sizes)
        return sentences, self.tokens.picked(batch), self.of_spans.picked(batch, starts_of(sizes)[:-1])


@kernel
def _number_tokens(
    first_choice: Longs, tokens: Integers, numbers: Longs, counts: Longs, distinct: Longs, of_spans: Longs
) -> None:
    """Number the distinct tokens of every sentence in the order of appearance; `numbers` is room, one per token."""
    total = 0
    for sentence in range(len(counts)):
        numbers[:] = -1
        begun = total
        for span in range(first_choice[sentence], first_choice[sentence + 1]):
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
    def of(cls, full: Graph) -> AnchorTable:
        """The spans of full forests; in them every choice is a span."""
        return cls(EdgeTable.of(full.first_choice, full.starts), EdgeTable.of(full.first_choice, full.ends - 1))

    def picked(self, batch: Longs, device: torch.device | str) -> Anchors:
        """The spans of the sentences of a batch, on a device."""
        sides = self.starts.picked(batch), self.ends.picked(batch)
        of_spans = on_device([each for _, _, each in sides], device)
        return Anchors(*(Edges(*side[:2], own) for side, own in zip(sides, of_spans, strict=True)))


def anchors(full: Graph, device: torch.device | str) -> Anchors:
    """The spans of a batch of full forests."""
    return AnchorTable.of(full).picked(np.arange(len(full)), device)


def sentence_numbers(graph: Graph) -> Longs:
    """For each choice the sentence that it belongs to: (N,)."""
    return np.repeat(np.arange(len(graph)), np.diff(graph.first_choice))


def span_numbers(graph: Graph, full: Graph) -> Longs:
    """For each choice of `graph` the number of the choice of `full` with the same span."""
    if graph is full:
        return np.arange(full.choices)
    width = int(full.ends.max(initial=0)) + 1
    known, asked = ((sentence_numbers(each) * width + each.starts) * width + each.ends for each in (full, graph))
    order = np.argsort(known)
    return order[np.searchsorted(known[order], asked)]
