"""Every wrong or missing prediction by its cause: of a grammar what it lacks, of other systems what
training lacked.

Causes do not exclude each other, and the paper counts each by itself. The `cause` of an error is
the first that holds, so that the counts add up; `causes` are all that hold.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from nqg.answers import (
    ILLEGAL,
    LONG_TARGET,
    TOO_AMBIGUOUS,
    TOO_LONG,
    Answer,
    program_tokens,
)
from nqg.data.example import Example
from nqg.evaluation.evaluation import ExactJudge, Judge
from nqg.grammar.chart import goal_charts
from nqg.grammar.grammar import Grammar
from nqg.grammar.hypergraph import NO_ROOT
from nqg.inference.charts import BatchCharts
from nqg.inference.gaps import Gaps, gaps_in
from nqg.preprocessing.preprocessor import Preprocessor
from nqg.slots.matcher import Sentence

TARGET_START, TARGET_END = "<start>", "<end>"
Trigram = tuple[str, str, str]
Error = tuple[Example, Answer]


@dataclass(frozen=True)
class Difference:
    """The first position where a program differs from the right one, and both symbols there.

    TARGET_END is the symbol after the last.
    """

    place: int
    found: str
    expected: str

    def __str__(self) -> str:
        text = f"symbol {self.place + 1} is '{self.found}', expected '{self.expected}'"
        return text.replace(f"'{TARGET_END}'", "the end")


def first_difference(prediction: str, gold: str) -> Difference | None:
    """Where a prediction leaves the right program; nothing if it never does.

    >>> print(first_difference("answer ( state )", "answer ( city )"))
    symbol 3 is 'state', expected 'city'
    """
    predicted, right = (
        (*program_tokens(program), TARGET_END) for program in (prediction, gold)
    )
    for position, symbols in enumerate(zip(predicted, right)):
        if symbols[0] != symbols[1]:
            return Difference(position, *symbols)
    return None


def trigrams(target: str) -> Iterator[Trigram]:
    """Every symbol of a target, and its end, with the two symbols before it."""
    symbols = (TARGET_START, TARGET_START, *program_tokens(target), TARGET_END)
    return zip(symbols, symbols[1:], symbols[2:])


@dataclass(frozen=True)
class TargetStatistics:
    """Statistics of the training targets; `examples_with` counts the examples of each symbol."""

    trigrams: frozenset[Trigram]
    examples_with: Counter[str]
    longest: int

    @classmethod
    def of(cls, targets: Iterable[str]) -> TargetStatistics:
        seen: set[Trigram] = set()
        examples_with: Counter[str] = Counter()
        longest = 0
        for target in targets:
            symbols = program_tokens(target)
            seen.update(trigrams(target))
            examples_with.update(set(symbols))
            longest = max(longest, len(symbols))
        return cls(frozenset(seen), examples_with, longest)

    def is_longer(self, target: str) -> bool:
        return len(program_tokens(target)) > self.longest

    def knows_trigram(self, target: str, place: int) -> bool:
        """Whether the symbol at `place` of a target was seen after the two symbols before it."""
        return list(trigrams(target))[place] in self.trigrams

    def atoms_seen(self, target: str, times: int) -> tuple[str, ...]:
        """The distinct symbols of a target that were seen in just so many examples."""
        atoms = dict.fromkeys(program_tokens(target))
        return tuple(atom for atom in atoms if self.examples_with[atom] == times)


class Cause(StrEnum):
    """Why a prediction is wrong or missing; those of grammars first."""

    UNKNOWN_WORD = "no derivation: a word that no rule knows"
    UNKNOWN_CONSTRUCTION = "no derivation: known parts, no rule to join them"
    TOO_LONG = "the sentence is too long for the encoder"
    TOO_AMBIGUOUS = "the sentence has too many readings to be compared"
    ILLEGAL_TARGET = "no valid program"
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


# Why a sentence that has a derivation is not answered.
ABSTENTIONS = {
    TOO_LONG: Cause.TOO_LONG,
    TOO_AMBIGUOUS: Cause.TOO_AMBIGUOUS,
    ILLEGAL: Cause.ILLEGAL_TARGET,
    LONG_TARGET: Cause.LONG_TARGET,
}


@dataclass(frozen=True)
class Finding:
    """A wrong or missing prediction with its causes, the gravest first, and a sentence about it."""

    example: Example
    answer: Answer
    causes: tuple[Cause, ...]
    detail: str
    gaps: Gaps | None = None
    difference: Difference | None = None

    @property
    def cause(self) -> Cause:
        return self.causes[0]

    def to_dict(self) -> dict[str, Any]:
        # Only examples that were read with an id get one back.
        example = self.example
        values = {} if example.id is None else {"id": example.id}
        traits = [cause.name.lower() for cause in self.causes]
        gaps = self.gaps
        return values | {
            "source": example.source,
            "reference": example.target,
            "prediction": self.answer.target,
            "by": self.answer.system,
            "cause": traits[0],
            "traits": traits,
            "detail": self.detail,
            "unknown": list(gaps.unknown_tokens) if gaps else [],
            "pattern": gaps.pattern if gaps else None,
            "first_wrong": self.difference and asdict(self.difference),
        }


@dataclass(frozen=True)
class CauseCount:
    """A row of the table: for how many errors a cause is the first, and for how many it holds."""

    by: str
    cause: Cause
    errors: int
    share: float
    holds: int
    example: Finding


@dataclass(frozen=True)
class Breakdown:
    """The errors of one evaluation: how many examples each system was asked, and the findings."""

    asked: dict[str, int]
    findings: tuple[Finding, ...]

    def table(self) -> list[CauseCount]:
        """The causes of each system's errors, the commonest first, with the shortest example."""
        rows = []
        for by in self.asked:
            findings = [
                finding for finding in self.findings if finding.answer.system == by
            ]
            findings.sort(
                key=lambda error: (
                    len(error.example.source_tokens),
                    error.example.source,
                )
            )
            counts: list[CauseCount] = []
            # A cause counts where it is the first, and holds wherever it is named.
            for cause in Cause:
                held = [finding for finding in findings if cause in finding.causes]
                first = [finding for finding in held if finding.cause == cause]
                if held:
                    share = len(first) / len(findings)
                    example = (first or held)[0]
                    counts.append(
                        CauseCount(by, cause, len(first), share, len(held), example)
                    )
            rows += sorted(
                counts, key=lambda row: (-row.errors, -row.holds, row.cause.name)
            )
        return rows

    def lacks(self) -> dict[str, int]:
        """How many sentences need each word or pattern that is missing, the commonest first."""
        counts: Counter[str] = Counter()
        for finding in self.findings:
            if finding.gaps:
                counts.update(finding.gaps.unknown_tokens or (finding.gaps.pattern,))
        return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def breakdown(
    examples: Sequence[Example],
    answers: Sequence[Answer],
    *,
    train: Sequence[Example],
    grammar: Grammar | None = None,
    judge: Judge = ExactJudge(),  # noqa: B008 (has no state)
    text: Preprocessor = Preprocessor(),  # noqa: B008 (frozen)
) -> Breakdown:
    """The causes of wrong and missing answers; of a hybrid, those of each system that was needed.

    With a `grammar`, the errors of the first system are explained by what the grammar lacks.
    Without one, and for a fallback, errors are explained by what the examples in `train` never
    showed. `text` is how the grammar's model tokenizes programs.
    """
    # The first answers are the grammar's; a fallback is judged where it was needed.
    first: list[Error] = []
    second: list[Error] = []
    for example, answer in zip(examples, answers, strict=True):
        first.append((example, answer.first))
        if answer.first.target is None:
            second += [(example, component) for component in answer.parts[1:]]

    def errors(answered: list[Error]) -> Iterator[Error]:
        for example, answer in answered:
            if answer.target is None or not judge.is_right(answer.target, example):
                yield example, answer

    findings: list[Finding] = []
    unexplained = first + second
    if grammar is not None:
        findings += grammar_findings(list(errors(first)), grammar, text)
        unexplained = second
    # Errors without a grammar are compared with the training targets.
    statistics = TargetStatistics.of(example.target for example in train)
    for example, answer in errors(unexplained):
        findings.append(sequence_finding(example, answer, statistics))
    counts = Counter(answer.system for _, answer in first + second)
    return Breakdown(dict(counts), tuple(findings))


