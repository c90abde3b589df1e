"""When the grammar answers and when the fallback does: one threshold on the grammar's probability of its answer.

The paper's NQG-T5 is "grammar first": whatever the grammar derives is the answer. A gate keeps that where the grammar
is sure and hands over to the fallback where it is not. How sure is sure enough is learned from `Trial`s, sentences with
known programs that neither part was trained on; `nqg.inference.calibration` makes them.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from itertools import accumulate
from pathlib import Path
from typing import Any

from nqg.data.strict_json import strict_json
from nqg.errors import FormatError, NqgError, Place, SettingsError
from nqg.files import numbered_lines, write_text

NEVER = 2.0  # more than any probability
_DECIMALS = 6  # so that 1 - 1e-12, which is rounding, counts as 1


@dataclass(frozen=True, slots=True)
class Calibration:
    """How many held-out sentences each way of answering gets right."""

    trials: int
    grammar_alone: int
    fallback_alone: int
    grammar_first: int  # the paper's hybrid
    gated: int

    def __str__(self) -> str:
        ways = [field.name for field in fields(self)[1:]]
        shares = (f"{way.replace('_', ' ')} {getattr(self, way) / self.trials:.1%}" for way in ways)
        return f"right on {self.trials:,} held-out examples: {', '.join(shares)}"


@dataclass(frozen=True, slots=True)
class Gate:
    """The grammar answers where its probability is at least `threshold`: 0 is always, more than 1 is never.

    >>> [Gate(0.5).lets_pass(probability) for probability in (0.2, 0.5, 1.0)]
    [False, True, True]
    """

    threshold: float = 0.0
    calibration: Calibration | None = None  # what it was chosen on

    def __post_init__(self) -> None:
        if not self.threshold >= 0:
            raise SettingsError(f"the gate's threshold is {self.threshold}; expected 0 (always the grammar) or more")

    def lets_pass(self, probability: float) -> bool:
        """Whether the grammar's answer of this probability is taken."""
        return round(probability, _DECIMALS) >= self.threshold

    def __str__(self) -> str:
        if self.threshold == 0:
            return "the grammar answers whenever it can"
        if self.threshold > 1:
            return "the fallback answers always"
        return f"the grammar answers where its probability is at least {self.threshold:g}"

    def write(self, path: Path) -> None:
        """Write the gate as JSON; `read` gives it back."""
        write_text(path, json.dumps(asdict(self), indent=1) + "\n")

    @classmethod
    def read(cls, path: Path) -> Gate:
        """What `write` wrote; anything else is refused with the reason."""
        text = "\n".join(line for _, line in numbered_lines(path))
        facts = strict_json(text, Place(path, 1))
        if not isinstance(facts, dict) or not _is_number(facts.get("threshold")):
            raise FormatError("expected an object with a number as 'threshold'", path)
        figures = facts.get("calibration")
        return cls(facts["threshold"], None if figures is None else _calibration(figures, path))


def _calibration(figures: Any, path: Path) -> Calibration:
    names = [field.name for field in fields(Calibration)]
    if not isinstance(figures, dict) or sorted(figures) != sorted(names) or not all(map(_is_number, figures.values())):
        raise FormatError(f"expected numbers for {', '.join(names)} as 'calibration'", path)
    return Calibration(**figures)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


@dataclass(frozen=True, slots=True)
class Trial:
    """What both parts made of a held-out sentence; the probability is None where the grammar abstained."""

    probability: float | None
    grammar_is_right: bool
    fallback_is_right: bool

    def is_right(self, gate: Gate) -> bool:
        """Whether the hybrid with `gate` is."""
        by_grammar = self.probability is not None and gate.lets_pass(self.probability)
        return self.grammar_is_right if by_grammar else self.fallback_is_right


def calibrated_gate(trials: Sequence[Trial]) -> Gate:
    """The gate with which most trials are right; among equals the lowest threshold, "grammar first".

    >>> wrong_when_unsure = [Trial(0.4, False, True), Trial(0.7, True, True), Trial(1.0, True, False)]
    >>> calibrated_gate(wrong_when_unsure).threshold
    0.7
    """
    if not trials:
        raise NqgError("a gate is calibrated on held-out examples, found none; hold out a larger share")
    gate = Gate(_best_threshold(trials))
    calibration = Calibration(
        len(trials),
        grammar_alone=sum(trial.grammar_is_right for trial in trials),
        fallback_alone=sum(trial.fallback_is_right for trial in trials),
        grammar_first=sum(trial.is_right(Gate()) for trial in trials),
        gated=sum(trial.is_right(gate) for trial in trials),
    )
    return replace(gate, calibration=calibration)


def _best_threshold(trials: Sequence[Trial]) -> float:
    gains: Counter[float] = Counter()  # of handing over, by the grammar's probability
    for trial in trials:
        if trial.probability is not None:
            gains[round(trial.probability, _DECIMALS)] += trial.fallback_is_right - trial.grammar_is_right
    levels = sorted(gains)
    handed_over = accumulate((gains[level] for level in levels), initial=0)  # all that lies below a threshold
    choices = zip(handed_over, [0.0, *levels[1:], NEVER], strict=False)
    return max(choices, key=lambda choice: (choice[0], -choice[1]))[1]
