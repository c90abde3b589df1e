"""From examples to a gate: hold some out, fit both parts to the rest, and see who is right about those held out.

Which examples are held out decides what the gate is good for. Held out at random they are as easy as the training
examples, and the fallback looks better than it is on new combinations. Held out by template (no program of the held-out
part occurs, names and numbers aside, in the rest) or by length they are as hard as a compositional split.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import accumulate
from typing import TypeVar

from nqg.answers import Answer, System, exact_match
from nqg.data.dataset import Split
from nqg.data.examples import Example, distinct_pairs
from nqg.errors import NqgError
from nqg.evaluation.metrics import Match
from nqg.inference.hybrid import DECIMALS, NEVER, Calibration, Gate, Hybrid
from nqg.splits.compounds import likely_language
from nqg.splits.partition import length_split, random_split, sizes_for, template_split

SHARE = 0.25  # of the examples are held out

Wanted = TypeVar("Wanted")


class HeldOut(StrEnum):
    """How the examples that are held out differ from the others."""

    RANDOM = "random"
    TEMPLATE = "template"
    LENGTH = "length"


def held_out(examples: Sequence[Example], kind: HeldOut, *, share: float = SHARE, seed: int = 0) -> Split:
    """A split whose test part is held out; equal examples are one."""
    examples = distinct_pairs(examples)
    sizes, rng = sizes_for(len(examples), test=share), random.Random(seed)
    match kind:
        case HeldOut.RANDOM:
            return random_split(examples, sizes, rng)
        case HeldOut.LENGTH:
            return length_split(examples, sizes)
        case HeldOut.TEMPLATE:
            return template_split(examples, sizes, likely_language(examples).template, rng)


@dataclass(frozen=True, slots=True)
class Trial:
    """What both parts made of a held-out sentence; the probability is None where the grammar abstained."""

    probability: float | None
    grammar_is_right: bool
    fallback_is_right: bool

    @classmethod
    def of(cls, own: Answer, other: Answer, wanted: Wanted, is_right: Callable[[str, Wanted], bool]) -> Trial:
        """What came of asking both; where the fallback has no answer, the hybrid stays with the grammar's."""
        handed_over = own.target if other.target is None else other.target
        rights = [target is not None and is_right(target, wanted) for target in (own.target, handed_over)]
        return cls(None if own.target is None else own.probability, *rights)

    def is_right(self, gate: Gate) -> bool:
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
    gains: Counter[float] = Counter()  # of handing over, by the grammar's probability
    for trial in trials:
        if trial.probability is not None:
            gains[round(trial.probability, DECIMALS)] += trial.fallback_is_right - trial.grammar_is_right
    trusts_only_readings = gains.pop(1.0, 0) <= 0
    levels = sorted(gains)
    handed_over = accumulate((gains[level] for level in levels), initial=0)  # all that lies below a threshold
    thresholds = [0.0, *levels[1:], 1.0 if trusts_only_readings else NEVER]
    best = max(zip(handed_over, thresholds, strict=False), key=lambda choice: (choice[0], -choice[1]))
    gate = Gate(best[1], trusts_only_readings)
    calibration = Calibration(
        len(trials),
        grammar_alone=sum(trial.grammar_is_right for trial in trials),
        fallback_alone=sum(trial.fallback_is_right for trial in trials),
        grammar_first=sum(trial.is_right(Gate()) for trial in trials),
        gated=sum(trial.is_right(gate) for trial in trials),
    )
    return replace(gate, calibration=calibration)


def trials(
    parser: System, fallback: System, examples: Sequence[Example], is_right: Match = exact_match
) -> Iterator[Trial]:
    """How both parts do on `examples`, each asked about all of them."""
    answers = Hybrid(parser, fallback, asks_both=True).answers(example.source for example in examples)
    for example, answer in zip(examples, answers, strict=True):
        own, other = answer.parts
        yield Trial.of(own, other, example.target, is_right)


def cross_fitted(
    examples: Sequence[Example],
    split: Split,
    trained_parser: Callable[[Sequence[Example]], System],
    trained_fallback: Callable[[Sequence[Example]], System],
    is_right: Match = exact_match,
) -> Gate:
    """The gate that is best on the test part of `split` for two parts of a hybrid that are fitted to its train part."""
    parts = split.parts(distinct_pairs(examples))
    parser, fallback = trained_parser(parts.train), trained_fallback(parts.train)
    return calibrated_gate(list(trials(parser, fallback, parts.test, is_right)))
