"""Every wrong or missing prediction by its cause: of a grammar what it lacks, of other systems what training lacked.

Causes do not exclude each other, and the paper counts each by itself. The `cause` of an error is the first that holds,
so that the counts add up; `traits` are all that hold.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from nqg.answers import Answer, exact_match, program_tokens
from nqg.data.examples import Example
from nqg.errors import NqgError
from nqg.grammar.chart import charts, goal_charts
from nqg.grammar.grammar import Grammar
from nqg.grammar.hypergraph import NO_ROOT
from nqg.inference.gaps import Gaps, gaps
from nqg.plotting import write_picture

START, END = "<start>", "<end>"
Trigram = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class Difference:
    """The first place where a program differs from the right one, and the two symbols there; END is its end."""

    place: int
    found: str
    expected: str

    def __str__(self) -> str:
        found, expected = ("the end" if symbol == END else f"'{symbol}'" for symbol in (self.found, self.expected))
        return f"symbol {self.place + 1} is {found}, expected {expected}"


def first_difference(prediction: str, gold: str) -> Difference | None:
    """Where a prediction leaves the right program; nothing if it never does.

    >>> print(first_difference("answer ( state )", "answer ( city )"))
    symbol 3 is 'state', expected 'city'
    """
    pairs = zip(_ended(prediction), _ended(gold), strict=False)
    return next((Difference(place, *pair) for place, pair in enumerate(pairs) if pair[0] != pair[1]), None)


def _ended(program: str) -> tuple[str, ...]:
    return (*program_tokens(program), END)


def trigrams(target: str) -> Iterator[Trigram]:
    """Every symbol of a target, and its end, with the two symbols before it."""
    symbols = (START, START, *_ended(target))
    return zip(symbols, symbols[1:], symbols[2:], strict=False)


@dataclass(frozen=True, slots=True)
class TargetStatistics:
    """What training targets have shown: their trigrams, in how many examples each symbol is, the greatest length."""

    trigrams: frozenset[Trigram]
    examples_with: Counter[str]
    longest: int

    @classmethod
    def of(cls, targets: Iterable[str]) -> TargetStatistics:
        """The statistics of some targets."""
        targets = list(targets)
        symbols = [program_tokens(target) for target in targets]
        return cls(
            frozenset(trigram for target in targets for trigram in trigrams(target)),
            Counter(symbol for each in symbols for symbol in set(each)),
            max(map(len, symbols), default=0),
        )

    def is_longer(self, target: str) -> bool:
        """Whether a target is longer than every one seen."""
        return len(program_tokens(target)) > self.longest

    def knows_trigram(self, target: str, place: int) -> bool:
        """Whether the symbol at `place` of a target, or its end, was seen after the two symbols before it."""
        return list(trigrams(target))[place] in self.trigrams

    def atoms_seen(self, target: str, times: int) -> tuple[str, ...]:
        """The symbols of a target that were seen in just so many examples, in their order, each once."""
        return tuple(each for each in dict.fromkeys(program_tokens(target)) if self.examples_with[each] == times)


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
class Finding:
    """A wrong or missing prediction with its cause, and a sentence about it."""

    example: Example
    answer: Answer
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
            "prediction": self.answer.target,
            "by": self.answer.system,
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
        return sum(finding.answer.system == by for finding in self.findings)

    def table(self) -> list[CauseCount]:
        """The causes of each system's errors, the commonest first, each with the shortest sentence as its example."""
        return [line for by in self.asked for line in self._lines(by)]

    def _lines(self, by: str) -> list[CauseCount]:
        findings = [finding for finding in self.findings if finding.answer.system == by]
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
    examples: Sequence[Example],
    answers: Sequence[Answer],
    *,
    train: Sequence[Example],
    grammar: Grammar | None = None,
    is_right: IsRight = same_tokens,
) -> Breakdown:
    """Why the wrong and missing answers to examples are so; of a hybrid, those of each part that was needed.

    With a `grammar`, what was said first is explained by what the grammar lacks; without one, and wherever a fallback
    answered, errors are explained by what the examples in `train` never showed. `is_right` judges predictions.
    """
    statistics = TargetStatistics.of(example.target for example in train)
    pairs = list(zip(examples, answers, strict=True))
    first = [(example, answer.first) for example, answer in pairs]
    second = [
        (example, other) for example, answer in pairs if answer.first.target is None for other in answer.parts[1:]
    ]
    findings: list[Finding] = []
    if grammar is not None:
        findings.extend(_grammar_findings(_errors(first, is_right), grammar))
    others = [*first, *second] if grammar is None else second
    findings.extend(_sequence_finding(*pair, statistics) for pair in _errors(others, is_right))
    return Breakdown(dict(Counter(answer.system for _, answer in [*first, *second])), tuple(findings))


Pair = tuple[Example, Answer]


def _errors(pairs: Sequence[Pair], is_right: IsRight) -> list[Pair]:
    return [pair for pair in pairs if pair[1].target is None or not is_right(pair[1].target, pair[0])]


