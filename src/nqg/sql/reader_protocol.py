"""What goes between `nqg.sql.reader` and the process that reads databases: requests, answers, and
the bounds of both.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum
from typing import Any

from nqg.errors import NqgError

# Values of a query, as drivers of other databases have them, too.
Value = str | int | float | bytes | None

MOST_BYTES = 100_000  # of one value, and of a query
MOST_COLUMNS = 500  # of a result
FEWEST_BYTES = 8  # that a value counts, however short
LONGEST_VALUE = 1_000  # characters of a value that a question may mention
MOST_VALUE_BYTES = 20_000_000  # of all distinct values of a column
# That reading the columns of all views of a SQLite file may take: SQLite expands a view to tell its
# columns, within bounds that one view reaches in less than a second.
VIEW_SECONDS = 3.0
UNWRITABLE = "a query cannot write its name"


class Failure(StrEnum):
    """Why something was not read."""

    QUERY = "query"  # what was asked is wrong
    PLACE = "place"  # the database cannot be reached; for its owner's eyes only
    TIME = "time"
    MEMORY = "memory"


class ReadFailure(NqgError):
    """What was not read, for a reason in words."""

    def __init__(self, kind: Failure, reason: str) -> None:
        super().__init__(reason)
        self.kind = kind
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table, as the database spells both."""

    table: str
    name: str


@dataclass(frozen=True, slots=True)
class QueryRequest:
    """A query, the tables that it may read, and the bounds of its result."""

    place: str
    query: str
    tables: tuple[str, ...]
    most_rows: int
    most_bytes: int


@dataclass(frozen=True, slots=True)
class Result:
    """The columns and rows of a query; `is_cut` says that there are more rows."""

    columns: list[str]
    rows: list[list[Value]]
    is_cut: bool


@dataclass(slots=True)
class Contents:
    """What a database holds, in its own spelling, and why some of it cannot be used."""

    database: str
    tables: dict[str, list[str]] = field(default_factory=dict)
    # Table, column, and what they refer to.
    foreign_keys: list[tuple[str, str, str, str]] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)

    def add(self, table: str, columns: Iterable[str]) -> None:
        """Add a table with those of its columns that a query can name.

        >>> contents = Contents("shop")
        >>> contents.add("lamp", ["name", ""])
        >>> contents.tables, contents.left_out
        ({'lamp': ['name']}, ["column '' of table 'lamp': a query cannot write its name"])
        """
        if not _can_be_written(table):
            self.left_out.append(f"table {table!r}: {UNWRITABLE}")
            return
        named = []
        for column in columns:
            if _can_be_written(column):
                named.append(column)
            else:
                name = f"column {column!r} of table {table!r}"
                self.left_out.append(f"{name}: {UNWRITABLE}")
        if named:
            self.tables[table] = named

    def leave_out(self, table: str, error: Exception) -> None:
        """Name a table that cannot be read."""
        self.tables.pop(table, None)
        reason = first_line(error)
        if isinstance(error, MemoryError):
            reason = "it takes too much memory"
        self.left_out.append(f"table {table!r}: {reason}")


def views_in_time(views: Iterable[str], contents: Contents) -> Iterator[str]:
    """The views whose columns there is time to read; the others are left out."""
    begin = time.monotonic()
    for view in views:
        if time.monotonic() - begin <= VIEW_SECONDS:
            yield view
        else:
            reason = f"the views before it take more than {VIEW_SECONDS:g} s"
            contents.leave_out(view, ReadFailure(Failure.TIME, reason))


def _can_be_written(name: str) -> bool:
    """Whether a name has letters, and no mark that opens a string."""
    return name.strip() != "" and "'" not in name and '"' not in name


def first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0]


def bounded_result(
    columns: Sequence[str], rows: Iterable[Sequence[Any]], request: QueryRequest
) -> Result:
    """The first rows of a query, up to the bounds on their number and their bytes."""
    if len(columns) > MOST_COLUMNS:
        reason = f"it has {len(columns):,} columns, expected {MOST_COLUMNS} at most"
        raise ReadFailure(Failure.QUERY, reason)
    kept: list[list[Value]] = []
    left = request.most_bytes
    for row in rows:
        values = [as_value(value) for value in row]
        for value in values:
            left -= _size(value)
        if len(kept) == request.most_rows or (left < 0 and kept):
            return Result(list(columns), kept, is_cut=True)
        if left < 0:
            reason = f"its first row has more than {request.most_bytes:,} bytes"
            raise ReadFailure(Failure.QUERY, reason)
        kept.append(values)
    return Result(list(columns), kept, is_cut=False)


def _size(value: Value) -> int:
    if not isinstance(value, str | bytes):
        return FEWEST_BYTES
    if len(value) > MOST_BYTES:
        raise ReadFailure(Failure.QUERY, "a value is too long")
    return max(len(value), FEWEST_BYTES)


def as_value(value: Any) -> Value:
    """
    >>> from decimal import Decimal
    >>> as_value(Decimal("1.50")), as_value(True), as_value(memoryview(b"a"))
    (1.5, 1, b'a')
    """
    # Other drivers have more types than SQLite; equal values have to compare equal.
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    if value is None or isinstance(value, str | int | float | bytes):
        return value
    return str(value)


def column_texts(values: Iterable[Any]) -> tuple[list[str], int]:
    r"""The values of a column as text, and how many are not UTF-8.

    Values that are too long to be mentioned in a question are left out.

    >>> column_texts([b"Oslo", 7, None, b"\xff", "x" * 2000])
    (['Oslo', '7'], 1)
    """
    texts: list[str] = []
    unreadable = 0
    left = MOST_VALUE_BYTES
    for value in values:
        if value is None:
            continue
        try:
            text = value.decode() if isinstance(value, bytes) else str(value)
        except UnicodeDecodeError:
            unreadable += 1
            continue
        if len(text) > LONGEST_VALUE:
            continue
        left -= max(len(text), FEWEST_BYTES)
        if left < 0:
            reason = f"its values have more than {MOST_VALUE_BYTES:,} bytes"
            raise ReadFailure(Failure.QUERY, reason)
        texts.append(text)
    return texts, unreadable


def bytes_as_json(value: Any) -> dict[str, str]:
    """Bytes as JSON has them; `bytes_from_json` gives them back."""
    if isinstance(value, bytes):
        return {"bytes": value.hex()}
    raise TypeError(f"expected a value of a database, found {type(value).__name__}")


def bytes_from_json(value: dict[str, Any]) -> Any:
    """
    >>> import json
    >>> json.loads(json.dumps([b"a", 1], default=bytes_as_json), object_hook=bytes_from_json)
    [b'a', 1]
    """
    if value.keys() == {"bytes"}:
        return bytes.fromhex(value["bytes"])
    return value
