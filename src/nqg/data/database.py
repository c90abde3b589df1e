"""A SQLite database that answers queries: one `select` at a time, read-only, within bounds of time and size.

What runs is what a model wrote, and a model may be made to write anything. So nothing depends on how a query looks. The
file is opened for reading; an authorizer lets SQLite compile nothing but reading from tables of the schema and calling
functions of a short list; bounds on time, rows, lengths and depths end what takes too much.
"""

from __future__ import annotations

import math
import sqlite3
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nqg.data.schema import Schema, read_database
from nqg.data.sql import QUOTES, quoted, sql_text, sql_words
from nqg.errors import FormatError, NqgError

Value = str | int | float | bytes | None

STEPS = 1_000  # instructions of SQLite's machine between two looks at the clock
MOST_BYTES = 100_000  # of one value, and of a query
_FUNCTIONS = """
    abs avg ceil ceiling coalesce count date datetime floor group_concat ifnull iif instr julianday length like lower
    ltrim max min nullif replace round rtrim sign strftime substr substring sum time total trim typeof upper
"""
FUNCTIONS = frozenset(_FUNCTIONS.split())
BOUNDS = {
    sqlite3.SQLITE_LIMIT_LENGTH: MOST_BYTES,
    sqlite3.SQLITE_LIMIT_SQL_LENGTH: MOST_BYTES,
    sqlite3.SQLITE_LIMIT_EXPR_DEPTH: 100,
    sqlite3.SQLITE_LIMIT_COMPOUND_SELECT: 50,
    sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: 1_000,
    sqlite3.SQLITE_LIMIT_ATTACHED: 0,
    sqlite3.SQLITE_LIMIT_WORKER_THREADS: 0,
}


class QueryError(NqgError):
    """Why a query has no result."""


@dataclass(frozen=True, slots=True)
class Rows:
    """The result of a query; `is_cut` says that it has more rows than these."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Value, ...], ...]
    is_cut: bool = False

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it; bytes are written as in SQL, and so are numbers beyond all numbers.

        >>> Rows(("a", "b"), ((1, b"\\0"), (None, float("inf")))).to_dict()["rows"]
        [[1, "x'00'"], [None, 'inf']]
        """
        rows = [[_plain(value) for value in row] for row in self.rows]
        return {"columns": list(self.columns), "rows": rows, "is_cut": self.is_cut}

    def lines(self) -> Iterator[str]:
        """For people: the names of the columns and each row, with tabs in between.

        >>> list(Rows(("name", "price"), (("lamp", None),), is_cut=True).lines())
        ['name\\tprice', 'lamp\\t', '…']
        """
        yield "\t".join(self.columns)
        for row in self.rows:
            values = ("" if value is None else str(_plain(value)) for value in row)
            yield "\t".join(" ".join(value.split()) for value in values)
        if self.is_cut:
            yield "…"


def _plain(value: Value) -> str | int | float | None:
    if isinstance(value, bytes):
        return f"x'{value.hex()}'"
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


@dataclass(frozen=True, slots=True)
class Database:
    """A SQLite file, its schema, and what one query may take of it."""

    path: Path
    schema: Schema
    seconds: float = 2.0
    most_rows: int = 1_000

    @classmethod
    def open(cls, path: Path | str, *, seconds: float = 2.0, most_rows: int = 1_000) -> Database:
        """The database in a file; one that cannot be read is refused here."""
        return cls(Path(path), read_database(Path(path)), seconds, most_rows)

    def run(self, query: str) -> Rows:
        """The result of a `select`; whatever else a query is, or whatever it runs into, is a `QueryError`.

        SQLite gets the words that `sql_words` finds, so that both read the same: without comments, and with strings
        in single quotation marks, which are never names.
        """
        until = time.monotonic() + self.seconds
        try:
            words = [quoted(word, "'") if word[0] in QUOTES else word for word in sql_words(query)]
            if [word.lower() for word in words[:1]] != ["select"]:
                raise QueryError(f"expected a query that begins with 'select', found {query[:80]!r}")
            with self._guarded(until) as connection:
                cursor = connection.execute(sql_text(words))
                rows = cursor.fetchmany(self.most_rows + 1)
                columns = tuple(name for name, *_ in cursor.description or ())
        except FormatError as error:
            raise QueryError(str(error)) from None
        except (sqlite3.Error, sqlite3.Warning, ValueError, OverflowError) as error:  # of several statements: a Warning
            late = f"it takes more than {self.seconds:g} s" if "interrupted" in str(error) else str(error)
            raise QueryError(f"the query does not run: {late}") from None
        return Rows(columns, tuple(rows[: self.most_rows]), len(rows) > self.most_rows)

    @contextmanager
    def _guarded(self, until: float) -> Iterator[sqlite3.Connection]:
        """A connection of its own, for one query: what one query does to it, the next one never meets."""
        tables = {table.name for table in self.schema.tables}

        def authorize(action: int, first: str | None, second: str | None, *_: str | None) -> int:
            is_allowed = (
                action == sqlite3.SQLITE_SELECT
                or (action == sqlite3.SQLITE_READ and (first or "").lower() in tables)
                or (action == sqlite3.SQLITE_FUNCTION and (second or "").lower() in FUNCTIONS)
            )
            return sqlite3.SQLITE_OK if is_allowed else sqlite3.SQLITE_DENY

        uri = f"{self.path.resolve().as_uri()}?mode=ro"
        with closing(sqlite3.connect(uri, uri=True, timeout=self.seconds, isolation_level=None)) as connection:
            connection.execute("pragma query_only = on")
            connection.execute("pragma trusted_schema = off")
            for bound, most in BOUNDS.items():
                connection.setlimit(bound, most)
            connection.text_factory = lambda text: text.decode("utf-8", "replace")
            connection.set_authorizer(authorize)
            connection.set_progress_handler(lambda: time.monotonic() > until, STEPS)
            yield connection


def same_result(rows: Rows, others: Rows, *, ordered: bool) -> bool:
    """Whether two results have the same rows, in the same order if that was asked for.

    >>> one, other = Rows(("n",), ((1,), (2.0,))), Rows(("m",), ((2,), (1,)))
    >>> same_result(one, other, ordered=False), same_result(one, other, ordered=True)
    (True, False)
    """
    first, second = ([tuple(map(_comparable, row)) for row in each.rows] for each in (rows, others))
    return (first == second if ordered else Counter(first) == Counter(second)) and rows.is_cut == others.is_cut


def _comparable(value: Value) -> Value:
    """Sums of the same numbers in another order may differ in the last digits."""
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
    for word in words:
        depth += (word == "(") - (word == ")")
        if depth == 0 and word.lower() == "order":
            return True
    return False
