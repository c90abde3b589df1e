"""Every wrong or missing prediction by its cause: of a grammar what it lacks, of other systems what training lacked.

Causes do not exclude each other, and the paper counts each by itself. The `cause` of an error is the first that holds,
so that the counts add up; `traits` are all that hold.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from nqg.data.example import Example
from nqg.evaluation.evaluation import Evaluation, Reply
from nqg.evaluation.metrics import exact_match
from nqg.evaluation.sequence_errors import Difference, TargetStatistics, first_difference
from nqg.grammar.charts import charts, goal_charts
from nqg.grammar.grammar import Grammar
from nqg.grammar.graph import NO_ROOT
from nqg.inference.gaps import Gaps, gaps

IsRight = Callable[[str, Example], bool]


class Cause(StrEnum):
    """Why a prediction is wrong or missing; those of grammars first."""

    UNKNOWN_WORD = "no derivation: a word that no rule knows"
    UNKNOWN_CONSTRUCTION = "no derivation: known parts, no rule to join them"
    TOO_LONG = "the sentence is too long for the encoder"
    ILLEGAL_TARGET = "illegal target"
    WITHHELD = "the answer was withheld"
    GOLD_NOT_DERIVABLE = "the grammar cannot derive the right program"
    WRONG_DERIVATION = "the wrong derivation was preferred"
    NO_ANSWER = "no answer"
    LONGER_TARGET = "the right program is longer than any in training"
    UNSEEN_ATOM = "the right program has a symbol that training lacks"
    UNSEEN_TRIGRAM = "the right symbol never followed the two before it in training"
    RARE_ATOM = "the right program has a symbol of only one training example"
    OTHER = "none of these"


ABSTENTIONS = {"too long": Cause.TOO_LONG, "illegal target": Cause.ILLEGAL_TARGET}
"""Reasons that a parser gives, where the sentence has a derivation."""


@dataclass(frozen=True, slots=True)
class Row:
    """An example, what a system replied to it and, where that is nothing, what its fallback did."""

    example: Example
    reply: Reply
    fallback: Reply | None = None


@dataclass(frozen=True, slots=True)
class Finding:
    """A wrong or missing prediction with its cause, and a sentence about it."""

    example: Example
    reply: Reply
    traits: tuple[Cause, ...]
    detail: str
    gaps: Gaps | None = None
    difference: Difference | None = None

    @property
    def cause(self) -> Cause:
        """The first cause that holds."""
        return self.traits[0]

    def record(self) -> dict[str, Any]:
        """The finding for a line of JSON."""
        return {
            **({} if self.example.id is None else {"id": self.example.id}),
            "source": self.example.source,
            "reference": self.example.target,
            "prediction": self.reply.target,
            "by": self.reply.by,
            "cause": self.cause.name.lower(),
            "traits": [trait.name.lower() for trait in self.traits],
            "detail": self.detail,
            "unknown": list(self.gaps.unknown_tokens) if self.gaps else [],
            "pattern": self.gaps.pattern if self.gaps else None,
            "first_wrong": self.difference and _difference_record(self.difference),
        }


def _difference_record(difference: Difference) -> dict[str, Any]:
    return {"place": difference.place, "found": difference.found, "expected": difference.expected}


@dataclass(frozen=True, slots=True)
class CauseCount:
    """A line of the table: how many errors of a system count under a cause, and for how many it holds at all."""

    by: str
    cause: Cause
    errors: int
    share: float
    holds: int
    example: Finding


@dataclass(frozen=True, slots=True)
class Lack:
    """A word or a construction that a grammar lacks, and how many sentences need it."""

    what: str
    sentences: int


@dataclass(frozen=True, slots=True)
class Breakdown:
    """The errors of one evaluation: how many examples each system was asked, and a finding for each error."""

    asked: dict[str, int]
    findings: tuple[Finding, ...]

    def errors(self, by: str) -> int:
        """How many of its replies are wrong or missing."""
        return sum(finding.reply.by == by for finding in self.findings)

    def table(self) -> list[CauseCount]:
        """The causes of each system's errors, the commonest first, each with the shortest sentence as its example."""
        return [line for by in self.asked for line in self._lines(by)]

    def _lines(self, by: str) -> list[CauseCount]:
        findings = [finding for finding in self.findings if finding.reply.by == by]
        held = Counter(trait for finding in findings for trait in finding.traits)
        lines = []
        for cause in held:
            own = [finding for finding in findings if finding.cause == cause]
            shown = min(own or [each for each in findings if cause in each.traits], key=_length)
            lines.append(CauseCount(by, cause, len(own), len(own) / len(findings), held[cause], shown))
        return sorted(lines, key=lambda line: (-line.errors, -line.holds, line.cause.name))

    def lacks(self) -> list[Lack]:
        """What sentences without a derivation need: words, and patterns of constructions; the commonest first."""
        counts = Counter(what for finding in self.findings if finding.gaps for what in _lacking(finding.gaps))
        return [Lack(what, count) for what, count in sorted(counts.items(), key=lambda each: (-each[1], each[0]))]

    def records(self) -> Iterator[dict[str, Any]]:
        """Every finding, for lines of JSON."""
        return (finding.record() for finding in self.findings)


