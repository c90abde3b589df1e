"""Database schemas: which tables and columns a query may name, and the grammar of legal SQL over
one of them.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from nqg.errors import FormatError, UnknownName
from nqg.files import is_url


@dataclass(frozen=True, slots=True)
class Table:
    """A table and its columns, by the names that queries use."""

    name: str
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ForeignKey:
    """A column that holds the values of another; both are written `table.column`."""

    column: str
    refers_to: str


@dataclass(frozen=True, slots=True)
class Schema:
    """A database, its tables and how they refer to each other; all names are in lower case, as in
    the dataset.

    >>> str(Schema("pets_1", (Table("student", ("stuid", "age")), Table("pets", ("petid",)))))
    'student : stuid , age | pets : petid'
    """

    database: str
    tables: tuple[Table, ...]
    foreign_keys: tuple[ForeignKey, ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns in the order of the tables, each written `table.column`."""
        return tuple(
            f"{table.name}.{column}"
            for table in self.tables
            for column in table.columns
        )

    @property
    def columns_of_tables(self) -> dict[str, frozenset[str]]:
        """The columns of each table."""
        return {table.name: frozenset(table.columns) for table in self.tables}

    def __str__(self) -> str:
        return " | ".join(
            f"{table.name} : {' , '.join(table.columns)}" for table in self.tables
        )


@contextmanager
def _opened(path: Path) -> Iterator[Callable[..., list[tuple[Any, ...]]]]:
    """A SQLite database, which is only read, as a function from a query to its rows."""
    # sqlite3 says of every mistake that it is "unable to open database file". Unlike
    # `Path.is_file`, `os.path.isfile` is false for a name that is too long.
    if not os.path.isfile(path):
        raise FormatError("expected a SQLite database, found no such file", path)
    try:
        with closing(
            sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)
        ) as database:
            yield lambda *query: database.execute(*query).fetchall()
    except (sqlite3.Error, UnicodeDecodeError) as error:
        # A name that is not UTF-8 cannot be decoded.
        expected = "expected a SQLite database, found a file that cannot be read as one"
        raise FormatError(f"{expected}: {error}", path) from None


def _tables(fetch: Callable[..., list[tuple[Any, ...]]]) -> dict[str, list[str]]:
    """The tables and views of a SQLite database, with their columns."""
    kinds = "type in ('table', 'view') and name not like 'sqlite\\_%' escape '\\'"
    tables = {}
    for (name,) in fetch(
        f"select name from sqlite_master where {kinds} order by rowid"
    ):
        columns = fetch("select name from pragma_table_info(?)", [name])
        tables[name] = list(chain.from_iterable(columns))
    return tables


def read_database(database: Path | str) -> Schema:
    """The schema of a SQLite file, called after the file, or of what a URL names."""
    if is_url(database):
        return _read_url(str(database))
    path = Path(database)
    keys = []
    with _opened(path) as fetch:
        columns = _tables(fetch)
        for name in columns:
            for column, table, refers_to in fetch(
                'select "from", "table", "to" from pragma_foreign_key_list(?)', [name]
            ):
                # A reference to the primary key need not name it.
                if refers_to is not None:
                    key = f"{name}.{column}".lower(), f"{table}.{refers_to}".lower()
                    keys.append(ForeignKey(*key))
    if not columns:
        raise FormatError(
            "expected a SQLite database with at least one table, found none", path
        )
    tables = tuple(_table(name, names) for name, names in columns.items())
    return Schema(path.stem.lower(), tables, tuple(keys))


def _table(name: str, columns: Iterable[str]) -> Table:
    return Table(name.lower(), tuple(map(str.lower, columns)))


def distinct_values(database: Path | str, table: str, column: str) -> list[str]:
    """The distinct values of a column; names match in any casing."""
    if is_url(database):
        from nqg.sql.database_url import distinct_rows

        rows = distinct_rows(str(database), table, column)
    else:
        path = Path(database)
        with _opened(path) as fetch:
            tables = _tables(fetch)
            table = known_name(f"table of {path}", table, tables)
            column = known_name(f"column of {table} in {path}", column, tables[table])
            # A quotation mark inside a quoted name is written twice.
            names = [name.replace('"', '""') for name in (column, table)]
            rows = fetch('select distinct "{}" from "{}" order by 1'.format(*names))
    return [str(value) for (value,) in rows if value is not None]


def known_name(kind: str, name: str, known: Iterable[str]) -> str:
    """The known name that `name` is in some casing; there must be one."""
    for candidate in known:
        if candidate.casefold() == name.casefold():
            return candidate
    raise UnknownName(kind, name, known)


def _read_url(url: str) -> Schema:
    """The schema of a database that SQLAlchemy reaches.

    It has the tables and views that the user of the database can name without a prefix.
    """
    from nqg.sql.database_url import connected

    with connected(url) as connection:
        from sqlalchemy import inspect

        inspector = inspect(connection)
        name = Path(connection.engine.url.database or "database").stem.lower()
        names = [*inspector.get_table_names(), *inspector.get_view_names()]
        if not names:
            raise FormatError("expected a database with at least one table, found none")
        tables = []
        keys = []
        for table in names:
            columns = [column["name"] for column in inspector.get_columns(table)]
            tables.append(_table(table, columns))
            # A key of several columns becomes one foreign key for each pair of columns.
            for key in inspector.get_foreign_keys(table):
                for column, referred in zip(
                    key["constrained_columns"], key["referred_columns"]
                ):
                    refers_to = f"{key['referred_table']}.{referred}"
                    keys.append(
                        ForeignKey(f"{table}.{column}".lower(), refers_to.lower())
                    )
    return Schema(name, tuple(tables), tuple(keys))
