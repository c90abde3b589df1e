"""Spider's match over a whole test set: accuracy by hardness, and precision and recall of each component."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from nqg.evaluation.metrics import Scores
from nqg.evaluation.spider_hardness import Hardness
from nqg.evaluation.spider_match import COMPONENTS, Verdict


@dataclass(frozen=True, slots=True)
class ComponentScores:
    """In how many predictions and golds a component is, and how often both have it and agree."""

    name: str
    predicted: int
    gold: int
    right: int

    @property
    def precision(self) -> float | None:
        """The share that is right where predictions have the component."""
        return self.right / self.predicted if self.predicted else None

    @property
    def recall(self) -> float | None:
        """The share that is right where golds have the component."""
        return self.right / self.gold if self.gold else None

    @property
    def f1(self) -> float | None:
        """The harmonic mean of the two; undefined where neither side has the component."""
        return 2 * self.right / (self.predicted + self.gold) if self.predicted + self.gold else None


@dataclass(frozen=True, slots=True)
class SpiderReport:
    """The tables of Spider's metric; levels of hardness that do not occur are left out."""

    levels: dict[Hardness, Scores]
    components: tuple[ComponentScores, ...]

    @classmethod
    def of(cls, verdicts: Sequence[Verdict]) -> SpiderReport:
        """The report on verdicts; a prediction that could not be read counts as none."""
        by_level = {level: [each for each in verdicts if each.hardness == level] for level in Hardness}
        levels = {
            level: Scores.of([None if each.reason else each.is_match for each in found])
            for level, found in by_level.items()
            if found
        }
        return cls(levels, tuple(_component(name, verdicts) for name in COMPONENTS))

    def facts(self) -> dict[str, Any]:
        """Everything, for JSON."""
        return {
            "hardness": {str(level): scores.facts() for level, scores in self.levels.items()},
            "components": {
                each.name: {"precision": each.precision, "recall": each.recall, "f1": each.f1}
                for each in self.components
            },
        }


def _component(name: str, verdicts: Sequence[Verdict]) -> ComponentScores:
    return ComponentScores(
        name,
        predicted=sum(name in each.predicted for each in verdicts),
        gold=sum(name in each.gold for each in verdicts),
        right=sum(name in each.gold and name not in each.differing for each in verdicts),
    )
