"""A database that answers queries: one `select` at a time, read-only, within bounds of time and
size. `nqg.sql.reader` runs them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nqg.errors import FormatError, NqgError
from nqg.files import is_url
from nqg.sql.query_check import checked_words
from nqg.sql.reader import DatabaseError, DatabaseReader
from nqg.sql.reader_protocol import Failure, QueryRequest, Value
from nqg.sql.schema import Schema
from nqg.sql.tokens import quoted, sql_text, sql_words


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
        rows = [list(map(_plain, row)) for row in self.rows]
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
    """A database, its schema, and what one query may take of it."""

    reader: DatabaseReader
    schema: Schema
    seconds: float = 2.0
    most_rows: int = 1_000
    most_bytes: int = 10_000_000

    @classmethod
    def open(
        cls,
        path: Path | str,
        *,
        seconds: float = 2.0,
        most_rows: int = 1_000,
        most_bytes: int = 10_000_000,
    ) -> Database:
        """The database in a file, or of a URL; one that cannot be read is refused here."""
        reader = DatabaseReader(path)
        return cls(reader, reader.schema, seconds, most_rows, most_bytes)

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
            # A SQLite file has an authorizer; other databases get what is known to be
            # harmless.
            if is_url(self.place):
                words = checked_words(words, self.schema, self.place)
            result = self.reader.run(self._request(words), self.seconds)
        except DatabaseError as error:
            reason = error.reason
            # Whoever asked need not know who reads the database, and where it is.
            if error.kind is Failure.PLACE:
                reason = "the database cannot be reached"
            raise QueryError(f"the query does not run: {reason}") from None
        except FormatError as error:
            raise QueryError(str(error)) from None
        rows = tuple(map(tuple, result.rows))
        return Rows(tuple(result.columns), rows, result.is_cut)

    @property
    def place(self) -> str:
        """The path of the file, or the URL."""
        return self.reader.place

    def _request(self, words: Sequence[str]) -> QueryRequest:
        return QueryRequest(
            self.place,
            sql_text(words),
            tuple(table.name for table in self.schema.tables),
            self.most_rows,
            self.most_bytes,
        )
