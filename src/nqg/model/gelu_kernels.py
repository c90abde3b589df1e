"""GELU of sums of two rows, and its slope with it, compiled: x P(x) and P(x) + x p(x), where p is the normal density.

In single precision. exp(y) is 2^n exp(r) with |r| <= log(2) / 2, where n goes into the exponent of a float and the
rest is a series. P(-x), for x > 0, is exp(-x^2 / 2) times a polynomial of 1 / (1 + c x), after Hastings, fitted so that
it is off by 1e-9 at most. torch's own computes all of this twice, on the way there and on the way back.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from nqg.grammar.arrays import Int64Array
from nqg.model.vectorised import vectorised

Singles = NDArray[np.float32]

PER_LOG_2 = np.float32(1 / math.log(2))
LOG_2, REST_OF_LOG_2 = np.float32(0.693359375), np.float32(math.log(2) - 0.693359375)  # n times the first is exact
SERIES = tuple(np.float32(1 / math.factorial(power)) for power in range(8))
SMALLEST = np.float32(-87)  # exp of less is not a normal float
C = np.float32(0.45 / math.sqrt(2))
TAIL = tuple(
    np.float32(coefficient / 2)
    for coefficient in (0.25898965, 0.20100964, 0.46016983, -0.37580147, 0.85716654, -0.49410371, 0.09256951)
)
DENSITY = np.float32(1 / math.sqrt(2 * math.pi))  # at 0


@vectorised
def gelu_of_sums(
    lefts: Singles, of_lefts: Int64Array, rights: Singles, of_rights: Int64Array, out: Singles, slopes: Singles
) -> None:
    """The GELU of lefts[of_lefts] + rights[of_rights], and its derivative into `slopes`: (S, d) each."""
    width = out.shape[1]
    sums, densities = np.empty(width, dtype=np.float32), np.empty(width, dtype=np.float32)
    room = np.empty(width, dtype=np.int32)
    for row in range(len(out)):
        left, right = of_lefts[row], of_rights[row]
        for place in range(width):
            sums[place] = lefts[left, place] + rights[right, place]
        _fill_densities(sums, room, densities)
        _fill_gelu(sums, densities, out[row], slopes[row])


@vectorised
def _fill_densities(values: Singles, room: NDArray[np.int32], out: Singles) -> None:
    """exp(-x^2 / 2) of values, the density but for its factor."""
    a, b, c, d, e, f, g, h = SERIES
    for place in range(len(values)):
        power = max(np.float32(-0.5) * values[place] * values[place], SMALLEST)
        whole = np.floor(power * PER_LOG_2 + np.float32(0.5))
        r = power - whole * LOG_2 - whole * REST_OF_LOG_2
        out[place] = ((((((h * r + g) * r + f) * r + e) * r + d) * r + c) * r + b) * r + a
        room[place] = (np.int32(whole) + np.int32(127)) << np.int32(23)  # the bits of 2^whole
    powers = room.view(np.float32)
    for place in range(len(values)):
        out[place] *= powers[place]


@vectorised
def _fill_gelu(values: Singles, densities: Singles, out: Singles, slopes: Singles) -> None:
    one = np.float32(1)
    a, b, c, d, e, f, g = TAIL
    for place in range(len(values)):
        x = values[place]
        t = one / (one + C * abs(x))
        tail = densities[place] * t * ((((((g * t + f) * t + e) * t + d) * t + c) * t + b) * t + a)
        below = tail if x < 0 else one - tail
        out[place] = x * below
        slopes[place] = below + DENSITY * densities[place] * x
