"""The learning curve of somebody's own data: would more examples help?

A random fifth of the examples is held out. Parsers of growing parts of the others answer it. Each
part contains the smaller ones, so that the curve shows what the new examples add.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from nqg.answers import System
from nqg.data.example import Example, distinct_pairs
from nqg.errors import NqgError, counted
from nqg.evaluation.metrics import Scores, score

HELD_OUT = 1 / 5
# The shares of the other examples that are learned from: the fewest points that show a bend.
PARTS = (1 / 4, 1 / 2, 3 / 4, 1.0)
# Below, a part has so few examples that nothing can be learned from it.
LEAST_EXAMPLES = 20


@dataclass(frozen=True)
class CurvePoint:
    """How a parser of so many examples answers the held-out sentences."""

    examples: int
    scores: Scores


def learning_curve(
    examples: Sequence[Example],
    learn: Callable[[Sequence[Example]], System],
    seed: int = 0,
) -> Iterator[CurvePoint]:
    """The points of the curve, from the fewest examples on; `learn` makes a system of some."""
    shuffled = distinct_pairs(examples)
    if len(shuffled) < LEAST_EXAMPLES:
        found = counted(len(shuffled), "example")
        raise NqgError(
            f"a learning curve needs at least {LEAST_EXAMPLES} examples, found {found}"
        )
    random.Random(seed).shuffle(shuffled)
    held_out = round(HELD_OUT * len(shuffled))
    test, others = shuffled[:held_out], shuffled[held_out:]
    for share in PARTS:
        part = others[: round(share * len(others))]
        answers = learn(part).answers(example.source for example in test)
        targets = [answer.target for answer in answers]
        scores = score(targets, [example.target for example in test])
        yield CurvePoint(len(part), scores)
