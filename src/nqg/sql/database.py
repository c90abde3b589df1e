"""A database that answers queries: one `select` at a time, read-only, within bounds of time and
size.

What runs is what a model wrote, and a model may be made to write anything. So of a SQLite file
nothing depends on how a query looks. The file is opened for reading; an authorizer lets SQLite
compile nothing but reading from tables of the schema and calling functions of a short list; bounds
on time, rows, lengths and depths end what takes too much. Other databases have no authorizer: every
word of a query must be known, and the session reads only.
"""

from __future__ import annotations

import math
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from decimal import Decimal
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

from nqg.errors import FormatError, NqgError
from nqg.files import is_url
from nqg.sql.schema import Schema, read_database
from nqg.sql.tokens import (
    NAME,
    RESERVED,
    SQL_QUOTES,
    is_number,
    quoted,
    sql_text,
    sql_words,
)

Value = str | int | float | bytes | None

STEPS = 1_000  # instructions of SQLite's machine between two looks at the clock
MOST_BYTES = 100_000  # of one value, and of a query
MOST_QUERY_WORDS = 5_000  # of a query, where a database has no bounds of its own
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
    return (
        str(value) if isinstance(value, float) and not math.isfinite(value) else value
    )


@dataclass(frozen=True, slots=True)
class Database:
    """A SQLite file, its schema, and what one query may take of it."""

    place: str
    schema: Schema
    seconds: float = 2.0
    most_rows: int = 1_000

    @classmethod
    def open(
        cls, path: Path | str, *, seconds: float = 2.0, most_rows: int = 1_000
    ) -> Database:
        """The database in a file, or of a URL; one that cannot be read is refused here."""
        kind = UrlDatabase if is_url(path) else cls
        return kind(str(path), read_database(path), seconds, most_rows)

    def run(self, query: str) -> Rows:
        """The result of a `select`; whatever else a query is, or whatever it runs into, is a
        `QueryError`.

        The database gets the words that `sql_words` finds, so that both read the same: without
        comments, and with strings in single quotation marks, which are never names.
        """
        try:
            words = [
                quoted(word, "'") if word[0] in SQL_QUOTES else word
                for word in sql_words(query)
            ]
            if [word.lower() for word in words[:1]] != ["select"]:
                raise QueryError(
                    f"expected a query that begins with 'select', found {query[:80]!r}"
                )
            columns, rows = self._fetched(words)
        except FormatError as error:
            raise QueryError(str(error)) from None
        except (
            sqlite3.Error,
            sqlite3.Warning,
            ValueError,
            OverflowError,
        ) as error:  # of several statements: a Warning
            late = (
                f"it takes more than {self.seconds:g} s"
                if "interrupted" in str(error)
                else str(error)
            )
            raise QueryError(f"the query does not run: {late}") from None
        return Rows(columns, tuple(rows[: self.most_rows]), len(rows) > self.most_rows)

    def _fetched(
        self, words: list[str]
    ) -> tuple[tuple[str, ...], list[tuple[Value, ...]]]:
        """The columns and rows of a query, one row more than there may be."""
        with self._guarded(time.monotonic() + self.seconds) as connection:
            cursor = connection.execute(sql_text(words))
            return tuple(
                name for name, *_ in cursor.description or ()
            ), cursor.fetchmany(self.most_rows + 1)

    @contextmanager
    def _guarded(self, until: float) -> Iterator[sqlite3.Connection]:
        """A connection of its own, for one query: what one query does to it, the next one never
        meets.
        """
        tables = {table.name for table in self.schema.tables}

        def authorize(
            action: int, first: str | None, second: str | None, *_: str | None
        ) -> int:
            # A list of what is allowed is safer than one of what is denied.
            is_allowed = (
                action == sqlite3.SQLITE_SELECT
                or (action == sqlite3.SQLITE_READ and (first or "").lower() in tables)
                or (
                    action == sqlite3.SQLITE_FUNCTION
                    and (second or "").lower() in FUNCTIONS
                )
            )
            return sqlite3.SQLITE_OK if is_allowed else sqlite3.SQLITE_DENY

        # The file is opened for reading only, whatever the query says.
        uri = f"{Path(self.place).resolve().as_uri()}?mode=ro"
        with closing(
            sqlite3.connect(uri, uri=True, timeout=self.seconds, isolation_level=None)
        ) as connection:
            connection.execute("pragma query_only = on")
            connection.execute("pragma trusted_schema = off")
            for bound, most in BOUNDS.items():
                connection.setlimit(bound, most)
            connection.text_factory = lambda text: text.decode("utf-8", "replace")
            # The authorizer comes after the pragmas, which it would deny.
            connection.set_authorizer(authorize)
            connection.set_progress_handler(lambda: time.monotonic() > until, STEPS)
            yield connection


