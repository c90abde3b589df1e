"""How far a figure may be off: Wilson's interval for a share, the bootstrap for any other mean."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import NormalDist

import numpy as np

from nqg.errors import NqgError

CONFIDENCE = 0.95
RESAMPLES = 10_000


@dataclass(frozen=True, slots=True)
class Interval:
    """A range that holds the true figure with a given confidence; shares are printed in per cent.

    >>> str(Interval(0.5, 0.625))
    '50.0–62.5'
    """

    low: float
    high: float

    def __str__(self) -> str:
        return f"{100 * self.low:.1f}–{100 * self.high:.1f}"

    def __contains__(self, figure: float) -> bool:
        return self.low <= figure <= self.high


def wilson_interval(successes: int, trials: int, confidence: float = CONFIDENCE) -> Interval:
    """Wilson's score interval of a share.

    The bootstrap of a share of 0 or 1 has no width, and 100 % is the usual result on SCAN; this one keeps a width.

    >>> str(wilson_interval(100, 100))
    '96.3–100.0'
    """
    if not 0 <= successes <= trials or trials == 0:
        raise NqgError(f"expected successes among at least one trial, found {successes} of {trials}")
    z = NormalDist().inv_cdf((1 + _checked(confidence)) / 2)
    share, weight = successes / trials, z * z / trials
    middle = (share + weight / 2) / (1 + weight)
    half = z * sqrt(share * (1 - share) / trials + weight / (4 * trials)) / (1 + weight)
    # Rounding may leave the share itself just outside.
    return Interval(min(max(middle - half, 0.0), share), max(min(middle + half, 1.0), share))


def bootstrap_interval(
    values: Sequence[float], *, seed: int = 0, resamples: int = RESAMPLES, confidence: float = CONFIDENCE
) -> Interval:
    """The percentile bootstrap of a mean: the middle of the means of samples drawn from `values` with replacement.

    A sample is drawn as how often each different value is in it, so few different values cost little however many
    examples there are. For a difference between two systems, `values` are the differences on the same examples.

    >>> bootstrap_interval([0, 0, 1, 1] * 25).low
    0.4
    """
    if len(values) == 0 or resamples < 1:
        raise NqgError(f"expected values and samples to draw, found {len(values)} values and {resamples} samples")
    different, counts = np.unique(np.asarray(values, dtype=float), return_counts=True)
    drawn = np.random.default_rng(seed).multinomial(len(values), counts / len(values), size=resamples)
    outside = 50 * (1 - _checked(confidence))
    low, high = np.percentile(drawn @ different / len(values), [outside, 100 - outside])
    return Interval(float(low), float(high))


def _checked(confidence: float) -> float:
    if not 0 < confidence < 1:
        raise NqgError(f"expected a confidence between 0 and 1, found {confidence:g}")
    return confidence
