"""A figure from several runs that differ in their seed: its mean, and how much it varies (the paper's table 9)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from nqg.errors import NqgError


@dataclass(frozen=True, slots=True)
class Spread:
    """The mean of a share over runs, and its standard deviation, which a single run does not have.

    >>> str(Spread(0.75, 0.05, 3)), str(Spread(0.75, None, 1))
    ('75.0 ± 5.0 % (3 runs)', '75.0 % (1 run)')
    """

    mean: float
    deviation: float | None
    runs: int

    def __str__(self) -> str:
        if self.deviation is None:
            return f"{100 * self.mean:.1f} % (1 run)"
        return f"{100 * self.mean:.1f} ± {100 * self.deviation:.1f} % ({self.runs} runs)"


def spread(figures: Sequence[float]) -> Spread:
    """The mean and the sample standard deviation (divided by one less than the runs).

    >>> print(spread([0.70, 0.75, 0.80]))
    75.0 ± 5.0 % (3 runs)
    """
    if not figures:
        raise NqgError("expected the figures of at least one run, found none")
    return Spread(fmean(figures), stdev(figures) if len(figures) > 1 else None, len(figures))
