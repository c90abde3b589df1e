"""Databases, read by a process of their own: what a query takes of time and memory, it takes there.

The process serves one query after the other. Where one query ends it, the next one starts another.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import weakref
from collections.abc import Callable
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import Any

from nqg.errors import FormatError, MissingExtra, NqgError
from nqg.files import is_url
from nqg.sql.reader_protocol import (
    Column,
    Contents,
    Failure,
    QueryRequest,
    Result,
    bytes_from_json,
)
from nqg.sql.schema import ForeignKey, Schema, Table, known_name

SCHEMA_SECONDS = 60.0  # that reading a schema may take
COLUMN_SECONDS = 60.0  # and the values of a column that somebody asked for


class DatabaseError(FormatError):
    """Why a database, or a query on it, was not read.

    Where `kind` is `Failure.PLACE`, the words are for the owner of the database: they may hold its
    user and host.
    """

    def __init__(self, kind: Failure, reason: str) -> None:
        super().__init__(reason)
        self.kind = kind


class DatabaseReader:
    """A SQLite file, or what a URL names, and the process that reads it."""

    def __init__(self, place: Path | str) -> None:
        self.place = str(place)
        if is_url(place):
            _check_url(self.place)
        self._process: subprocess.Popen[bytes] | None = None
        self._end: Callable[[], object] | None = None
        self._lock = Lock()

    @cached_property
    def contents(self) -> Contents:
        """Tables, columns and keys, as the database spells them, and what cannot be read."""
        contents = Contents(**self._ask("contents", SCHEMA_SECONDS))
        if not contents.tables:
            reason = "; ".join(contents.left_out)
            raise DatabaseError(
                Failure.PLACE, f"{self.place}: no table can be read: {reason}"
            )
        return contents

    @cached_property
    def schema(self) -> Schema:
        """The schema, called after the file or the database; all names are in lower case."""
        contents = self.contents
        tables = []
        for name, columns in contents.tables.items():
            tables.append(Table(name.lower(), tuple(map(str.lower, columns))))
        keys = []
        for table, column, referred, refers_to in contents.foreign_keys:
            key = f"{table}.{column}".lower(), f"{referred}.{refers_to}".lower()
            keys.append(ForeignKey(*key))
        return Schema(contents.database.lower(), tuple(tables), tuple(keys))

    def column_values(
        self, table: str, column: str, seconds: float = COLUMN_SECONDS
    ) -> tuple[list[str], int]:
        """The distinct values of a column, and how many more are not UTF-8; names match in any
        casing.
        """
        tables = self.contents.tables
        table = known_name(f"table of {self._name}", table, tables)
        column = known_name(f"column of {table} in {self._name}", column, tables[table])
        request = asdict(Column(table, column))
        values, unreadable = self._ask("column", seconds, column=request)
        return values, unreadable

    def run(self, request: QueryRequest, seconds: float) -> Result:
        """The rows of a query."""
        return Result(**self._ask("query", seconds, query=asdict(request)))

    def excess_rights(self) -> list[str]:
        """What the user of a URL may do beyond reading tables, where the database tells."""
        if not is_url(self.place):
            return []
        rights: list[str] = self._ask("excess_rights", SCHEMA_SECONDS)
        return rights

    @property
    def _name(self) -> str:
        """What messages call the database."""
        return "the database" if is_url(self.place) else self.place

    def _ask(self, read: str, seconds: float, **request: Any) -> Any:
        """What the process answers; where it fails, or ends, that is a `DatabaseError`."""
        request |= {"read": read, "place": self.place, "seconds": seconds}
        request["is_url"] = is_url(self.place)
        with self._lock:
            process = self._running()
            assert process.stdin is not None
            assert process.stdout is not None
            try:
                process.stdin.write(json.dumps(request).encode() + b"\n")
                process.stdin.flush()
                line = process.stdout.readline()
            except BrokenPipeError:
                line = b""
            except BaseException:
                # Whoever is interrupted does not wait for the answer, and the next one
                # who asks must not get it.
                self.close()
                raise
            if not line:
                self.close()
                reason = f"it takes more than {seconds:g} s, or too much memory"
                raise DatabaseError(Failure.TIME, reason)
        answer = json.loads(line, object_hook=bytes_from_json)
        if "failure" in answer:
            raise DatabaseError(Failure(answer["failure"]), answer["reason"])
        return answer["result"]

    def _running(self) -> subprocess.Popen[bytes]:
        """The process; one that ended is replaced."""
        if self._process is not None and self._process.poll() is not None:
            self.close()
        if self._process is None:
            # It imports what this process imports, but never from the current folder.
            paths = os.pathsep.join(filter(None, sys.path))
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "nqg.sql.reader_worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=os.environ | {"PYTHONPATH": paths},
                # Ctrl-C is for this process, which then ends the other.
                start_new_session=True,
            )
            self._end = weakref.finalize(self, _end, self._process)
        return self._process

    def close(self) -> None:
        """End the process; who asks again gets another."""
        if self._end is not None:
            self._end()
        self._process = None


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    # Closes the pipes, too.
    process.communicate()


def _check_url(url: str) -> None:
    try:
        from sqlalchemy import make_url
        from sqlalchemy.exc import SQLAlchemyError
    except ImportError as error:
        raise MissingExtra("a database that is not a SQLite file", "sql") from error
    try:
        make_url(url)
    except SQLAlchemyError:
        raise NqgError(
            "expected the URL of a database, such as postgresql+psycopg://user@host/name"
        ) from None


def distinct_values(database: Path | str, table: str, column: str) -> list[str]:
    """The distinct values of a column; names match in any casing."""
    values, _ = DatabaseReader(database).column_values(table, column)
    return values
