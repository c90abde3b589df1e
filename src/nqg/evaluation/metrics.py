"""From predictions and references to the paper's figures, coverage, precision and accuracy, with
their intervals.

Usable by itself: predictions and references are strings, and an abstention is None.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from math import sqrt
from statistics import NormalDist, fmean, stdev
from typing import Any

import numpy as np

from nqg.answers import exact_match
from nqg.errors import NqgError

# Guo et al. (2017) show bins of equal width; the number is customary.
RELIABILITY_BINS = 10
CONFIDENCE = 0.95
RESAMPLES = 10_000


@dataclass(frozen=True)
class Interval:
    """A range that holds the true figure with 95 % confidence; shares are printed in per cent.

    >>> str(Interval(0.5, 0.625))
    '50.0–62.5'
    """

    low: float
    high: float

    def __str__(self) -> str:
        return f"{100 * self.low:.1f}–{100 * self.high:.1f}"

    def __contains__(self, figure: float) -> bool:
        return self.low <= figure <= self.high


def wilson_interval(successes: int, trials: int) -> Interval:
    """Wilson's score interval of a share.

    The bootstrap of a share of 0 or 1 has no width, and 100 % is the usual result on SCAN; this one
    keeps a width.

    >>> str(wilson_interval(100, 100))
    '96.3–100.0'
    """
    # z is the number of standard deviations that 95 % of a normal distribution span.
    z = NormalDist().inv_cdf((1 + CONFIDENCE) / 2)
    share, weight = successes / trials, z * z / trials
    middle = (share + weight / 2) / (1 + weight)
    half = z * sqrt(share * (1 - share) / trials + weight / (4 * trials)) / (1 + weight)
    # Rounding may leave the share itself just outside.
    return Interval(
        min(max(middle - half, 0.0), share), max(min(middle + half, 1.0), share)
    )


def bootstrap_interval(
    values: Sequence[float], *, seed: int = 0, resamples: int = RESAMPLES
) -> Interval:
    """The percentile bootstrap of a mean: the middle of the means of samples drawn from `values`
    with replacement.

    A sample is drawn as how often each different value is in it, so few different values cost
    little however many examples there are. For a difference between two systems, `values` are the
    differences on the same examples.

    >>> bootstrap_interval([0, 0, 1, 1] * 25).low
    0.4
    """
    if len(values) == 0 or resamples < 1:
        numbers = f"{len(values)} values and {resamples} samples"
        raise NqgError(f"expected values and samples to draw, found {numbers}")
    # Draw the counts of distinct values, which are few, instead of single values.
    different, counts = np.unique(np.asarray(values, dtype=float), return_counts=True)
    drawn = np.random.default_rng(seed).multinomial(
        len(values), counts / len(values), size=resamples
    )
    # The percentiles on both sides of the interval.
    outside = 50 * (1 - CONFIDENCE)
    low, high = np.percentile(drawn @ different / len(values), [outside, 100 - outside])
    return Interval(float(low), float(high))


Match = Callable[[str, str], bool]  # whether a prediction is as good as the reference


@dataclass(frozen=True)
class Scores:
    """How a system does on examples, some of which it may leave unanswered.

    >>> print(Scores(examples=8, answered=4, right=3))
    accuracy 37.5 %, coverage 50.0 %, precision 75.0 %
    >>> print(Scores(examples=8, answered=0, right=0))
    accuracy 0.0 %, coverage 0.0 %, precision undefined
    """

    examples: int
    answered: int
    right: int

    def __post_init__(self) -> None:
        if not 0 <= self.right <= self.answered <= self.examples or self.examples == 0:
            counts = f"{self.right} right among {self.answered} answered among {self.examples}"
            raise NqgError(f"expected scores of at least one example, found {counts}")

    @classmethod
    def of(cls, verdicts: Sequence[bool | None]) -> Scores:
        """The scores of verdicts on single examples: right, wrong, or None for an abstention."""
        answered = [verdict for verdict in verdicts if verdict is not None]
        return cls(len(verdicts), len(answered), sum(answered))

    @property
    def accuracy(self) -> float:
        """The share of examples that are right. An abstention is not."""
        return self.right / self.examples

    @property
    def coverage(self) -> float:
        """The share of examples that are answered."""
        return self.answered / self.examples

    @property
    def precision(self) -> float | None:
        """The share of answers that are right. Undefined where there is no answer."""
        return self.right / self.answered if self.answered else None

    def intervals(self) -> dict[str, Interval | None]:
        """How far accuracy, coverage and precision may be off, with 95 % confidence."""
        return {
            "accuracy": wilson_interval(self.right, self.examples),
            "coverage": wilson_interval(self.answered, self.examples),
            "precision": wilson_interval(self.right, self.answered)
            if self.answered
            else None,
        }

    def to_dict(self) -> dict[str, Any]:
        """Everything, for JSON."""
        intervals = self.intervals()
        values: dict[str, Any] = asdict(self)
        for name in intervals:
            values[name] = getattr(self, name)
        for name, interval in intervals.items():
            values[f"{name}_95"] = interval and [interval.low, interval.high]
        return values

    def __str__(self) -> str:
        figures = {
            "accuracy": self.accuracy,
            "coverage": self.coverage,
            "precision": self.precision,
        }
        return ", ".join(f"{name} {percent(share)}" for name, share in figures.items())


def percent(share: float | None) -> str:
    """A share as it is printed.

    >>> percent(0.625), percent(None)
    ('62.5 %', 'undefined')
    """
    return "undefined" if share is None else f"{share:.1%}".replace("%", " %")


def score(
    predictions: Sequence[str | None],
    references: Sequence[str],
    match: Match = exact_match,
) -> Scores:
    """The scores of predictions. None is an abstention.

    >>> print(score(["J J", None, "W"], ["J J", "W W", "J"]))
    accuracy 33.3 %, coverage 66.7 %, precision 50.0 %
    """
    if len(predictions) != len(references):
        expected = f"{len(references)} predictions, one for each example"
        raise NqgError(f"expected {expected}, found {len(predictions)}")
    # An abstention has no verdict: it lowers the coverage, but not the precision.
    verdicts: list[bool | None] = []
    for prediction, reference in zip(predictions, references):
        verdicts.append(None if prediction is None else match(prediction, reference))
    return Scores.of(verdicts)


@dataclass(frozen=True)
class ReliabilityBin:
    """Answers of similar confidence: how many, their mean confidence, and how many are right."""

    answers: int
    confidence: float
    precision: float


def reliability(
    confidences: Sequence[float],
    verdicts: Sequence[bool],
    *,
    bins: int = RELIABILITY_BINS,
    adaptive: bool = False,
) -> list[ReliabilityBin]:
    """Answers in bins of their confidence, equally wide or, if `adaptive`, equally full; empty bins
    are left out.

    >>> for each in reliability([0.875, 0.875, 0.25], [True, True, False]): print(each)
    ReliabilityBin(answers=1, confidence=0.25, precision=0.0)
    ReliabilityBin(answers=2, confidence=0.875, precision=1.0)
    """
    if len(confidences) != len(verdicts) or bins < 1:
        counts = (
            f"{len(confidences)} confidences, {len(verdicts)} verdicts and {bins} bins"
        )
        expected = "a confidence and a verdict of each answer, and at least one bin"
        raise NqgError(f"expected {expected}, found {counts}")
    levels, rights = (
        np.asarray(confidences, dtype=float),
        np.asarray(verdicts, dtype=float),
    )
    # A stable sort makes the bins the same in every run where confidences are equal.
    if adaptive:
        groups = np.array_split(np.argsort(levels, kind="stable"), bins)
    else:
        # A confidence of exactly 1 belongs to the last bin, not to one beyond it.
        numbers = np.minimum((levels * bins).astype(int), bins - 1)
        groups = [np.flatnonzero(numbers == number) for number in range(bins)]
    # Empty bins have no mean, so they are left out.
    filled = []
    for group in groups:
        if len(group):
            confidence, precision = (
                float(levels[group].mean()),
                float(rights[group].mean()),
            )
            filled.append(ReliabilityBin(len(group), confidence, precision))
    return filled


def expected_calibration_error(bins: Sequence[ReliabilityBin]) -> float:
    """How far confidence and precision are apart, on average over the answers (Naeini et al. 2015,
    Guo et al. 2017).

    >>> expected_calibration_error([ReliabilityBin(3, 0.5, 0.5), ReliabilityBin(1, 0.75, 1.0)])
    0.0625
    """
    answers, total = 0, 0.0
    for group in bins:
        answers += group.answers
        total += group.answers * abs(group.confidence - group.precision)
    return total / answers if answers else 0.0


def gain(verdicts: Sequence[bool | None], others: Sequence[bool | None]) -> Interval:
    """How far the accuracy of a system is above that of another one on the same examples."""
    differences = []
    for one, another in zip(verdicts, others):
        differences.append(float(bool(one)) - float(bool(another)))
    return bootstrap_interval(differences)


@dataclass(frozen=True)
class Spread:
    """The mean of a share over runs, and its standard deviation, which a single run does not have.

    >>> str(Spread(0.75, 0.05, 3)), str(Spread(0.75, None, 1))
    ('75.0 ± 5.0 % (3 runs)', '75.0 % (1 run)')
    """

    mean: float
    deviation: float | None
    runs: int

    @property
    def in_percent(self) -> str:
        """The mean, with its deviation where there are several runs.

        >>> Spread(0.51, 0.014, 2).in_percent, Spread(1.0, None, 1).in_percent
        ('51.0 ± 1.4', '100.0')
        """
        mean = f"{100 * self.mean:.1f}"
        return (
            mean if self.deviation is None else f"{mean} ± {100 * self.deviation:.1f}"
        )

    def __str__(self) -> str:
        return f"{self.in_percent} % ({self.runs} run{'s' if self.runs > 1 else ''})"


def spread(figures: Sequence[float]) -> Spread:
    """The mean and the sample standard deviation (divided by one less than the runs).

    >>> print(spread([0.70, 0.75, 0.80]))
    75.0 ± 5.0 % (3 runs)
    """
    if not figures:
        raise NqgError("expected the figures of at least one run, found none")
    return Spread(
        fmean(figures), stdev(figures) if len(figures) > 1 else None, len(figures)
    )
