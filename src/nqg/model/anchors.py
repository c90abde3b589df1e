"""Which scores a batch of forests needs: every span once, and every application by its span and its rule."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from nqg.forests.levels import levels
from nqg.grammar.graph import Graph, Longs
from nqg.model.forest_crf import LevelTensors


@dataclass(frozen=True, slots=True)
class Anchors:
    """The spans of a batch of full forests: S of them, each with its sentence, first and last token."""

    sentences: Tensor  # (S,)
    starts: Tensor  # (S,)
    ends: Tensor  # (S,) last token


@dataclass(frozen=True, slots=True)
class AnchoredForest:
    """A batch of forests with, for every application in the order of levels, its span's number and its rule."""

    levels: LevelTensors
    spans: Tensor  # (A,)
    rules: Tensor  # (A,)


def anchors(full: Graph, device: torch.device | str) -> Anchors:
    """The spans of full forests; in them every choice is a span."""
    tables = (_sentences(full), full.starts, full.ends - 1)
    return Anchors(*(torch.from_numpy(np.asarray(table, dtype=np.int64)).to(device) for table in tables))


def anchored(graph: Graph, full: Graph, device: torch.device | str) -> AnchoredForest:
    """A batch of full or goal forests over the spans of `full`."""
    laid_out = levels(graph)
    spans = span_numbers(graph, full)[laid_out.choices][laid_out.owners]
    rules = graph.rules[laid_out.applications].astype(np.int64)
    return AnchoredForest(
        LevelTensors.of(laid_out, device), torch.from_numpy(spans).to(device), torch.from_numpy(rules).to(device)
    )


def _sentences(graph: Graph) -> Longs:
    return np.repeat(np.arange(len(graph)), np.diff(graph.first_choice))


def span_numbers(graph: Graph, full: Graph) -> Longs:
    """For each choice of `graph` the number of the choice of `full` with the same span."""
    if graph is full:
        return np.arange(full.choices)
    width = int(full.ends.max(initial=0)) + 1
    known, asked = ((_sentences(each) * width + each.starts) * width + each.ends for each in (full, graph))
    order = np.argsort(known)
    return order[np.searchsorted(known[order], asked)]
