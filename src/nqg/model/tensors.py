"""Batches on the device that torch computes on: a GPU gets all arrays in one transfer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from nqg.grammar.arrays import Int64Array
from nqg.model.spans import Anchors, Pairs
from nqg.model.subwords import SubwordBatch


def best_device() -> str:
    """The GPU where there is one."""
    return "cuda" if torch.cuda.is_available() else "cpu"


def to_device(tables: Sequence[Int64Array], device: torch.device | str) -> list[Tensor]:
    """Tables as tensors; a GPU gets all of them in one transfer, because starting one is slow."""
    if torch.device(device).type == "cpu":
        return list(map(torch.from_numpy, tables))
    flat = torch.from_numpy(np.concatenate([table.ravel() for table in tables]))
    moved = flat.pin_memory().to(device, non_blocking=True)
    columns = torch.split(moved, [table.size for table in tables])
    return [column.view(table.shape) for column, table in zip(columns, tables)]


@dataclass(frozen=True, slots=True)
class BatchTensors:
    """Sentences, their spans, and pairs of span and rule."""

    sentences: SubwordBatch[Tensor]
    spans: Anchors[Tensor]
    rows: Tensor  # (E,) of the subwords at which spans begin and end
    pairs: Pairs[Tensor]

    @classmethod
    def of(
        cls,
        sentences: SubwordBatch[Int64Array],
        spans: Anchors[Int64Array],
        pairs: Pairs[Int64Array],
        device: torch.device | str,
    ) -> BatchTensors:
        starts, ends = spans.starts, spans.ends
        ids, places, of_starts, of_ends, rows, pair_spans, pair_rules = to_device(
            [
                sentences.ids,
                sentences.places,
                starts.of_spans,
                ends.of_spans,
                sentences.rows(spans),
                pairs.spans,
                pairs.rules,
            ],
            device,
        )
        return cls(
            sentences.with_arrays(ids, places),
            Anchors(starts.with_array(of_starts), ends.with_array(of_ends)),
            rows,
            Pairs(pair_spans, pair_rules),
        )
