"""Denotations of GeoQuery's programs: two programs that give the same answers are equally right.

The paper's own figure is exact match; it reports that denotation accuracy is 2.1 points higher on the standard split.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nqg.data.funql import Entity, parse_funql
from nqg.data.funql_conversion import expanded
from nqg.data.geoquery import AnonymisedExample, restored
from nqg.errors import NqgError
from nqg.evaluation.funql_execution import executed
from nqg.evaluation.funql_operations import Amounts
from nqg.evaluation.geography import Geography
from nqg.evaluation.metrics import exact_match


@dataclass(frozen=True, slots=True)
class Denotation:
    """The answers that a program gives, things or numbers; or none and the `failure`: why it cannot be executed."""

    answers: frozenset[Entity | float] = frozenset()
    failure: str | None = None

    @property
    def names(self) -> frozenset[str | float]:
        """The answers as the published ones are written: names without their kind, and numbers."""
        return frozenset(answer.name if isinstance(answer, Entity) else answer for answer in self.answers)

    def __str__(self) -> str:
        if self.failure is not None:
            return f"cannot be executed: {self.failure}"
        return ", ".join(sorted(map(_spelled, self.answers))) or "nothing"


def _spelled(answer: Entity | float) -> str:
    return str(answer) if isinstance(answer, Entity) else f"{answer:,.10g}"


def denotation(program: str, geography: Geography) -> Denotation:
    """What a program of the corpus's form, `answer(city(loc_2(stateid('ohio'))))`, answers.

    Whatever the text is, the result is a value: nonsense is a denotation with a `failure`.
    """
    try:
        value = executed(expanded(parse_funql(program)), geography)
    except NqgError as error:
        return Denotation(failure=str(error))
    return Denotation(frozenset(value.values if isinstance(value, Amounts) else value))


def target_denotation(target: str, entities: Sequence[Entity], geography: Geography) -> Denotation:
    """What a target of the converted form answers when `entities[0]` stands for its `m0`."""
    try:
        program = restored(target, entities)
    except NqgError as error:
        return Denotation(failure=str(error))
    return denotation(program, geography)


def denotation_matches(prediction: str, gold: str, entities: Sequence[Entity], geography: Geography) -> bool:
    """Whether a predicted target gives the same answers as the gold one; one that cannot be executed does not.

    The same program always matches, so that denotation accuracy is never below exact match.
    """
    if exact_match(prediction, gold):
        return True
    found = target_denotation(prediction, entities, geography)
    return found.failure is None and found == target_denotation(gold, entities, geography)


@dataclass(frozen=True, slots=True)
class DenotationScores:
    """How many predictions are the gold program, and how many give its answers; an abstention is neither."""

    examples: int
    exact: int
    same_answers: int

    @property
    def exact_match(self) -> float:
        """The share of predictions that are the gold program."""
        return self.exact / self.examples if self.examples else 0.0

    @property
    def accuracy(self) -> float:
        """The share of predictions that give the gold program's answers."""
        return self.same_answers / self.examples if self.examples else 0.0


def denotation_scores(
    predictions: Sequence[str | None], gold: Sequence[AnonymisedExample], geography: Geography
) -> DenotationScores:
    """Exact match and denotation accuracy of targets predicted for `gold`, whose entities they are restored with."""
    exact = same = 0
    for prediction, each in zip(predictions, gold, strict=True):
        if prediction is not None:
            exact += exact_match(prediction, each.example.target)
            same += denotation_matches(prediction, each.example.target, each.entities, geography)
    return DenotationScores(len(gold), exact, same)
