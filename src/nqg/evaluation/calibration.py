"""From examples to a gate: hold some out, fit both parts to the rest, and see who is right about those held out.

Which examples are held out decides what the gate is good for. Held out at random they are as easy as the training
examples, and the fallback looks better than it is on new combinations. Held out by template (no program of the held-out
part occurs, names and numbers aside, in the rest) or by length they are as hard as a compositional split.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum

from nqg.answers import System, exact_match
from nqg.data.dataset import Split
from nqg.data.examples import Example, distinct_pairs
from nqg.inference.hybrid import Gate, Hybrid, Trial, calibrated_gate
from nqg.splits.compounds import likely_language
from nqg.splits.partition import length_split, random_split, sizes_for, template_split

SHARE = 0.25  # of the examples are held out

Correctness = Callable[[str, str], bool]
"""Whether a prediction is as good as the program that was wanted."""


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


def trials(
    parser: System, fallback: System, examples: Sequence[Example], is_right: Correctness = exact_match
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
    is_right: Correctness = exact_match,
) -> Gate:
    """The gate that is best on the test part of `split` for two parts of a hybrid that are fitted to its train part."""
    parts = split.parts(distinct_pairs(examples))
    parser, fallback = trained_parser(parts.train), trained_fallback(parts.train)
    return calibrated_gate(list(trials(parser, fallback, parts.test, is_right)))
