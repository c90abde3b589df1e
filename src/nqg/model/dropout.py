"""Dropout on CPUs from few random bits: one number of torch's generator starts a stream, and 16 bits decide a value.

torch's own takes 64 random bits and several passes over memory for each value, a tenth of a step of a small encoder.
Kernels draw row by row and keep nothing: the same seed draws the same again on the way back.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from nqg.model.vectorised import Reals, vectorised

CHANCES = 1 << 16  # steps to which the probability is rounded


@dataclass(frozen=True, slots=True)
class Drops:
    """What dropout does to a table: `lost` of `CHANCES` chances are to become 0, `factor` is what the others get."""

    seed: np.uint64
    lost: int  # 0 where nothing is left to chance
    factor: float

    @classmethod
    def of(cls, dropout: torch.nn.Dropout) -> Drops:
        """A new draw, if there is anything to draw."""
        lost = round(dropout.p * CHANCES) if dropout.training else 0
        if lost in (0, CHANCES):
            return cls(np.uint64(0), 0, float(lost == 0))
        return cls(np.uint64(torch.randint(1 << 62, ()).item()), lost, CHANCES / (CHANCES - lost))

    @property
    def facts(self) -> tuple[np.uint64, int, float]:
        """As kernels take it."""
        return self.seed, self.lost, self.factor

    def factors(self, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        """For every value of a table of rows the factor that it gets: 0, or what makes up for the lost ones."""
        if not self.lost:
            return torch.full(shape, self.factor, dtype=dtype)
        factors = torch.empty(shape, dtype=dtype)
        _draw(*self.facts, factors.numpy())
        return factors


@vectorised
def _draw(seed: np.uint64, lost: int, factor: float, table: Reals) -> None:
    for row in range(len(table)):
        draw_row(seed, lost, factor, row, table[row])


@vectorised
def draw_row(seed: np.uint64, lost: int, factor: float, row: int, kept: Reals) -> None:
    """Fill `kept` with the factors of a row, from numbers of the SplitMix64 stream of the seed, 16 bits for each."""
    bits = np.empty((len(kept) + 3) // 4, dtype=np.uint64)
    first = seed + np.uint64(row * len(bits)) * np.uint64(0x9E3779B97F4A7C15)
    for place in range(len(bits)):
        number = first + np.uint64(place) * np.uint64(0x9E3779B97F4A7C15)
        number = (number ^ (number >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        number = (number ^ (number >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        bits[place] = number ^ (number >> np.uint64(31))
    chances, least = bits.view(np.uint16), np.uint16(lost)
    yes, no = kept.dtype.type(factor), kept.dtype.type(0)
    for place in range(len(kept)):
        kept[place] = yes if chances[place] >= least else no
