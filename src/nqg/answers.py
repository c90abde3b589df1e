"""Answers: what any system says of a sentence, and when that is right.

A parser, a hybrid, a sequence-to-sequence model, a file of predictions and any object of a user's
are systems alike: sentences in, one `Answer` each out. Evaluation, calibration, the server and the
command line know no more of them than that.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from nqg.calls import Call, NotACall, read_calls
from nqg.errors import NqgError
from nqg.extensions import notebook_html
from nqg.files import append_line
from nqg.text.json_calls import WrittenToken

if TYPE_CHECKING:
    from nqg.grammar.derivation import Derivation, Tokens
    from nqg.grammar.grammar import Rule
    from nqg.grammar.hypergraph import Span
    from nqg.inference.gaps import Gaps
    from nqg.model.confidence import Evidence
    from nqg.sql.database import Rows

# How answers call their system: a parser, a sequence-to-sequence model, or both.
GRAMMAR, SEQ2SEQ, BOTH = "grammar", "seq2seq", "both readers"
# Without a derivation, one call of a grammar's model.
CALLS = "call reader"
# Why a parser abstains.
NO_DERIVATION = "no derivation"
ILLEGAL = "no valid program"
TOO_LONG = "too long"
LONG_TARGET = "target too long"
TOO_AMBIGUOUS = "too ambiguous"
UNSURE = "not sure enough"
REFUSED = "out of scope"

# What an abstention is called in JSON, by the beginning of its reason.
KINDS = {
    NO_DERIVATION: "no rule",
    ILLEGAL: "illegal",
    TOO_LONG: "too long",
    LONG_TARGET: "too long",
    TOO_AMBIGUOUS: "too ambiguous",
    UNSURE: "unsure",
    REFUSED: "out of scope",
}

_PROGRAM_TOKEN = re.compile(r"\w+|[^\w\s]")


@dataclass(frozen=True, slots=True)
class Reading:
    """A program that a sentence may mean, its probability, and the best derivation that yields it.

    `scores` has the model's score of each of the derivation's hyperedges, in their order; the
    higher their sum, the better the derivation. `marginals`, if asked for, has the probability that
    a derivation of the sentence, whatever it yields, applies this rule to this span. `target` is
    written as training data would, `tokens` as the grammar does. Where these are others, `written`
    has those of the target.
    """

    target: str
    probability: float
    derivation: Derivation
    is_legal: bool = True
    scores: tuple[float, ...] = ()
    marginals: tuple[float, ...] = ()
    written: tuple[WrittenToken[str], ...] = field(default=(), repr=False)
    # What a confidence in it is computed from, in a model that has one.
    evidence: Evidence | None = field(default=None, compare=False, repr=False)

    @property
    def tokens(self) -> Tokens:
        """The tokens that the derivation yields."""
        return self.derivation.target


@dataclass(frozen=True, slots=True)
class ChartSpan:
    """A span, the first rule and the score of its best derivation, and the span's probability.

    The probability is that of the span in a derivation of the whole sentence: 0 if none uses it.
    """

    span: Span
    rule: Rule
    score: float
    probability: float


@dataclass(frozen=True, slots=True)
class Correction:
    """A word that no rule knows, and the one that it was read as; its place counts from 0."""

    place: int
    written: str
    read: str

    def __str__(self) -> str:
        """
        >>> str(Correction(0, "tunr", "turn"))
        'read `tunr` as `turn`'
        """
        return f"read `{self.written}` as `{self.read}`"


@dataclass(frozen=True, slots=True)
class Answer:
    """The program that a system gives for a sentence, or an abstention, which is falsy.

    - `source` is the sentence as typed.
    - `target` is the program, written as training programs are. An abstention has None.
    - `reason` says why there is no program. A hybrid also gives the program of its other reader.
    - `confidence` is the estimated probability that the program is right, if the model learned it.
    - `probability` is the in-grammar probability: the share among all readings of the sentence.
    - `reading` is the program with its derivation, and `readings` are the most probable programs.
    - `chart` has every part of the sentence that the grammar derives, if asked for.
    - `parts` has the answers of both systems of a hybrid.
    - `words` are the tokens that the parser saw, and `corrections` the typos that it corrected.
    - `unknown_words` are words that training lacks, and `gaps` says what the grammar lacks.
    - `withheld` is the best program of an abstention, if it was not sure enough. It has its confidence.
    - `unread` has the words that an answer of the call reader does not account for.
    - `nearest` is the most similar training sentence, with its program.
    - `rows` is what a query gives, if it ran on a database.
    - `commands` has the answer to each command, if the sentence has several.

    >>> print(Answer("hop", "JUMP").target, bool(Answer("fly", None, reason="no derivation")))
    JUMP False
    """

    source: str
    target: str | None = None
    probability: float | None = None
    system: str = "system"
    reason: str = ""
    confidence: float | None = None
    reading: Reading | None = None
    readings: tuple[Reading, ...] = ()
    chart: tuple[ChartSpan, ...] | None = None  # short spans first
    parts: tuple[Answer, ...] = ()
    # None where the words are what stands between spaces.
    words: Tokens | None = field(default=None, compare=False)
    corrections: tuple[Correction, ...] = ()
    # Words that training does not have, outside of values; of a model with confidence alone.
    unknown_words: tuple[str, ...] = field(default=(), compare=False)
    # What the grammar lacks, if that was asked for.
    gaps: Gaps | None = field(default=None, compare=False)
    withheld: Answer | None = field(default=None, compare=False, repr=False)
    nearest: Answer | None = field(default=None, compare=False, repr=False)
    # What the program gives, where it was run on a database.
    rows: Rows | None = None
    commands: tuple[Answer, ...] = ()
    unread: Tokens = field(default=(), compare=False)

    def __bool__(self) -> bool:
        """Whether there is a program.

        >>> bool(Answer("jump", "I_JUMP")), bool(Answer("fly", reason="no derivation"))
        (True, False)
        """
        return self.target is not None

    def __repr__(self) -> str:
        """What a person wants to see of it: derivations and charts would fill pages.

        >>> Answer("jump", "I_JUMP", confidence=0.97)
        Answer('jump', 'I_JUMP', confidence=0.97)
        >>> Answer("fly", reason="no derivation")
        Answer('fly', None, reason='no derivation')
        """
        shown = [repr(self.source), repr(self.target)]
        if self.confidence is not None:
            shown.append(f"confidence={self.confidence:.3g}")
        if self.reason:
            shown.append(f"reason={self.reason!r}")
        return f"Answer({', '.join(shown)})"

    def explain(self) -> str:
        """A drawing of the derivation, with the confidence. For an abstention, what is missing.

        >>> print(Answer("fly", reason="no derivation: no rule knows 'fly'").explain())
        abstained: no derivation: no rule knows 'fly'
        """
        from nqg.inference.explanation import described, drawn

        return described(self, lambda reading: drawn(reading).plain)

    @property
    def kind(self) -> str:
        """ "answered", or the reason of an abstention in one or two words, for use in code.

        >>> Answer("fly", reason="no derivation: no rule knows 'fly'").kind
        'no rule'
        """
        if self.target is not None:
            return "answered"
        for reason, kind in KINDS.items():
            if self.reason.startswith(reason):
                return kind
        return "no answer"

    @property
    def missing(self) -> tuple[str, ...]:
        """For an abstention, the words that training lacks, or the phrases that no rule covers or joins."""
        if self.target is not None:
            return ()
        gaps = self.first.gaps
        if gaps is None or gaps.is_whole:
            return self.unknown_words
        return gaps.missing

    @property
    def source_tokens(self) -> Tokens:
        """The words of the sentence, as the parser saw them."""
        if self.words is None:
            return tuple(self.source.split())
        return self.words

    @property
    def answered_by(self) -> str | None:
        """The system that gave the program. For an abstention, None."""
        return None if self.target is None else self.system

    @property
    def credit(self) -> str:
        """Who gave the program, in words.

        >>> Answer("jump", "JUMP", system=GRAMMAR).credit, Answer("jump", "JUMP", system=BOTH).credit
        ('by the grammar', 'by both readers')
        """
        return f"by {BOTH}" if self.system == BOTH else f"by the {self.system}"

    @property
    def call(self) -> Call | None:
        """The program as a call. For an abstention, None.

        >>> Answer("wake me at 7", 'alarm(time="7:00")').call
        Call(name='alarm', arguments={'time': '7:00'}, positional=())
        """
        calls = self.calls
        if len(calls) > 1:
            raise NotACall(
                f"expected one call, found {len(calls)} in '{self.target}'; "
                "`calls` has them all"
            )
        return calls[0] if calls else None

    @property
    def calls(self) -> tuple[Call, ...]:
        """The calls of the program, in their order. For an abstention, there are none."""
        return () if self.target is None else read_calls(self.target)

    @property
    def first(self) -> Answer:
        """For a hybrid, the answer of its grammar. For other systems, the answer itself."""
        return self.parts[0] if self.parts else self

    @property
    def all_corrections(self) -> tuple[Correction, ...]:
        """The corrections of the sentence or, if it holds several commands, of each."""
        corrections = list(self.corrections)
        for command in self.commands:
            corrections += command.corrections
        return tuple(corrections)

    def log_to(self, path: Path, **context: str | None) -> None:
        """Append the sentence and its answer to a file, as a line of JSON, with more values if they
        are given.
        """
        values = {
            **context,
            "source": " ".join(self.source.split()),
            "target": self.target,
            "confidence": self.confidence,
            "reason": self.reason,
        }
        append_line(path, json.dumps(values, ensure_ascii=False))

    def _repr_html_(self) -> str:
        """The answer as a notebook shows it."""
        return notebook_html(self)


def in_percent(confidence: float) -> str:
    """A confidence for people; nothing learned is certain, so neither 0 nor 100 %.

    >>> in_percent(0.914), in_percent(0.9999), in_percent(0.0001)
    ('91 %', 'over 99 %', 'under 1 %')
    """
    if confidence > 0.99:
        return "over 99 %"
    if confidence < 0.01:
        return "under 1 %"
    return f"{confidence:.0%}".replace("%", " %")


def distinct_candidates(answers: Iterable[Answer]) -> list[Answer]:
    """The answers to one sentence with each target once, the likeliest first.

    Two sequences of subwords may spell one target, so their probabilities are added up.

    >>> spelled = [Answer("a", "x", 0.3), Answer("a", "y", 0.4), Answer("a", "x", 0.2)]
    >>> [(answer.target, answer.probability) for answer in distinct_candidates(spelled)]
    [('x', 0.5), ('y', 0.4)]
    """
    by_target: dict[str, Answer] = {}
    for answer in answers:
        target = answer.target
        if target is None:
            continue
        earlier = by_target.get(target)
        if earlier is not None:
            total = (earlier.probability or 0.0) + (answer.probability or 0.0)
            answer = replace(earlier, probability=total)
        by_target[target] = answer
    return sorted(
        by_target.values(),
        key=lambda answer: (-(answer.probability or 0.0), answer.target),
    )


class System(Protocol):
    """Anything that turns sentences into programs: a parser, a hybrid, or an object of yours.

    >>> class Echo:
    ...     def answers(self, sentences):
    ...         return [Answer(each, each.upper()) for each in sentences]
    >>> system: System = Echo()
    >>> [answer.target for answer in system.answers(["walk"])]
    ['WALK']
    """

    def answers(self, sentences: Iterable[str]) -> Iterable[Answer]:
        """An answer to each sentence, in the order of the sentences."""


@runtime_checkable
class Seq2seqReader(Protocol):
    """A `Seq2seq`, a `T5Reader` or a `LegalSeq2seq`, or one of them that reads raw sentences."""

    def answers(self, sentences: Iterable[str]) -> Iterable[Answer]:
        """The target of each sentence, with its probability."""
        ...

    def candidates(self, sentences: Sequence[str], count: int) -> list[list[Answer]]:
        """Up to `count` different targets of each sentence, the likeliest first, each with its
        probability.
        """
        ...

    def log_probabilities(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """The natural logarithm of p(target | sentence) for each pair (sentence, target), under
        the free model.
        """
        ...


def checked_sentences(sentences: Iterable[str]) -> Iterable[str]:
    """The sentences, unless they are the letters of a single one."""
    if isinstance(sentences, str):
        raise NqgError(
            f"expected a list of sentences, found the string '{sentences:.80}'; "
            "use parse(sentence) for one sentence, or answers([sentence, …]) for many"
        )
    return sentences


def program_tokens(program: str) -> Tokens:
    """The words and marks of a program without white space, which detokenisers lose.

    >>> program_tokens("answer(count ( m0 ))")
    ('answer', '(', 'count', '(', 'm0', ')', ')')
    """
    return tuple(_PROGRAM_TOKEN.findall(program))


def exact_match(prediction: str | None, reference: str) -> bool:
    """Whether two programs have the same tokens. An abstention matches nothing.

    >>> exact_match("answer(state)", "answer ( state )")
    True
    >>> exact_match("answer ( m0 )", "answer ( M0 )")
    False
    """
    return prediction is not None and program_tokens(prediction) == program_tokens(
        reference
    )
