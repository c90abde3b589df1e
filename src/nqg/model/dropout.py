"""Dropout on CPUs from few random bits: one number of torch's generator starts a stream, and 16 bits decide a value.

torch's own takes 64 random bits and several passes over memory for each value, a tenth of a step of a small encoder.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from nqg.model.vectorised import Reals, vectorised

CHANCES = 1 << 16  # steps to which the probability is rounded


def dropped(values: Tensor, dropout: torch.nn.Dropout) -> Tensor:
    """`values` after dropout."""
    return values * kept(values.shape, dropout, values.dtype) if dropout.training and dropout.p else values


def kept(shape: torch.Size, dropout: torch.nn.Dropout, dtype: torch.dtype) -> Tensor:
    """For every value the factor that dropout gives it: 0, or what makes up for the lost ones."""
    lost = round(dropout.p * CHANCES) if dropout.training else 0
    if lost in (0, CHANCES):
        return torch.full(shape, float(lost == 0), dtype=dtype)
    rows = torch.empty(4, -(-shape.numel() // 4), dtype=dtype)
    seed = np.uint64(torch.randint(1 << 62, ()).item())
    _draw(seed, np.uint64(lost), CHANCES / (CHANCES - lost), rows.numpy())
    return rows.view(-1)[: shape.numel()].view(shape)


@vectorised
def _draw(seed: np.uint64, lost: np.uint64, factor: float, rows: Reals) -> None:
    """Fill four rows; each column has one number of the SplitMix64 stream of the seed, 16 bits for each row."""
    for column in range(rows.shape[1]):
        bits = seed + np.uint64(column) * np.uint64(0x9E3779B97F4A7C15)
        bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        bits ^= bits >> np.uint64(31)
        for row in range(4):
            chance = (bits >> np.uint64(16 * row)) & np.uint64(0xFFFF)
            rows[row, column] = factor if chance >= lost else 0.0
