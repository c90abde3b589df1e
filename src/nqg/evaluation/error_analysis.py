"""Every wrong or missing prediction by its cause: of a grammar what it lacks, of other systems what training lacked.

Causes do not exclude each other, and the paper counts each by itself. The `cause` of an error is the first that holds,
so that the counts add up; `traits` are all that hold.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from nqg.answers import ILLEGAL, LONG_TARGET, TOO_LONG, Answer, program_tokens
from nqg.data.example import Example
from nqg.evaluation.evaluation import ExactJudge, Judge
from nqg.grammar.chart import goal_charts
from nqg.grammar.grammar import Grammar
from nqg.grammar.hypergraph import NO_ROOT
from nqg.inference.charts import BatchCharts
from nqg.inference.gaps import Gaps, gaps_in
from nqg.preprocessing.preprocessor import Preprocessor

TARGET_START, TARGET_END = "<start>", "<end>"
Trigram = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class Difference:
    """The first place where a program differs from the right one, and the two symbols there; TARGET_END is its end."""

    place: int
    found: str
    expected: str

    def __str__(self) -> str:
        found, expected = (f"'{symbol}'" for symbol in (self.found, self.expected))
        return f"symbol {self.place + 1} is {found}, expected {expected}".replace(
            f"'{TARGET_END}'", "the end"
        )


def first_difference(prediction: str, gold: str) -> Difference | None:
    """Where a prediction leaves the right program; nothing if it never does.

    >>> print(first_difference("answer ( state )", "answer ( city )"))
    symbol 3 is 'state', expected 'city'
    """
    pairs = zip(
        (*program_tokens(prediction), TARGET_END), (*program_tokens(gold), TARGET_END), strict=False
    )
    return next(
        (Difference(place, *pair) for place, pair in enumerate(pairs) if pair[0] != pair[1]), None
    )


def trigrams(target: str) -> Iterator[Trigram]:
    """Every symbol of a target, and its end, with the two symbols before it."""
    symbols = (TARGET_START, TARGET_START, *program_tokens(target), TARGET_END)
    return zip(symbols, symbols[1:], symbols[2:], strict=False)


@dataclass(frozen=True, slots=True)
class TargetStatistics:
    """What training targets have shown: their trigrams, in how many examples each symbol is, the greatest length."""

    trigrams: frozenset[Trigram]
    examples_with: Counter[str]
    longest: int

    @classmethod
    def of(cls, targets: Iterable[str]) -> TargetStatistics:
        targets = list(targets)
        symbols = [program_tokens(target) for target in targets]
        return cls(
            frozenset(trigram for target in targets for trigram in trigrams(target)),
            Counter(symbol for each in symbols for symbol in set(each)),
            max(map(len, symbols), default=0),
        )

    def is_longer(self, target: str) -> bool:
        return len(program_tokens(target)) > self.longest

    def knows_trigram(self, target: str, place: int) -> bool:
        """Whether the symbol at `place` of a target, or its end, was seen after the two symbols before it."""
        return list(trigrams(target))[place] in self.trigrams

    def atoms_seen(self, target: str, times: int) -> tuple[str, ...]:
        """The symbols of a target that were seen in just so many examples, in their order, each once."""
        return tuple(
            each
            for each in dict.fromkeys(program_tokens(target))
            if self.examples_with[each] == times
        )


class Cause(StrEnum):
    """Why a prediction is wrong or missing; those of grammars first."""

    UNKNOWN_WORD = "no derivation: a word that no rule knows"
    UNKNOWN_CONSTRUCTION = "no derivation: known parts, no rule to join them"
    TOO_LONG = "the sentence is too long for the encoder"
    ILLEGAL_TARGET = "illegal target"
    LONG_TARGET = "the best derivation yields too long a program"
    WITHHELD = "the answer was withheld"
    GOLD_NOT_DERIVABLE = "the grammar cannot derive the right program"
    WRONG_DERIVATION = "the wrong derivation was preferred"
    NO_ANSWER = "no answer"
    LONGER_TARGET = "the right program is longer than any in training"
    UNSEEN_ATOM = "the right program has a symbol that training lacks"
    UNSEEN_TRIGRAM = "the right symbol never followed the two before it in training"
    RARE_ATOM = "the right program has a symbol of only one training example"
    OTHER = "none of these"


# though the sentence has a derivation
ABSTENTIONS = {
    TOO_LONG: Cause.TOO_LONG,
    ILLEGAL: Cause.ILLEGAL_TARGET,
    LONG_TARGET: Cause.LONG_TARGET,
}


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
        return self.traits[0]

    def to_dict(self) -> dict[str, Any]:
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
            "first_wrong": self.difference and asdict(self.difference),
        }


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
        return sum(finding.answer.system == by for finding in self.findings)

    def table(self) -> list[CauseCount]:
        """The causes of each system's errors, the commonest first, each with the shortest sentence as its example."""
        lines = []
        for by in self.asked:
            findings = [finding for finding in self.findings if finding.answer.system == by]
            held = Counter(trait for finding in findings for trait in finding.traits)
            for cause in held:
                own = [finding for finding in findings if finding.cause == cause]
                shown = min(
                    own or [each for each in findings if cause in each.traits],
                    key=lambda each: (len(each.example.source_tokens), each.example.source),
                )
                lines.append(
                    CauseCount(by, cause, len(own), len(own) / len(findings), held[cause], shown)
                )
        order = list(self.asked)
        return sorted(
            lines,
            key=lambda line: (order.index(line.by), -line.errors, -line.holds, line.cause.name),
        )

    def lacks(self) -> list[Lack]:
        """What sentences without a derivation need: words, and patterns of constructions; the commonest first."""
        found = [finding.gaps for finding in self.findings if finding.gaps]
        counts = Counter(what for each in found for what in each.unknown_tokens or (each.pattern,))
        return [
            Lack(what, count)
            for what, count in sorted(counts.items(), key=lambda each: (-each[1], each[0]))
        ]


