"""What rules by hand would change: the answers to some sentences with them and without them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from nqg.answers import System, exact_match
from nqg.data.example import OUT_OF_SCOPE


class Change(StrEnum):
    """What becomes of an answer; without a reference nobody knows whether it is right."""

    ANSWERED = "answered"
    REPAIRED = "repaired"
    BROKEN = "broken"
    CHANGED = "changed"


# The worst come first.
ORDER = (Change.BROKEN, Change.CHANGED, Change.REPAIRED, Change.ANSWERED)


@dataclass(frozen=True, slots=True)
class ChangedAnswer:
    """The program of a sentence before and after, and the right one where it is known."""

    source: str
    before: str | None
    after: str | None
    expected: str | None = None

    @property
    def is_right(self) -> bool | None:
        """Whether the new program is right; None if nobody knows."""
        return self._verdict(self.after)

    def _verdict(self, program: str | None) -> bool | None:
        if self.expected is None:
            return None
        if self.expected == OUT_OF_SCOPE:
            return program is None
        return exact_match(program, self.expected)

    @property
    def change(self) -> Change:
        if self._verdict(self.before):
            return Change.BROKEN
        if self.before is None:
            return Change.ANSWERED
        return Change.REPAIRED if self.is_right else Change.CHANGED

    def to_dict(self) -> dict[str, Any]:
        return {
            "source": self.source,
            "change": self.change.value,
            "before": self.before,
            "after": self.after,
            "expected": self.expected,
        }


@dataclass(frozen=True)
class RuleTrial:
    """The answers that rules change among those to so many `tried` sentences."""

    tried: int
    answers: Sequence[ChangedAnswer]

    def of_kind(self, change: Change) -> list[ChangedAnswer]:
        return [answer for answer in self.answers if answer.change is change]

    def __str__(self) -> str:
        """
        >>> print(RuleTrial(9, [ChangedAnswer("off", None, "off()", "off()")]))
        9 sentences tried: 1 newly answered (1 right, 0 wrong), 0 repaired, 0 changed, 0 broken
        """
        answered = self.of_kind(Change.ANSWERED)
        verdicts = [answer.is_right for answer in answered]
        right_and_wrong = ""
        if None not in verdicts and verdicts:
            right_and_wrong = (
                f" ({verdicts.count(True)} right, {verdicts.count(False)} wrong)"
            )
        others = ", ".join(
            f"{len(self.of_kind(change))} {change}"
            for change in (Change.REPAIRED, Change.CHANGED, Change.BROKEN)
        )
        newly = f"{len(answered)} newly answered{right_and_wrong}"
        return f"{self.tried:,} sentences tried: {newly}, {others}"

    def lines(self) -> Iterator[str]:
        """Every change, the worst first."""
        for change in ORDER:
            for answer in self.of_kind(change):
                yield f"{change}: {answer.source}"
                if answer.before is not None:
                    yield f"    before   {answer.before}"
                yield f"    now      {answer.after or 'no answer'}"
                if answer.is_right is False:
                    yield f"    expected {answer.expected}"


def rule_trial(
    before: System, after: System, sentences: Sequence[tuple[str, str | None]]
) -> RuleTrial:
    """The answers of a system to sentences, with or without the right program of each, that differ
    after a change of its rules.
    """
    sources = [source for source, _ in sentences]
    changed = []
    answers = zip(before.answers(sources), after.answers(sources))
    for (source, expected), (old, new) in zip(sentences, answers):
        if old.target != new.target:
            changed.append(ChangedAnswer(source, old.target, new.target, expected))
    return RuleTrial(len(sentences), changed)
