"""What ends both halves of a layer of BERT, in one pass: LayerNorm(dropout(new + bias) + old), and the way back.

M rows of D values. Loops are short, with few arrays each, because only then does LLVM find out that it may vectorise.
"""

from __future__ import annotations

import numpy as np

from nqg.model.dropout import draw_row
from nqg.model.vectorised import Reals, vectorised


@vectorised
def add_and_normalise(
    seed: np.uint64, lost: int, factor: float, epsilon: float, new: Reals, bias: Reals, old: Reals,
    weight: Reals, shift: Reals, normal: Reals, inverse: Reals, out: Reals,
) -> None:  # fmt: skip
    """Fill `out`, and for the way back `normal`, the rows before `weight`, and `inverse`, their scales: (M,)."""
    real, width = new.dtype.type, new.shape[1]
    kept, total = np.full(width, real(factor)), np.empty(width, dtype=new.dtype)
    share = real(1) / real(width)
    for row in range(len(new)):
        if lost:
            draw_row(seed, lost, factor, row, kept)
        mean, spread = real(0), real(0)
        for place in range(width):
            total[place] = (new[row, place] + bias[place]) * kept[place] + old[row, place]
        for place in range(width):
            mean += total[place]
        mean *= share
        for place in range(width):
            spread += (total[place] - mean) * (total[place] - mean)
        inverse[row] = real(1) / np.sqrt(spread * share + real(epsilon))
        for place in range(width):
            normal[row, place] = (total[place] - mean) * inverse[row]
        for place in range(width):
            out[row, place] = normal[row, place] * weight[place] + shift[place]


@vectorised
def add_and_normalise_backwards(
    seed: np.uint64, lost: int, factor: float, flow: Reals, normal: Reals, inverse: Reals, weight: Reals,
    to_new: Reals, to_bias: Reals, to_old: Reals, to_weight: Reals, to_shift: Reals,
) -> None:  # fmt: skip
    """Carry `flow`, the gradient of `out`, on to what it came from; those of bias, weight and shift hold zeros."""
    real, width = flow.dtype.type, flow.shape[1]
    kept = np.full(width, real(factor))
    share = real(1) / real(width)
    for row in range(len(flow)):
        if lost:
            draw_row(seed, lost, factor, row, kept)
        mean, slope = real(0), real(0)
        for place in range(width):
            mean += flow[row, place] * weight[place]
            slope += flow[row, place] * weight[place] * normal[row, place]
        mean *= share
        slope *= share
        scale = inverse[row]
        for place in range(width):
            to_old[row, place] = scale * (flow[row, place] * weight[place] - mean - normal[row, place] * slope)
        for place in range(width):
            to_new[row, place] = to_old[row, place] * kept[place]
        for place in range(width):
            to_bias[place] += to_new[row, place]
        for place in range(width):
            to_weight[place] += flow[row, place] * normal[row, place]
        for place in range(width):
            to_shift[place] += flow[row, place]
