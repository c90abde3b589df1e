"""Tables with a few rows for every sentence, so that a batch is a copy of rows and needs no work a second time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nqg.grammar.compiled import kernel
from nqg.grammar.graph import Longs, starts_of


@dataclass(frozen=True, slots=True)
class Ragged:
    """Numbers of n sentences end to end: those of sentence i are values[first[i]] to values[first[i + 1] - 1]."""

    first: Longs  # (n + 1,)
    values: Longs

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

    def sizes(self, batch: Longs) -> Longs:
        """How many numbers each sentence of the batch has: (B,)."""
        return self.first[batch + 1] - self.first[batch]

    def picked(self, batch: Longs, shifts: Longs | None = None) -> Longs:
        """The numbers of the sentences of the batch end to end, each sentence's raised by its shift.

        >>> Ragged.of([(7, 8), (), (9,)]).picked(np.array([2, 0]), np.array([0, 10]))
        array([ 9, 17, 18])
        """
        picked = np.empty(int(self.sizes(batch).sum()), dtype=np.int64)
        _pick(self.first, self.values, batch, np.zeros_like(batch) if shifts is None else shifts, picked)
        return picked

    def filled(self, batch: Longs, padding: int) -> Longs:
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
def _fill(first: Longs, values: Longs, batch: Longs, table: Longs) -> None:
    for row in range(len(batch)):
        begin = first[batch[row]]
        for at in range(begin, first[batch[row] + 1]):
            table[row, at - begin] = values[at]


@kernel
def _pick(first: Longs, values: Longs, batch: Longs, shifts: Longs, picked: Longs) -> None:
    place = 0
    for row in range(len(batch)):
        for at in range(first[batch[row]], first[batch[row] + 1]):
            picked[place] = values[at] + shifts[row]
            place += 1


def on_device(tables: Sequence[Longs], device: torch.device | str) -> list[Tensor]:
    """Tables as tensors; a GPU gets them all in one transfer, because each would take longer to begin than to make."""
    if torch.device(device).type == "cpu":
        return [torch.from_numpy(table) for table in tables]
    flat = torch.from_numpy(np.concatenate([table.ravel() for table in tables])).pin_memory()
    parts = torch.split(flat.to(device, non_blocking=True), [table.size for table in tables])
    return [part.view(table.shape) for part, table in zip(parts, tables, strict=True)]


def arrays(*tensors: Tensor) -> tuple[Any, ...]:
    """The memory of tensors on the CPU, as kernels take it."""
    return tuple(tensor.detach().numpy() if tensor.requires_grad else tensor.numpy() for tensor in tensors)
