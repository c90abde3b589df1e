"""Rules by the terminals on their two sides."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from nqg.induction.labels import LabelRule


class RuleIndex:
    """Answers which rules another rule could help to derive."""

    def __init__(self, rules: Iterable[LabelRule]) -> None:
        self._sides: tuple[defaultdict[int, set[LabelRule]], ...] = (defaultdict(set), defaultdict(set))
        self._all: set[LabelRule] = set()
        for rule in rules:
            self.add(rule)

    def add(self, rule: LabelRule) -> None:
        """Enter `rule`."""
        self._all.add(rule)
        for index, side in zip(self._sides, rule, strict=True):
            for label in side:
                index[label].add(rule)

    def remove(self, rule: LabelRule) -> None:
        """Take `rule` out."""
        self._all.discard(rule)
        for index, side in zip(self._sides, rule, strict=True):
            for label in side:
                index[label].discard(rule)

    def around(self, rules: Iterable[LabelRule]) -> list[LabelRule]:
        """The rules that hold, on both sides, all of the terminals of one of `rules`."""
        return sorted(set().union(*(self._around(rule) for rule in rules)))

    def _around(self, rule: LabelRule) -> set[LabelRule]:
        holders = [index[label] for index, side in zip(self._sides, rule, strict=True) for label in side if label >= 0]
        return set.intersection(*sorted(holders, key=len)) if holders else self._all