def _grammar_findings(errors: Sequence[Pair], grammar: Grammar) -> Iterator[Finding]:
    full = charts(grammar, [example.source_tokens for example, _ in errors])
    goal = goal_charts(grammar, full, [example.target_tokens for example, _ in errors])
    for (example, answer), root, goal_root in zip(errors, full.roots(), goal.roots(), strict=True):
        if root == NO_ROOT and answer.target is None:
            yield _gap_finding(example, answer, gaps(grammar, example.source_tokens))
        else:
            yield _forest_finding(example, answer, gold_is_derivable=goal_root != NO_ROOT)


def _gap_finding(example: Example, answer: Answer, found: Gaps) -> Finding:
    cause = Cause.UNKNOWN_WORD if found.unknown else Cause.UNKNOWN_CONSTRUCTION
    return Finding(example, answer, (cause,), str(found), gaps=found)


def _forest_finding(example: Example, answer: Answer, *, gold_is_derivable: bool) -> Finding:
    """An error though the sentence has derivations: the right program is among them or not."""
    where = Cause.WRONG_DERIVATION if gold_is_derivable else Cause.GOLD_NOT_DERIVABLE
    if answer.target is None:
        derivable = "can" if gold_is_derivable else "cannot"
        detail = f"{answer.reason or 'no answer'}; the grammar {derivable} derive the right program"
        return Finding(example, answer, (ABSTENTIONS.get(answer.reason, Cause.WITHHELD), where), detail)
    difference = first_difference(answer.target, example.target)
    return Finding(example, answer, (where,), str(difference or ""), difference=difference)


def _sequence_finding(example: Example, answer: Answer, statistics: TargetStatistics) -> Finding:
    if answer.target is None:
        return Finding(example, answer, (Cause.NO_ANSWER,), answer.reason or "no answer")
    difference = first_difference(answer.target, example.target)
    found = dict(_lessons_missed(example.target, difference, statistics)) or {Cause.OTHER: ""}
    detail = "; ".join(filter(None, [str(difference or ""), *found.values()]))
    return Finding(example, answer, tuple(found), detail, difference=difference)


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


RIGHT, RIGHT_COLOUR = "right", "#dddddd"
COLOURS = {
    Cause.UNKNOWN_WORD: "#223b66",
    Cause.UNKNOWN_CONSTRUCTION: "#4477aa",
    Cause.TOO_LONG: "#88aacc",
    Cause.ILLEGAL_TARGET: "#66ccee",
    Cause.WITHHELD: "#aaddee",
    Cause.GOLD_NOT_DERIVABLE: "#228833",
    Cause.WRONG_DERIVATION: "#88bb66",
    Cause.NO_ANSWER: "#777788",
    Cause.LONGER_TARGET: "#aa3377",
    Cause.UNSEEN_ATOM: "#882255",
    Cause.UNSEEN_TRIGRAM: "#ee6677",
    Cause.RARE_ATOM: "#ffaabb",
    Cause.OTHER: "#ccbb44",
}


def write_plot(path: Path, breakdowns: Mapping[str, Breakdown]) -> None:
    """Draw the errors of all systems of named evaluations, as PNG or SVG by the name of the file.

    An evaluation that stands alone may have the empty name.
    """
    bars = list(_bars(breakdowns))
    if not bars:
        raise NqgError(f"{path}: expected at least one evaluation to draw, found none")
    write_picture(path, lambda figure_class: _drawn(bars, figure_class))


@dataclass(frozen=True, slots=True)
class _Bar:
    """A system in an evaluation: how many of the examples that it was asked are wrong for each cause."""

    label: str
    asked: int
    errors: Mapping[Cause, int]

    @property
    def right(self) -> int:
        return self.asked - sum(self.errors.values())


def _bars(breakdowns: Mapping[str, Breakdown]) -> Iterator[_Bar]:
    for name, found in breakdowns.items():
        table = found.table()
        for by, asked in found.asked.items():
            yield _Bar(
                f"{name}: {by}" if name else by, asked, {line.cause: line.errors for line in table if line.by == by}
            )


def _drawn(bars: list[_Bar], figure_class: Any) -> Any:
    figure = figure_class(figsize=(9, 2.4 + 0.45 * len(bars)), layout="constrained")
    panel = figure.subplots()
    left = _draw_part(panel, RIGHT, RIGHT_COLOUR, [100 * bar.right / bar.asked for bar in bars], [0.0] * len(bars))
    for cause, colour in COLOURS.items():
        shares = [100 * bar.errors.get(cause, 0) / bar.asked for bar in bars]
        if any(shares):
            left = _draw_part(panel, cause, colour, shares, left)
    panel.set_yticks(range(len(bars)), [f"{bar.label} ({bar.asked:,})" for bar in bars])
    panel.invert_yaxis()
    panel.set_xlim(0, 100)
    panel.set_xlabel("share of the examples that it was asked, %", fontsize=9)
    panel.tick_params(labelsize=8)
    panel.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside lower center", ncols=2, fontsize=7, frameon=False)
    return figure


def _draw_part(panel: Any, label: str, colour: str, widths: list[float], left: list[float]) -> list[float]:
    """One cause on all bars, and where the next one begins."""
    panel.barh(range(len(widths)), widths, left=left, color=colour, label=label)
    return [start + width for start, width in zip(left, widths, strict=True)]
