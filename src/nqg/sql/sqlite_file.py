"""A SQLite file as the reader process reads it: its tables, the values of a column, and the rows of
a query.

What runs is what a model wrote, and a model may be made to write anything. So nothing depends on how
a query looks. The file is opened for reading; an authorizer lets SQLite compile nothing but reading
from given tables and calling functions of a short list; bounds on time, lengths and depths end what
takes too much.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Collection
from contextlib import closing
from functools import cache
from pathlib import Path

from nqg.sql.reader_protocol import (
    MOST_BYTES,
    Column,
    Contents,
    Failure,
    QueryRequest,
    ReadFailure,
    Result,
    bounded_result,
    column_texts,
    views_in_time,
)

STEPS = 1_000  # instructions of SQLite's machine between two looks at the clock
LOCK_SECONDS = 2.0  # that another process may keep us from reading
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


def prepare(place: str) -> None:
    """A file needs no driver."""


def _connect(place: str, seconds: float) -> sqlite3.Connection:
    """A connection that only reads; time is up for it after some seconds."""
    # sqlite3 says of every mistake that it is "unable to open database file". Unlike
    # `Path.is_file`, `os.path.isfile` is false for a name that is too long.
    if not os.path.isfile(place):
        reason = "expected a SQLite database, found no such file"
        raise ReadFailure(Failure.PLACE, f"{place}: {reason}")
    # The file is opened for reading only, whatever the query says.
    uri = f"{Path(place).resolve().as_uri()}?mode=ro"
    patience = min(seconds, LOCK_SECONDS)
    connection = sqlite3.connect(uri, uri=True, timeout=patience, isolation_level=None)
    connection.execute("pragma query_only = on")
    connection.execute("pragma trusted_schema = off")
    # What is sorted stays in memory, which is bounded; a disk would fill up.
    connection.execute("pragma temp_store = memory")
    _limit_time(connection, seconds)
    return connection


def _limit_time(connection: sqlite3.Connection, seconds: float) -> None:
    until = time.monotonic() + seconds
    connection.set_progress_handler(lambda: time.monotonic() > until, STEPS)


# The schema of a file is read for each connection, and columns are read one after the other.
_column_connection = cache(_connect)


def read_contents(place: str, seconds: float) -> Contents:
    """The tables and views of a file, with their columns; those that cannot be read are named."""
    contents = Contents(Path(place).stem)
    try:
        with closing(_connect(place, seconds)) as connection:
            for table in _names(connection, "table", contents):
                _add_table(connection, table, contents)
            for view in views_in_time(_names(connection, "view", contents), contents):
                _add_table(connection, view, contents)
    except sqlite3.DatabaseError as error:
        if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_BUSY:
            reason = "another process writes to it; try again when it has finished"
            raise ReadFailure(Failure.PLACE, f"{place}: {reason}") from None
        expected = "expected a SQLite database, found a file that cannot be read as one"
        raise ReadFailure(Failure.PLACE, f"{place}: {expected}: {error}") from None
    if not contents.tables and not contents.left_out:
        expected = "expected a SQLite database with at least one table, found none"
        raise ReadFailure(Failure.PLACE, f"{place}: {expected}")
    return contents


def _names(connection: sqlite3.Connection, kind: str, contents: Contents) -> list[str]:
    """The names of all tables, or of all views; a name that is not UTF-8 is left out."""
    of_users = "name not like 'sqlite\\_%' escape '\\'"
    query = f"select cast(name as blob) from sqlite_master where type = ? and {of_users} order by rowid"
    names = []
    for (raw,) in connection.execute(query, [kind]).fetchall():
        try:
            names.append(raw.decode())
        except UnicodeDecodeError as error:
            contents.leave_out(raw.decode("utf-8", "replace"), error)
    return names


def _add_table(connection: sqlite3.Connection, table: str, contents: Contents) -> None:
    """Add the columns and foreign keys of a table, or why they cannot be read."""
    # A broken view, or one of too many columns, concerns no other table.
    try:
        columns = connection.execute("select name from pragma_table_info(?)", [table])
        contents.add(table, [name for (name,) in columns.fetchall()])
        keys = connection.execute(
            'select "from", "table", "to" from pragma_foreign_key_list(?)', [table]
        )
        for column, referred, refers_to in keys.fetchall():
            # A reference to the primary key need not name it.
            if refers_to is not None:
                contents.foreign_keys.append((table, column, referred, refers_to))
    except (sqlite3.Error, MemoryError, UnicodeDecodeError) as error:
        contents.leave_out(table, error)


def read_column(place: str, column: Column, seconds: float) -> tuple[list[str], int]:
    """The distinct values of a column in their order, and how many of them are not text."""
    # A quotation mark inside a quoted name is written twice.
    name, table = (name.replace('"', '""') for name in (column.name, column.table))
    connection = _column_connection(place, seconds)
    _limit_time(connection, seconds)
    connection.text_factory = bytes
    rows = connection.execute(f'select distinct "{name}" from "{table}" order by 1')
    return column_texts(value for (value,) in rows)


def run_query(request: QueryRequest, seconds: float) -> Result:
    """The rows of a query, compiled by SQLite under an authorizer."""
    # A connection is for one query: what one does to it, the next one never meets.
    with closing(_connect(request.place, seconds)) as connection:
        for bound, most in BOUNDS.items():
            connection.setlimit(bound, most)
        connection.text_factory = lambda text: text.decode("utf-8", "replace")
        # The authorizer comes after the pragmas, which it would deny.
        _authorize(connection, frozenset(request.tables))
        cursor = connection.execute(request.query)
        names = [column[0] for column in cursor.description or ()]
        return bounded_result(names, cursor, request)


def _authorize(connection: sqlite3.Connection, tables: Collection[str]) -> None:
    """Let SQLite compile nothing but reading from tables and calling functions of the list."""

    def authorize(
        action: int, first: str | None, second: str | None, *_: str | None
    ) -> int:
        # A list of what is allowed is safer than one of what is denied.
        if action == sqlite3.SQLITE_SELECT:
            return sqlite3.SQLITE_OK
        if action == sqlite3.SQLITE_READ and (first or "").lower() in tables:
            return sqlite3.SQLITE_OK
        if action == sqlite3.SQLITE_FUNCTION and (second or "").lower() in FUNCTIONS:
            return sqlite3.SQLITE_OK
        return sqlite3.SQLITE_DENY

    connection.set_authorizer(authorize)
