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
from itertools import accumulate, chain, pairwise
from pathlib import Path
from typing import Any

from nqg.errors import FormatError, NqgError
from nqg.files import is_url
from nqg.sql.schema import Schema, read_database
from nqg.sql.tokens import (
    NAME,
    RESERVED,
    is_number,
    is_string,
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
            yield "\t".join(map(_one_line, row))
        if self.is_cut:
            yield "…"


def _one_line(value: Value) -> str:
    if value is None:
        return ""
    return " ".join(str(_plain(value)).split())


def _plain(value: Value) -> str | int | float | None:
    if isinstance(value, bytes):
        return f"x'{value.hex()}'"
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


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
            words = [quoted(word, "'") for word in sql_words(query)]
            if not words or words[0].lower() != "select":
                raise QueryError(
                    f"expected a query that begins with 'select', found {query[:80]!r}"
                )
            columns, rows = self._fetched(words)
        except FormatError as error:
            raise QueryError(str(error)) from None
        # A query of several statements is a Warning.
        except (sqlite3.Error, sqlite3.Warning, ValueError, OverflowError) as error:
            reason = str(error)
            if "interrupted" in reason:
                reason = f"it takes more than {self.seconds:g} s"
            raise QueryError(f"the query does not run: {reason}") from None
        return Rows(columns, tuple(rows[: self.most_rows]), len(rows) > self.most_rows)

    def _fetched(
        self, words: list[str]
    ) -> tuple[tuple[str, ...], list[tuple[Value, ...]]]:
        """The columns and rows of a query, one row more than there may be."""
        with self._guarded(time.monotonic() + self.seconds) as connection:
            cursor = connection.execute(sql_text(words))
            names = tuple(column[0] for column in cursor.description or ())
            return names, cursor.fetchmany(self.most_rows + 1)

    @contextmanager
    def _guarded(self, until: float) -> Iterator[sqlite3.Connection]:
        """A connection of its own, for one query: what one query does to it, the next one never
        meets.
        """
        tables = self.schema.columns_of_tables

        def authorize(
            action: int, first: str | None, second: str | None, *_: str | None
        ) -> int:
            # A list of what is allowed is safer than one of what is denied.
            if action == sqlite3.SQLITE_SELECT:
                return sqlite3.SQLITE_OK
            if action == sqlite3.SQLITE_READ and (first or "").lower() in tables:
                return sqlite3.SQLITE_OK
            if (
                action == sqlite3.SQLITE_FUNCTION
                and (second or "").lower() in FUNCTIONS
            ):
                return sqlite3.SQLITE_OK
            return sqlite3.SQLITE_DENY

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
QUERY_KEYWORDS = RESERVED.union(_KEYWORDS.split())
# Forbidden even where a column is called so.
FORBIDDEN = frozenset(["into", "for", "procedure", "with", "returning"])


@dataclass(frozen=True, slots=True)
class UrlDatabase(Database):
    """A database that SQLAlchemy reaches, at the URL `place`."""

    def _fetched(
        self, words: list[str]
    ) -> tuple[tuple[str, ...], list[tuple[Value, ...]]]:
        from nqg.sql.database_url import connected

        if words[-1] == ";":
            words.pop()
        self._check(words)
        try:
            with connected(self.place, self.seconds) as connection:
                once = connection.execution_options(
                    no_parameters=True, stream_results=True
                )
                result = once.exec_driver_sql(sql_text(words))
                # One row more than is shown tells whether the result was cut.
                fetched = result.fetchmany(self.most_rows + 1)
                rows = [tuple(map(_as_value, row)) for row in fetched]
                for value in chain.from_iterable(rows):
                    if isinstance(value, (str, bytes)) and len(value) > MOST_BYTES:
                        raise QueryError("the query does not run: a value is too long")
                return tuple(result.keys()), rows
        except QueryError:
            raise
        except NqgError as error:
            raise QueryError(f"the query does not run: {error}") from None

    def _check(self, words: list[str]) -> None:
        """Refuse what is not known to be harmless: names of nothing in the schema, functions not on
        the list, marks.
        """
        # Its size has bounds that SQLite would have set itself.
        lower = list(map(str.lower, words))
        depth = max(accumulate((word == "(") - (word == ")") for word in words))
        is_deep = depth > BOUNDS[sqlite3.SQLITE_LIMIT_EXPR_DEPTH]
        if is_deep or sum(map(len, words)) > MOST_BYTES:
            raise QueryError("the query does not run: it is too long, or too deep")
        selects = lower.count("select")
        if (
            selects > BOUNDS[sqlite3.SQLITE_LIMIT_COMPOUND_SELECT]
            or len(words) > MOST_QUERY_WORDS
        ):
            raise QueryError(
                "the query does not run: it is too long, or selects too often"
            )
        tables = self.schema.columns_of_tables
        names = {*QUERY_KEYWORDS, *tables}.union(*tables.values())
        # A name behind `as` or behind a table is an alias.
        for before, word in pairwise(lower):
            if before == "as" or before in tables:
                names.add(word)
        names -= FORBIDDEN
        for word, after in zip(lower, [*lower[1:], ""], strict=True):
            if is_string(word):
                is_allowed = "\\" not in word
            elif not NAME.fullmatch(word):
                is_allowed = word in URL_MARKS or is_number(word)
            elif after == "(" and word not in QUERY_KEYWORDS:
                is_allowed = word in FUNCTIONS
            else:
                is_allowed = word in names
            if not is_allowed:
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
    if value is None or isinstance(value, (str, int, float, bytes)):
        return value
    return str(value)