def grammar_findings(
    errors: Sequence[Error], grammar: Grammar, text: Preprocessor
) -> Iterator[Finding]:
    """Errors of a parser: its grammar lacks a derivation, or prefers another one."""
    # The charts of the sentences, and those of their right programs.
    sources: list[Sentence] = []
    for example, answer in errors:
        words = example.source_tokens if answer.words is None else answer.words
        # Free text is written as in the sentence, so the tokenization that the parser read is
        # looked for.
        readings = (
            reading
            for reading in text.tokenized(example.source)
            if reading.words == words
        )
        sources.append(next(readings, words))
    charts = BatchCharts.of(grammar, sources)
    full = charts.typed_forests
    targets = []
    for example, _ in errors:
        words = text.tokenized(example.source)[0].words
        targets.append(text.programs.normalized(example.target, words))
    roots, goal_roots = full.roots(), goal_charts(charts.grammar, full, targets).roots()

    # A wrong answer, a sentence without a derivation, or an answer that was withheld.
    for number, (example, answer) in enumerate(errors):
        is_derivable = goal_roots[number] != NO_ROOT
        gold = Cause.WRONG_DERIVATION if is_derivable else Cause.GOLD_NOT_DERIVABLE
        if answer.target is not None:
            difference = first_difference(answer.target, example.target)
            yield Finding(
                example, answer, (gold,), str(difference or ""), difference=difference
            )
        elif roots[number] == NO_ROOT:
            lacking = gaps_in(charts.select(number), sources[number])
            cause = (
                Cause.UNKNOWN_WORD if lacking.unknown else Cause.UNKNOWN_CONSTRUCTION
            )
            if lacking.misfits:
                cause = Cause.ILLEGAL_TARGET
            yield Finding(example, answer, (cause,), str(lacking), gaps=lacking)
        else:
            reason = answer.reason or "no answer"
            can = "can" if is_derivable else "cannot"
            cause = ABSTENTIONS.get(answer.reason.partition(":")[0], Cause.WITHHELD)
            detail = f"{reason}; the grammar {can} derive the right program"
            yield Finding(example, answer, (cause, gold), detail)


def sequence_finding(
    example: Example, answer: Answer, statistics: TargetStatistics
) -> Finding:
    """An error of a system without a grammar: what training never showed, or showed only once."""
    if answer.target is None:
        return Finding(
            example, answer, (Cause.NO_ANSWER,), answer.reason or "no answer"
        )
    gold, difference = example.target, first_difference(answer.target, example.target)
    details = {}
    # The gravest cause comes first.
    if statistics.is_longer(gold):
        details[Cause.LONGER_TARGET] = (
            f"training has at most {statistics.longest} symbols"
        )
    unseen = statistics.atoms_seen(gold, times=0)
    if unseen:
        details[Cause.UNSEEN_ATOM] = f"training lacks {', '.join(unseen)}"
    if difference and not statistics.knows_trigram(gold, difference.place):
        details[Cause.UNSEEN_TRIGRAM] = (
            f"training never has '{difference.expected}' there"
        )
    rare = statistics.atoms_seen(gold, times=1)
    if rare:
        details[Cause.RARE_ATOM] = f"one training example has {', '.join(rare)}"
    detail = "; ".join(filter(None, [str(difference or ""), *details.values()]))
    causes = tuple(details) or (Cause.OTHER,)
    return Finding(example, answer, causes, detail, difference=difference)