def _length(finding: Finding) -> tuple[int, str]:
    return len(finding.example.source_tokens), finding.example.source


def _lacking(found: Gaps) -> tuple[str, ...]:
    return found.unknown_tokens or (found.pattern,)


def same_tokens(prediction: str, example: Example) -> bool:
    """The strictest of judges."""
    return exact_match(prediction, example.target)


def breakdown(
    rows: Sequence[Row],
    *,
    train: Sequence[Example],
    grammar: Grammar | None = None,
    is_right: IsRight = same_tokens,
) -> Breakdown:
    """Why the wrong and missing replies of `rows` are so.

    With a `grammar`, the rows' replies are those of a parser that has it; without one, and wherever a fallback
    replied, errors are explained by what the examples in `train` never showed. `is_right` judges predictions.
    """
    statistics = TargetStatistics.of(example.target for example in train)
    first = [(row.example, row.reply) for row in rows]
    second = [(row.example, row.fallback) for row in rows if row.fallback and row.reply.target is None]
    findings: list[Finding] = []
    if grammar is not None:
        findings.extend(_grammar_findings(_errors(first, is_right), grammar))
    others = [*first, *second] if grammar is None else second
    findings.extend(_sequence_finding(*pair, statistics) for pair in _errors(others, is_right))
    return Breakdown(dict(Counter(reply.by for _, reply in [*first, *second])), tuple(findings))


def evaluation_rows(found: Evaluation) -> list[Row]:
    """The rows of an evaluation."""
    others: Sequence[Reply | None] = found.fallback or [None] * len(found.examples)
    return [Row(*row) for row in zip(found.examples, found.replies, others, strict=True)]


Pair = tuple[Example, Reply]


def _errors(pairs: Sequence[Pair], is_right: IsRight) -> list[Pair]:
    return [pair for pair in pairs if pair[1].target is None or not is_right(pair[1].target, pair[0])]


def _grammar_findings(errors: Sequence[Pair], grammar: Grammar) -> Iterator[Finding]:
    full = charts(grammar, [example.source_tokens for example, _ in errors])
    goal = goal_charts(grammar, full, [example.target_tokens for example, _ in errors])
    for (example, reply), root, goal_root in zip(errors, full.roots(), goal.roots(), strict=True):
        if root == NO_ROOT and reply.target is None:
            yield _gap_finding(example, reply, gaps(grammar, example.source_tokens))
        else:
            yield _forest_finding(example, reply, gold_is_derivable=goal_root != NO_ROOT)


def _gap_finding(example: Example, reply: Reply, found: Gaps) -> Finding:
    cause = Cause.UNKNOWN_WORD if found.unknown else Cause.UNKNOWN_CONSTRUCTION
    return Finding(example, reply, (cause,), str(found), gaps=found)


def _forest_finding(example: Example, reply: Reply, *, gold_is_derivable: bool) -> Finding:
    """An error though the sentence has derivations: the right program is among them or not."""
    where = Cause.WRONG_DERIVATION if gold_is_derivable else Cause.GOLD_NOT_DERIVABLE
    if reply.target is None:
        derivable = "can" if gold_is_derivable else "cannot"
        detail = f"{reply.reason or 'no answer'}; the grammar {derivable} derive the right program"
        return Finding(example, reply, (ABSTENTIONS.get(reply.reason, Cause.WITHHELD), where), detail)
    difference = first_difference(reply.target, example.target)
    return Finding(example, reply, (where,), str(difference or ""), difference=difference)


def _sequence_finding(example: Example, reply: Reply, statistics: TargetStatistics) -> Finding:
    if reply.target is None:
        return Finding(example, reply, (Cause.NO_ANSWER,), reply.reason or "no answer")
    difference = first_difference(reply.target, example.target)
    found = dict(_lessons_missed(example.target, difference, statistics)) or {Cause.OTHER: ""}
    detail = "; ".join(filter(None, [str(difference or ""), *found.values()]))
    return Finding(example, reply, tuple(found), detail, difference=difference)


def _lessons_missed(
    gold: str, difference: Difference | None, statistics: TargetStatistics
) -> Iterator[tuple[Cause, str]]:
    """What of the right program training never showed, or only once; the gravest first."""
    if statistics.is_longer(gold):
        yield Cause.LONGER_TARGET, f"training has at most {statistics.longest} symbols"
    if unseen := statistics.atoms_seen(gold, times=0):
        yield Cause.UNSEEN_ATOM, f"training lacks {', '.join(unseen)}"
    if difference and not statistics.knows_trigram(gold, difference.place):
        yield Cause.UNSEEN_TRIGRAM, f"training never has '{difference.expected}' there"
    if rare := statistics.atoms_seen(gold, times=1):
        yield Cause.RARE_ATOM, f"one training example has {', '.join(rare)}"
