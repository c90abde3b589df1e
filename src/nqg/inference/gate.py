"""When the grammar answers and when the fallback does: one threshold on the grammar's probability of its answer.

The paper's NQG-T5 is "grammar first": whatever the grammar derives is the answer. A gate keeps that where the grammar
is sure and hands over to the fallback where it is not. How sure is sure enough is learned from `Trial`s, sentences with
known programs that neither part was trained on; `nqg.inference.calibration` makes them.
"""

from __future__ import annotations

import json
import sys
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

    Probability 1 means that there is no other reading, which is not the same as being sure: the only rule that fits may
    fit badly. So whether the gate `trusts_only_readings` is a choice of its own.

    >>> [Gate(0.5).lets_pass(probability) for probability in (0.2, 0.5, 1.0)]
    [False, True, True]
    """

    threshold: float = 0.0
    trusts_only_readings: bool = True
    calibration: Calibration | None = None  # what it was chosen on

    def __post_init__(self) -> None:
        if not self.threshold >= 0:
            raise SettingsError(f"the gate's threshold is {self.threshold}; expected 0 (always the grammar) or more")

    def lets_pass(self, probability: float) -> bool:
        """Whether the grammar's answer of this probability is taken."""
        return not self.objection(probability)

    def objection(self, probability: float) -> str:
        """Why the grammar's answer of this probability is not taken; nothing where it is."""
        level = round(probability, _DECIMALS)
        if level < self.threshold:
            return f"probability {probability:.6g} is below {self.threshold:g}"
        return "" if level < 1 or self.trusts_only_readings else "the only reading, which the gate does not trust"

    def __str__(self) -> str:
        if self.threshold > 1:
            return "the fallback answers always"
        where = f"where its probability is at least {self.threshold:g}" if self.threshold else "whenever it can"
        return f"the grammar answers {where}{'' if self.trusts_only_readings else ', but not where it is 1'}"

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
        trusts, figures = facts.get("trusts_only_readings"), facts.get("calibration")
        if not isinstance(trusts, bool):
            raise FormatError("expected true or false as 'trusts_only_readings'", path)
        return cls(facts["threshold"], trusts, None if figures is None else _calibration(figures, path))


def _calibration(figures: Any, path: Path) -> Calibration:
    names = [field.name for field in fields(Calibration)]
    if not isinstance(figures, dict) or sorted(figures) != sorted(names) or not all(map(_is_number, figures.values())):
        raise FormatError(f"expected numbers for {', '.join(names)} as 'calibration'", path)
    if not figures["trials"] > 0:
        raise FormatError(f"expected at least one trial in 'calibration', found {figures['trials']}", path)
    return Calibration(**figures)


def _is_number(value: Any) -> bool:
    """Whether a JSON value is a number that a float can hold."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max


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
    """The gate with which most trials are right; among equals the one that lets most pass, "grammar first".

    >>> wrong_when_unsure = [Trial(0.4, False, True), Trial(0.7, True, True), Trial(1.0, True, False)]
    >>> calibrated_gate(wrong_when_unsure).threshold
    0.7
    """
    if not trials:
        raise NqgError("a gate is calibrated on held-out examples, found none; hold out a larger share")
    gate = _best_gate(trials)
    calibration = Calibration(
        len(trials),
        grammar_alone=sum(trial.grammar_is_right for trial in trials),
        fallback_alone=sum(trial.fallback_is_right for trial in trials),
        grammar_first=sum(trial.is_right(Gate()) for trial in trials),
        gated=sum(trial.is_right(gate) for trial in trials),
    )
    return replace(gate, calibration=calibration)


def _best_gate(trials: Sequence[Trial]) -> Gate:
    gains: Counter[float] = Counter()  # of handing over, by the grammar's probability
    for trial in trials:
        if trial.probability is not None:
            gains[round(trial.probability, _DECIMALS)] += trial.fallback_is_right - trial.grammar_is_right
    trusts_only_readings = gains.pop(1.0, 0) <= 0
    levels = sorted(gains)
    handed_over = accumulate((gains[level] for level in levels), initial=0)  # all that lies below a threshold
    thresholds = [0.0, *levels[1:], 1.0 if trusts_only_readings else NEVER]
    best = max(zip(handed_over, thresholds, strict=False), key=lambda choice: (choice[0], -choice[1]))
    return Gate(best[1], trusts_only_readings)