def breakdown(
    examples: Sequence[Example],
    answers: Sequence[Answer],
    *,
    train: Sequence[Example],
    grammar: Grammar | None = None,
    judge: Judge = ExactJudge(),  # noqa: B008 (has no state)
    text: Preprocessor = Preprocessor(),  # noqa: B008 (frozen)
) -> Breakdown:
    """Why the wrong and missing answers to examples are so; of a hybrid, those of each part that was needed.

    With a `grammar`, what was said first is explained by what the grammar lacks; without one, and wherever a fallback
    answered, errors are explained by what the examples in `train` never showed. `text` is how the grammar's model cuts
    programs into tokens.
    """
    statistics = TargetStatistics.of(example.target for example in train)
    pairs = list(zip(examples, answers, strict=True))
    first = [(example, answer.first) for example, answer in pairs]
    second = [
        (example, part)
        for example, answer in pairs
        if answer.first.target is None
        for part in answer.parts[1:]
    ]

    def errors(said: Iterable[tuple[Example, Answer]]) -> list[tuple[Example, Answer]]:
        return [
            pair
            for pair in said
            if pair[1].target is None or not judge.is_right(pair[1].target, pair[0])
        ]

    by_grammar = [] if grammar is None else grammar_findings(errors(first), grammar, text)
    others = errors(second if grammar is not None else [*first, *second])
    findings = (
        *by_grammar,
        *(sequence_finding(example, answer, statistics) for example, answer in others),
    )
    return Breakdown(dict(Counter(answer.system for _, answer in [*first, *second])), findings)


def grammar_findings(
    errors: Sequence[tuple[Example, Answer]], grammar: Grammar, text: Preprocessor
) -> Iterator[Finding]:
    """Errors of a parser: its grammar derives the sentence or the right program not at all, or prefers another one."""
    sources = [
        example.source_tokens if answer.words is None else answer.words
        for example, answer in errors
    ]
    typed = [
        next(
            (way for way in text.tokenized(example.source) if way.words == words), words
        )  # as free text is written
        for (example, _), words in zip(errors, sources, strict=True)
    ]
    charts = BatchCharts.of(grammar, typed)
    full = charts.typed_forests
    goal = goal_charts(
        charts.grammar, full, [text.programs.normalized(example.target) for example, _ in errors]
    )
    for number, (example, answer) in enumerate(errors):
        root, goal_root = full.roots()[number], goal.roots()[number]
        where = Cause.GOLD_NOT_DERIVABLE if goal_root == NO_ROOT else Cause.WRONG_DERIVATION
        if answer.target is not None:
            difference = first_difference(answer.target, example.target)
            yield Finding(example, answer, (where,), str(difference or ""), difference=difference)
        elif root == NO_ROOT:
            found = gaps_in(charts.select(number))
            missing = Cause.UNKNOWN_WORD if found.unknown else Cause.UNKNOWN_CONSTRUCTION
            cause = Cause.ILLEGAL_TARGET if found.misfits else missing
            yield Finding(example, answer, (cause,), str(found), gaps=found)
        else:
            derivable = "cannot" if goal_root == NO_ROOT else "can"
            detail = (
                f"{answer.reason or 'no answer'}; the grammar {derivable} derive the right program"
            )
            cause = ABSTENTIONS.get(answer.reason.partition(":")[0], Cause.WITHHELD)
            yield Finding(example, answer, (cause, where), detail)


def sequence_finding(example: Example, answer: Answer, statistics: TargetStatistics) -> Finding:
    """An error of a system without a grammar: what of the right program training never showed, or only once."""
    if answer.target is None:
        return Finding(example, answer, (Cause.NO_ANSWER,), answer.reason or "no answer")
    gold, difference = example.target, first_difference(answer.target, example.target)
    found: dict[Cause, str] = {}  # the gravest first
    if statistics.is_longer(gold):
        found[Cause.LONGER_TARGET] = f"training has at most {statistics.longest} symbols"
    if unseen := statistics.atoms_seen(gold, times=0):
        found[Cause.UNSEEN_ATOM] = f"training lacks {', '.join(unseen)}"
    if difference and not statistics.knows_trigram(gold, difference.place):
        found[Cause.UNSEEN_TRIGRAM] = f"training never has '{difference.expected}' there"
    if rare := statistics.atoms_seen(gold, times=1):
        found[Cause.RARE_ATOM] = f"one training example has {', '.join(rare)}"
    detail = "; ".join(filter(None, [str(difference or ""), *found.values()]))
    return Finding(example, answer, tuple(found) or (Cause.OTHER,), detail, difference=difference)
