"""A gate: the fallback of a hybrid also answers where the grammar is not sure of its answer.

An extension of the paper's rule, "grammar first", for the rows called *gated*. The threshold is the
one that is best on held-out examples. `nqg train` combines both readers in another way
(`nqg.inference.hybrid`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace

from nqg.answers import Answer
from nqg.data.example import Example
from nqg.errors import NqgError, SettingsError
from nqg.inference.hybrid import grammar_first

NEVER = 2.0  # a threshold above any probability; JSON has no infinity
DECIMALS = 6  # of a probability, so that 1 - 1e-12, which is rounding, counts as 1


@dataclass(frozen=True, slots=True)
class Gate:
    """The grammar answers where its confidence is at least `threshold`: 0 is always, more than 1 is
    never.

    In a model without confidence its probability takes the place. Probability 1 means that there is
    no other reading, which is not the same as being sure: the only rule that fits may fit badly. So
    whether the gate `trusts_only_readings` is a choice of its own.

    >>> [Gate(0.5).accepts(probability) for probability in (0.2, 0.5, 1.0)]
    [False, True, True]
    """

    threshold: float = 0.0
    trusts_only_readings: bool = True
    calibration: Calibration | None = None  # what it was chosen on

    def __post_init__(self) -> None:
        if not self.threshold >= 0:
            raise SettingsError(
                f"the gate's threshold is {self.threshold}; expected 0 (always the grammar) or more"
            )

    def accepts(self, probability: float) -> bool:
        """Whether the grammar's answer of this probability is taken."""
        return not self.objection(probability)

    def objection(self, probability: float, name: str = "probability") -> str:
        """Why the grammar's answer of this probability, or confidence, is not taken; nothing where
        it is.
        """
        rounded = round(probability, DECIMALS)
        if rounded < self.threshold:
            return f"{name} {probability:.6g} is below {self.threshold:g}"
        if rounded >= 1 and not self.trusts_only_readings:
            return "the only reading, which the gate does not trust"
        return ""

    def __str__(self) -> str:
        if self.threshold > 1:
            return "the fallback answers always"
        where = "whenever it can"
        if self.threshold:
            where = f"where its confidence is at least {self.threshold:g}"
        if not self.trusts_only_readings:
            where += ", but not where it is 1"
        return f"the grammar answers {where}"


@dataclass(frozen=True, slots=True)
class Calibration:
    """How many held-out sentences each way of answering gets right."""

    trials: int
    grammar_alone: int
    fallback_alone: int
    grammar_first: int  # the paper's hybrid
    gated: int

    def __post_init__(self) -> None:
        if self.trials < 1:
            raise SettingsError(
                f"expected at least one trial in the calibration, found {self.trials}"
            )
        for name, right in asdict(self).items():
            if not 0 <= right <= self.trials:
                expected = f"expected 0 to {self.trials} as '{name}' of the calibration"
                raise SettingsError(f"{expected}, found {right}")

    def __str__(self) -> str:
        _, *counts = asdict(self).items()
        shares = [
            f"{name.replace('_', ' ')} {right / self.trials:.1%}"
            for name, right in counts
        ]
        return f"right on {self.trials:,} held-out examples: {', '.join(shares)}"


def gated(grammar: Answer, fallback: Answer, gate: Gate) -> Answer:
    """The hybrid's answer: the grammar's where it passes the gate, else the fallback's.

    >>> grammar, fallback = Answer("run", "RUN", 0.4), Answer("run", "JOG", system="fallback")
    >>> gated(grammar, fallback, Gate()).target, gated(grammar, fallback, Gate(0.5)).target
    ('RUN', 'JOG')
    """
    reason = ""
    if grammar.target is not None:
        reason = gate.objection(grammar.probability or 0.0)
    # A doubtful answer is better than none.
    if not reason or fallback.target is None:
        return grammar_first(grammar, fallback)
    return grammar_first(replace(grammar, target=None, reason=reason), fallback)


@dataclass(frozen=True)
class GateTrial:
    """What both systems of a hybrid made of a held-out sentence; without a probability the grammar
    abstained.
    """

    probability: float | None
    grammar_is_right: bool
    fallback_is_right: bool

    @classmethod
    def of(
        cls,
        by_grammar: Answer,
        by_fallback: Answer,
        example: Example,
        is_right: Callable[[str, Example], bool],
    ) -> GateTrial:
        """The trial of two answers; a hybrid whose fallback abstains answers as its grammar."""
        program, fallback_program = by_grammar.target, by_fallback.target
        # No probability means that the grammar abstained, which counts as not right.
        probability = None
        grammar_is_right = False
        if program is not None:
            probability = by_grammar.probability or 0.0
            grammar_is_right = is_right(program, example)
        if fallback_program is None:
            return cls(probability, grammar_is_right, grammar_is_right)
        return cls(probability, grammar_is_right, is_right(fallback_program, example))

    def is_right(self, gate: Gate) -> bool:
        if self.probability is not None and gate.accepts(self.probability):
            return self.grammar_is_right
        return self.fallback_is_right


def calibrated_gate(trials: Sequence[GateTrial]) -> Gate:
    """The gate with which most trials are right; among equals the one that accepts most, "grammar
    first".

    >>> wrong_when_unsure = [GateTrial(0.4, False, True), GateTrial(0.7, True, True)]
    >>> calibrated_gate(wrong_when_unsure).threshold
    0.7
    """
    if not trials:
        raise NqgError(
            "a gate is calibrated on held-out examples, found none; hold out a larger share"
        )
    # What is gained by handing over to the fallback, by the grammar's probability.
    gains: Counter[float] = Counter()
    for trial in trials:
        if trial.probability is not None:
            gain = trial.fallback_is_right - trial.grammar_is_right
            gains[round(trial.probability, DECIMALS)] += gain
    trusts_only_readings = gains.pop(1.0, 0) <= 0

    # A threshold hands over all that lies below it. Thresholds rise, so the first of the best
    # accepts most.
    levels = sorted(gains)
    thresholds = [*levels[1:], 1.0 if trusts_only_readings else NEVER]
    best_threshold, best_gain, gain = 0.0, 0, 0
    for level, threshold in zip(levels, thresholds):
        gain += gains[level]
        if gain > best_gain:
            best_threshold, best_gain = threshold, gain
    gate = Gate(best_threshold, trusts_only_readings)
    # How many trials each system answers rightly.
    right: Counter[str] = Counter()
    for trial in trials:
        right["grammar"] += trial.grammar_is_right
        right["fallback"] += trial.fallback_is_right
        right["grammar first"] += trial.is_right(Gate())
        right["gated"] += trial.is_right(gate)
    calibration = Calibration(
        len(trials),
        grammar_alone=right["grammar"],
        fallback_alone=right["fallback"],
        grammar_first=right["grammar first"],
        gated=right["gated"],
    )
    return replace(gate, calibration=calibration)
