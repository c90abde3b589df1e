"""A batch of sentences, with or without the programs that are expected, and how many were answered and right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nqg.inference.hybrid import Answer
from nqg.web.limits import Limits, Refused, checked_sentence


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a batch: a sentence and, perhaps, its program."""

    sentence: str
    expected: str | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """A line and its answer."""

    line: Line
    answer: Answer

    @property
    def is_right(self) -> bool | None:
        """Whether the program is the expected one, token by token; None where none is expected."""
        if self.line.expected is None:
            return None
        return self.answer.target is not None and self.answer.target.split() == self.line.expected.split()


@dataclass(frozen=True, slots=True)
class Score:
    """How a batch went."""

    sentences: int
    answered: int
    expected: int  # sentences whose program is known
    right: int

    @classmethod
    def of(cls, rows: Sequence[Row]) -> Score:
        """The score of `rows`."""
        return cls(
            len(rows),
            sum(row.answer.target is not None for row in rows),
            sum(row.line.expected is not None for row in rows),
            sum(row.is_right is True for row in rows),
        )

    @property
    def coverage(self) -> float | None:
        """The share of sentences that got an answer."""
        return self.answered / self.sentences if self.sentences else None

    @property
    def exact_match(self) -> float | None:
        """The share of right answers among the sentences whose program is known."""
        return self.right / self.expected if self.expected else None


def read_lines(text: str, limits: Limits) -> list[Line]:
    r"""The lines of `text`: a sentence each, or a sentence, a tab and a program; blank ones are skipped.

    >>> read_lines("jump\tI_JUMP\n\nwalk twice\n", Limits())
    [Line(sentence='jump', expected='I_JUMP'), Line(sentence='walk twice', expected=None)]
    """
    lines = [
        _line(number, line, limits)
        for number, line in enumerate(text.removeprefix("\ufeff").replace("\r\n", "\n").split("\n"), start=1)
        if line.strip()
    ]
    if len(lines) > limits.sentences:
        raise Refused(413, f"{len(lines):,} sentences; a batch holds at most {limits.sentences:,}")
    return lines


def _line(number: int, line: str, limits: Limits) -> Line:
    columns = line.split("\t")
    if len(columns) > 2:
        raise Refused(
            422, f"line {number}: expected 'sentence' or 'sentence<TAB>program', found {len(columns)} columns"
        )
    try:
        checked_sentence(columns[0], limits)
    except Refused as error:
        raise Refused(error.status, f"line {number}: {error}") from None
    return Line(columns[0].strip(), columns[1].strip() or None if len(columns) == 2 else None)
