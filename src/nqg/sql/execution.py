"""Queries that are run on a database: what does not run is not an answer, and right is what gives
the same rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from nqg.answers import Answer, System, exact_match
from nqg.data.example import Example
from nqg.errors import FormatError
from nqg.sql.database import Database, QueryError, Rows
from nqg.sql.reader_protocol import Value
from nqg.sql.tokens import as_sql, sql_words


@dataclass(frozen=True, slots=True)
class Executed:
    """A system whose queries are run: its answers have `rows`, and it abstains where a query has no
    result.
    """

    system: System
    database: Database

    def answers(self, sentences: Iterable[str]) -> Iterator[Answer]:
        answers = self.system.answers(sentences)
        return (executed(answer, self.database) for answer in answers)


def executed(answer: Answer, database: Database) -> Answer:
    """The answer with its rows, or an abstention."""
    if answer.target is None:
        return answer
    try:
        return replace(answer, rows=database.run(answer.target))
    except QueryError as error:
        return replace(
            answer,
            target=None,
            probability=None,
            confidence=None,
            reading=None,
            reason=str(error),
        )


@dataclass(frozen=True, slots=True)
class ExecutionJudge:
    """Right is a query that gives the same rows as the reference, in the same order if the
    reference asks for one.

    Where the reference has no result, it must be the same query.
    """

    database: Database

    def is_right(self, prediction: str, example: Example) -> bool:
        try:
            expected = self.database.run(as_sql(example.target))
        except QueryError:
            return exact_match(prediction, example.target)
        try:
            predicted = self.database.run(as_sql(prediction))
        except QueryError:
            return False
        return same_result(predicted, expected, ordered=is_ordered(example.target))


def same_result(rows: Rows, others: Rows, *, ordered: bool) -> bool:
    """Whether two results have the same rows, in the same order if that was asked for.

    >>> one, other = Rows(("n",), ((1,), (2.0,))), Rows(("m",), ((2,), (1,)))
    >>> same_result(one, other, ordered=False), same_result(one, other, ordered=True)
    (True, False)
    """
    if rows.is_cut != others.is_cut:
        return False
    first = _comparable(rows)
    second = _comparable(others)
    if ordered:
        return first == second
    return Counter(first) == Counter(second)


def _comparable(result: Rows) -> list[tuple[Value, ...]]:
    """The rows with rounded numbers: sums in another order may differ in the last digits."""
    return [tuple(map(_rounded, row)) for row in result.rows]


def _rounded(value: Value) -> Value:
    return float(f"{value:.10g}") if isinstance(value, float) else value


def is_ordered(query: str) -> bool:
    """Whether a query says in which order its rows come; `order` in a subquery does not.

    >>> is_ordered("select a from t order by b"), is_ordered("select a from (select a from t order by b)")
    (True, False)
    """
    depth = 0
    try:
        words = sql_words(query)
    except FormatError:
        return False
    # Only an `order` outside of all parentheses orders the rows of the query itself.
    for word in words:
        depth += (word == "(") - (word == ")")
        if depth == 0 and word.lower() == "order":
            return True
    return False
