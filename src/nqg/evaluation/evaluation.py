"""An evaluation: examples, what a system replies to each, who judges, and what comes out of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from nqg.data.example import Example
from nqg.errors import NqgError
from nqg.evaluation.intervals import Interval
from nqg.evaluation.judges import Judge, SpiderJudge
from nqg.evaluation.metrics import HybridScores, Scores
from nqg.evaluation.spider_report import SpiderReport


@dataclass(frozen=True, slots=True)
class Reply:
    """What a system says to a sentence; no `target` is an abstention."""

    target: str | None
    by: str
    probability: float | None = None
    reason: str = ""


@dataclass(frozen=True)
class Evaluation:
    """The replies of a system to examples, and perhaps those of a fallback, which count where the system abstains."""

    judge: Judge
    examples: Sequence[Example]
    replies: Sequence[Reply]
    fallback: Sequence[Reply] | None = None

    def __post_init__(self) -> None:
        for replies in (self.replies, *([] if self.fallback is None else [self.fallback])):
            if len(replies) != len(self.examples):
                raise NqgError(f"expected a reply to each of {len(self.examples)} examples, found {len(replies)}")

    @property
    def final(self) -> Sequence[Reply]:
        """The reply to each example that counts."""
        if self.fallback is None:
            return self.replies
        return [other if own.target is None else own for own, other in zip(self.replies, self.fallback, strict=True)]

    @cached_property
    def systems(self) -> dict[str, Scores]:
        """The scores of every system that takes part, by its name."""
        name = self.replies[0].by if self.replies else ""
        if self._hybrid is None or self.fallback is None:
            return {name: Scores.of(self._verdicts(self.replies))}
        together = self._hybrid
        other = self.fallback[0].by
        return {name: together.grammar, other: together.fallback, f"{name}, else {other}": together.hybrid}

    @property
    def gain(self) -> Interval | None:
        """How far a hybrid's accuracy is above its fallback's."""
        return self._hybrid.gain if self._hybrid else None

    @cached_property
    def spider(self) -> SpiderReport | None:
        """The tables of Spider's metric, where it is the judge."""
        if not isinstance(self.judge, SpiderJudge):
            return None
        pairs = zip(self.final, self.examples, strict=True)
        return SpiderReport.of([self.judge.verdict(reply.target, example) for reply, example in pairs])

    def facts(self) -> dict[str, Any]:
        """Everything but the single predictions, for JSON."""
        return {
            "systems": {name: scores.facts() for name, scores in self.systems.items()},
            "gain_95": [self.gain.low, self.gain.high] if self.gain else None,
            **(self.spider.facts() if self.spider else {}),
        }

    def lines(self) -> Iterator[dict[str, Any]]:
        """Every prediction, for lines of JSON."""
        for example, reply, verdict in zip(self.examples, self.final, self._verdicts(self.final), strict=True):
            yield {
                **({} if example.id is None else {"id": example.id}),
                "source": example.source,
                "reference": example.target,
                "prediction": reply.target,
                "right": verdict,
                "by": reply.by,
                "probability": reply.probability,
                "reason": reply.reason,
            }

    @cached_property
    def _hybrid(self) -> HybridScores | None:
        if self.fallback is None:
            return None
        return HybridScores.of(self._verdicts(self.replies), self._verdicts(self.fallback))

    def _verdicts(self, replies: Sequence[Reply]) -> list[bool | None]:
        pairs = zip(replies, self.examples, strict=True)
        return [None if reply.target is None else self.judge.is_right(reply.target, each) for reply, each in pairs]