_MARKS = "( ) , . * + - / = <> < > <= >= != ||"
URL_MARKS = frozenset(_MARKS.split())
_KEYWORDS = "case when then else end offset escape true false"
FORBIDDEN_KEYWORDS = RESERVED.union(_KEYWORDS.split())
FORBIDDEN = frozenset(
    ["into", "for", "procedure", "with", "returning"]
)  # even where a column is called so


@dataclass(frozen=True, slots=True)
class UrlDatabase(Database):
    """A database that SQLAlchemy reaches, at the URL `place`."""

    def _fetched(
        self, words: list[str]
    ) -> tuple[tuple[str, ...], list[tuple[Value, ...]]]:
        from nqg.sql.database_url import connected

        words = words[:-1] if words[-1] == ";" else words
        self._check(words)
        try:
            with connected(self.place, self.seconds) as connection:
                once = connection.execution_options(
                    no_parameters=True, stream_results=True
                )
                found = once.exec_driver_sql(sql_text(words))
                # One row more than is shown tells whether the result was cut.
                rows = [
                    tuple(map(_as_value, row))
                    for row in found.fetchmany(self.most_rows + 1)
                ]
                if any(
                    isinstance(value, (str, bytes)) and len(value) > MOST_BYTES
                    for row in rows
                    for value in row
                ):
                    raise QueryError("the query does not run: a value is too long")
                return tuple(found.keys()), rows
        except QueryError:
            raise
        except NqgError as error:
            raise QueryError(f"the query does not run: {error}") from None

    def _check(self, words: list[str]) -> None:
        """Refuse what is not known to be harmless: names of nothing in the schema, functions not on
        the list, marks.
        """
        lower = [word.lower() for word in words]
        depth = max(accumulate((word == "(") - (word == ")") for word in words))
        if (
            sum(map(len, words)) > MOST_BYTES
            or depth > BOUNDS[sqlite3.SQLITE_LIMIT_EXPR_DEPTH]
        ):
            raise QueryError("the query does not run: it is too long, or too deep")
        if (
            lower.count("select") > BOUNDS[sqlite3.SQLITE_LIMIT_COMPOUND_SELECT]
            or len(words) > MOST_QUERY_WORDS
        ):
            raise QueryError(
                "the query does not run: it is too long, or selects too often"
            )
        tables = {table.name for table in self.schema.tables}
        known = tables.union(
            FORBIDDEN_KEYWORDS, *(table.columns for table in self.schema.tables)
        )
        known |= {
            word
            for before, word in pairwise(lower)
            if before == "as" or before in tables
        }  # aliases
        for word, after in zip(lower, [*lower[1:], ""], strict=True):
            is_string, is_name = word[0] in SQL_QUOTES, NAME.fullmatch(word) is not None
            is_called = is_name and after == "(" and word not in FORBIDDEN_KEYWORDS
            if (
                (is_string and "\\" in word)
                or (is_name and word in FORBIDDEN)
                or (is_name and word not in (FUNCTIONS if is_called else known))
                or not (is_string or is_name or word in URL_MARKS or is_number(word))
            ):
                raise QueryError(
                    f"the query does not run: {word!r:.80} is not allowed in it"
                )


def _as_value(value: Any) -> Value:
    """
    >>> from decimal import Decimal
    >>> _as_value(Decimal("1.50")), _as_value(True), _as_value(memoryview(b"a"))
    (1.5, 1, b'a')
    """
    # Other drivers have more types than SQLite; equal values have to compare equal.
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, (bytearray, memoryview)):
        return bytes(value)
    return (
        value
        if value is None or isinstance(value, (str, int, float, bytes))
        else str(value)
    )
