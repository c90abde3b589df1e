"""An evaluation: examples, what a system answers to each, who judges, and what comes out of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from nqg.answers import Answer, exact_match
from nqg.data.example import Example
from nqg.errors import NqgError, UnknownName
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
    def report(self, answers: Sequence[Answer], examples: Sequence[Example]) -> Report: ...


class ExactJudge:
    def is_right(self, prediction: str, example: Example) -> bool:
        return exact_match(prediction, example.target)


def judge_named(name: str, mirror: Path | None = None, progress: Progress = silent) -> Judge:
    """The judge of a metric; the files that it needs are downloaded, or taken from `mirror`."""
    if name == EXACT:
        return ExactJudge()
    if name not in PAPER_METRICS:
        raise UnknownName("metric", name, (EXACT, *PAPER_METRICS))
    judge: Judge = load_extension(PAPER_METRICS[name])(mirror, progress)
    return judge


@dataclass(frozen=True)
class Evaluation:
    """The answers of a system to examples; where all come from both parts of a hybrid, its parts are scored too."""

    judge: Judge
    examples: Sequence[Example]
    answers: Sequence[Answer]

    def __post_init__(self) -> None:
        if len(self.answers) != len(self.examples):
            raise NqgError(
                f"expected an answer to each of {len(self.examples)} examples, found {len(self.answers)}"
            )

    @cached_property
    def systems(self) -> dict[str, Scores]:
        """The scores of every system that takes part, by its name."""
        if self._parts is None:
            return {
                " or ".join(dict.fromkeys(each.system for each in self.answers)): Scores.of(
                    self.verdicts
                )
            }
        first, second = (part[0].system for part in self._parts)
        columns = (*map(self._verdicts, self._parts), self.verdicts)
        return dict(
            zip((first, second, f"{first}, else {second}"), map(Scores.of, columns), strict=True)
        )

    @cached_property
    def gain(self) -> Interval | None:
        """How far a hybrid's accuracy is above its fallback's."""
        return gain(self.verdicts, self._verdicts(self._parts[1])) if self._parts else None

    @cached_property
    def verdicts(self) -> list[bool | None]:
        """Whether each answer is right; None for an abstention."""
        return self._verdicts(self.answers)

    def reliability(self, *, adaptive: bool = False) -> list[ReliabilityBin]:
        """The answers that have a confidence, in bins of it; none where the system has no confidence."""
        pairs = zip(self.answers, self.verdicts, strict=True)
        known = [
            (each.confidence, bool(right)) for each, right in pairs if each.confidence is not None
        ]
        return reliability(
            [level for level, _ in known], [right for _, right in known], adaptive=adaptive
        )

    @cached_property
    def report(self) -> Report | None:
        if not isinstance(self.judge, ReportingJudge):
            return None
        return self.judge.report(self.answers, self.examples)

    def to_dict(self) -> dict[str, Any]:
        return {
            "systems": {name: scores.to_dict() for name, scores in self.systems.items()},
            "gain_95": [self.gain.low, self.gain.high] if self.gain else None,
            **(
                self._calibration_to_dict()
                if any(each.confidence is not None for each in self.answers)
                else {}
            ),
            **(self.report.to_dict() if self.report else {}),
        }

    def _calibration_to_dict(self) -> dict[str, Any]:
        bins = self.reliability()
        return {
            "calibration_error": expected_calibration_error(bins),
            "adaptive_calibration_error": expected_calibration_error(
                self.reliability(adaptive=True)
            ),
            "reliability": [asdict(each) for each in bins],
        }

    def lines(self) -> Iterator[dict[str, Any]]:
        for example, answer, verdict in zip(
            self.examples, self.answers, self.verdicts, strict=True
        ):
            yield {
                **({} if example.id is None else {"id": example.id}),
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
    def _parts(self) -> tuple[Sequence[Answer], Sequence[Answer]] | None:
        """What the grammar and the fallback said, where both were asked about every example."""
        if not self.answers or any(len(answer.parts) != 2 for answer in self.answers):
            return None
        return [answer.parts[0] for answer in self.answers], [
            answer.parts[1] for answer in self.answers
        ]

    def _verdicts(self, answers: Sequence[Answer]) -> list[bool | None]:
        pairs = zip(answers, self.examples, strict=True)
        return [
            None if answer.target is None else self.judge.is_right(answer.target, each)
            for answer, each in pairs
        ]
