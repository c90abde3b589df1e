"""An evaluation: examples, the answers of a system, who judges them, and the scores."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from nqg.answers import BOTH, Answer, exact_match
from nqg.data.example import Example
from nqg.errors import NqgError, UnknownName, counted
from nqg.evaluation.function_report import FunctionReport, function_reports
from nqg.evaluation.metrics import (
    Interval,
    ReliabilityBin,
    Scores,
    expected_calibration_error,
    gain,
    reliability,
)
from nqg.extensions import load_extension
from nqg.progress import Progress, silent

# Metrics of the paper need its files, and are loaded by name.
EXACT = "exact"
PAPER_METRICS = {
    "spider": "nqg.paper.judges:spider_judge",
    "denotation": "nqg.paper.judges:denotation_judge",
}


class Judge(Protocol):
    def is_right(self, prediction: str, example: Example) -> bool:
        """Whether `prediction` is as good as the example's own target."""
        ...


class Report(Protocol):
    """What a metric tells beyond right and wrong."""

    def tables(self) -> Iterator[tuple[Sequence[str], Sequence[Sequence[str]]]]:
        """The header and the rows of every table that is printed."""
        ...

    def to_dict(self) -> dict[str, Any]: ...


@runtime_checkable
class ReportingJudge(Judge, Protocol):
    def report(
        self, answers: Sequence[Answer], examples: Sequence[Example]
    ) -> Report: ...


class ExactJudge:
    def is_right(self, prediction: str, example: Example) -> bool:
        return exact_match(prediction, example.target)


def judge_named(
    name: str, mirror: Path | None = None, progress: Progress = silent
) -> Judge:
    """The judge of a metric; the files that it needs are downloaded, or taken from `mirror`."""
    if name == EXACT:
        return ExactJudge()
    if name not in PAPER_METRICS:
        raise UnknownName("metric", name, (EXACT, *PAPER_METRICS))
    judge: Judge = load_extension(PAPER_METRICS[name])(mirror, progress)
    return judge


@dataclass(frozen=True)
class ScopeEvaluation:
    """The answers to sentences that are out of scope, none of which should be answered."""

    answers: Sequence[Answer]

    @property
    def answered(self) -> list[Answer]:
        return [answer for answer in self.answers if answer.target is not None]

    def __str__(self) -> str:
        """
        >>> print(ScopeEvaluation([Answer("tell me a joke"), Answer("sing", "play()")]))
        2 sentences out of scope, 1 of them answered
        """
        sentences = counted(len(self.answers), "sentence")
        return f"{sentences} out of scope, {len(self.answered)} of them answered"

    def to_dict(self) -> dict[str, Any]:
        rows = [
            {
                "source": answer.source,
                "prediction": answer.target,
                "confidence": answer.confidence,
            }
            for answer in self.answered
        ]
        return {"sentences": len(self.answers), "answered": rows}


@dataclass(frozen=True)
class Evaluation:
    """The answers of a system to examples.

    Where every answer of a hybrid has those of its two systems, these are scored, too. The hybrid
    `is_joint` if it chooses among the programs of both; otherwise the first one's stands.
    """

    judge: Judge
    examples: Sequence[Example]
    answers: Sequence[Answer]
    is_joint: bool = False

    def __post_init__(self) -> None:
        examples, answers = len(self.examples), len(self.answers)
        if answers != examples:
            raise NqgError(
                f"expected an answer to each of {examples} examples, found {answers}"
            )

    @cached_property
    def systems(self) -> dict[str, Scores]:
        """The scores of every system that takes part, by its name."""
        if not self._components:
            names = dict.fromkeys(answer.system for answer in self.answers)
            name = BOTH if self.is_joint else " or ".join(names)
            return {name: Scores.of(self.verdicts)}
        first, second = self._components
        grammar, fallback = first[0].system, second[0].system
        together = BOTH if self.is_joint else f"{grammar}, else {fallback}"
        return {
            grammar: Scores.of(self._verdicts(first)),
            fallback: Scores.of(self._verdicts(second)),
            together: Scores.of(self.verdicts),
        }

    @cached_property
    def gain(self) -> Interval | None:
        """How far a hybrid's accuracy is above that of its second system."""
        if not self._components:
            return None
        return gain(self.verdicts, self._verdicts(self._components[1]))

    @cached_property
    def verdicts(self) -> list[bool | None]:
        """Whether each answer is right; None for an abstention."""
        return self._verdicts(self.answers)

    def reliability(self, *, adaptive: bool = False) -> list[ReliabilityBin]:
        """The answers that have a confidence, in bins of it."""
        confidences, verdicts = [], []
        for answer, verdict in zip(self.answers, self.verdicts):
            if answer.confidence is not None:
                confidences.append(answer.confidence)
                verdicts.append(bool(verdict))
        return reliability(confidences, verdicts, adaptive=adaptive)

    @cached_property
    def report(self) -> Report | None:
        if not isinstance(self.judge, ReportingJudge):
            return None
        return self.judge.report(self.answers, self.examples)

    def to_dict(self) -> dict[str, Any]:
        values: dict[str, Any] = {
            "systems": {
                name: scores.to_dict() for name, scores in self.systems.items()
            },
            "gain_95": [self.gain.low, self.gain.high] if self.gain else None,
        }
        # Calibration is measured where the model has confidence.
        bins = self.reliability()
        if bins:
            adaptive = self.reliability(adaptive=True)
            values["calibration_error"] = expected_calibration_error(bins)
            values["adaptive_calibration_error"] = expected_calibration_error(adaptive)
            values["reliability"] = list(map(asdict, bins))
        values["functions"] = [report.to_dict() for report in self.functions]
        if self.report:
            values |= self.report.to_dict()
        return values

    @cached_property
    def functions(self) -> list[FunctionReport]:
        """How the system does on each function, the worst first."""
        return function_reports(self.examples, self.verdicts)

    def lines(self) -> Iterator[dict[str, Any]]:
        for example, answer, verdict in zip(
            self.examples, self.answers, self.verdicts, strict=True
        ):
            values = {} if example.id is None else {"id": example.id}
            yield values | {
                "source": example.source,
                "reference": example.target,
                "prediction": answer.target,
                "right": verdict,
                "by": answer.system,
                "probability": answer.probability,
                "confidence": answer.confidence,
                "reason": answer.reason,
            }

    @cached_property
    def _components(self) -> tuple[Sequence[Answer], Sequence[Answer]] | None:
        """The answers of a hybrid's two systems, where both were asked about every example."""
        first, second = [], []
        for answer in self.answers:
            if len(answer.parts) != 2:
                return None
            first.append(answer.parts[0])
            second.append(answer.parts[1])
        return (first, second) if first else None

    def _verdicts(self, answers: Sequence[Answer]) -> list[bool | None]:
        verdicts: list[bool | None] = []
        for answer, example in zip(answers, self.examples):
            if answer.target is None:
                verdicts.append(None)
            else:
                verdicts.append(self.judge.is_right(answer.target, example))
        return verdicts
