"""From examples to a gate: hold some out, fit both parts to the rest, and see who is right about those held out.

Which examples are held out decides what the gate is good for. Held out at random they are as easy as the training
examples, and the fallback looks better than it is on new combinations. Held out by template (no program of the held-out
part occurs, names and numbers aside, in the rest) or by length they are as hard as a compositional split.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum

from nqg.data.dataset import Split
from nqg.data.examples import Example, distinct_pairs
from nqg.inference.hybrid import Fallback, Gate, GrammarParser, Trial, calibrated_gate, predictions, spaced
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


def same_tokens(said: str, wanted: str) -> bool:
    """Exact match, whatever the white space."""
    return spaced(said) == spaced(wanted)


def trials(
    parser: GrammarParser, fallback: Fallback, examples: Sequence[Example], is_right: Correctness = same_tokens
) -> Iterator[Trial]:
    """How both parts do on `examples`, each asked about all of them."""
    sources = [example.source for example in examples]
    said = predictions(fallback, sources)
    for example, parse in zip(examples, parser.parse_all(sources), strict=True):
        by_grammar = parse.target is not None and is_right(parse.target, example.target)
        # Where the fallback has nothing to say the hybrid stays with the grammar.
        handed_over = said[example.source] or parse.target
        yield Trial(parse.probability, by_grammar, handed_over is not None and is_right(handed_over, example.target))


def cross_fitted(
    examples: Sequence[Example],
    split: Split,
    trained_parser: Callable[[Sequence[Example]], GrammarParser],
    trained_fallback: Callable[[Sequence[Example]], Fallback],
    is_right: Correctness = same_tokens,
) -> Gate:
    """The gate that is best on the test part of `split` for two parts of a hybrid that are fitted to its train part."""
    parts = split.parts(distinct_pairs(examples))
    parser, fallback = trained_parser(parts.train), trained_fallback(parts.train)
    return calibrated_gate(list(trials(parser, fallback, parts.test, is_right)))
