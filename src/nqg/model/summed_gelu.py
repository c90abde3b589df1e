"""GELU of sums of rows, with its slopes for the way back: compiled on CPUs in single precision, torch's elsewhere."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import gelu

from nqg.model.gelu_kernels import gelu_of_sums
from nqg.model.spans import arrays
from nqg.model.threads import in_threads

FEWEST_ROWS = 256  # that are worth a thread


@dataclass(frozen=True, slots=True)
class Sums:
    """S sums, each of a row of one table and a row of another."""

    of_lefts: Tensor  # (S,)
    of_rights: Tensor  # (S,)

    def gelu(self, lefts: Tensor, rights: Tensor) -> tuple[Tensor, Tensor]:
        """The GELU of the sums, and its derivative there: (S, d) each."""
        if _is_compiled_for(lefts):
            return self._compiled_gelu(lefts, rights)
        sums = lefts.index_select(0, self.of_lefts).add_(rights.index_select(0, self.of_rights))
        return gelu(sums), torch.ops.aten.gelu_backward(sums.new_ones(()).expand_as(sums), sums)

    def _compiled_gelu(self, lefts: Tensor, rights: Tensor) -> tuple[Tensor, Tensor]:
        out, slopes = (lefts.new_empty(len(self.of_lefts), lefts.shape[1]) for _ in range(2))
        left, right, *tables = arrays(lefts, rights, self.of_lefts, self.of_rights, out, slopes)

        def fill(rows: slice) -> None:
            of_lefts, of_rights, values, derivatives = (table[rows] for table in tables)
            gelu_of_sums(left, of_lefts, right, of_rights, values, derivatives)

        in_threads(fill, len(out), FEWEST_ROWS)
        return out, slopes

    def gelu_backwards(self, flow: Tensor, slopes: Tensor, sizes: tuple[int, int]) -> tuple[Tensor, Tensor]:
        """What arrives at the tables, which have so many rows, of a gradient of the GELU."""
        here = flow * slopes
        to_lefts, to_rights = (here.new_zeros(size, here.shape[1]) for size in sizes)
        return to_lefts.index_add_(0, self.of_lefts, here), to_rights.index_add_(0, self.of_rights, here)


def _is_compiled_for(table: Tensor) -> bool:
    return table.device.type == "cpu" and table.dtype == torch.float32
