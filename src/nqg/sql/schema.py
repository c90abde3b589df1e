"""Database schemas: which tables and columns a query may name, and the grammar of legal SQL over one of them."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from nqg.errors import FormatError
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
    """A database, its tables and how they refer to each other; all names are in lower case, as in the dataset.

    >>> str(Schema("pets_1", (Table("student", ("stuid", "age")), Table("pets", ("petid",)))))
    'student : stuid , age | pets : petid'
    """

    database: str
    tables: tuple[Table, ...]
    foreign_keys: tuple[ForeignKey, ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns in the order of the tables, each written `table.column`."""
        return tuple(f"{table.name}.{column}" for table in self.tables for column in table.columns)

    def __str__(self) -> str:
        return " | ".join(f"{table.name} : {' , '.join(table.columns)}" for table in self.tables)


def read_database(place: Path | str) -> Schema:
    """The schema of a SQLite database, which is only read, and called after the file; or of what a URL names."""
    if is_url(place):
        return _read_url(str(place))
    path = Path(place)
    if not os.path.isfile(
        path
    ):  # sqlite3 says of every mistake that it is "unable to open database file"
        raise FormatError("expected a SQLite database, found no such file", path)
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as database:
            kinds = "type in ('table', 'view') and name not like 'sqlite\\_%' escape '\\'"
            names = [
                name
                for (name,) in database.execute(
                    f"select name from sqlite_master where {kinds} order by rowid"
                )
            ]
            columns = {
                name: database.execute("select name from pragma_table_info(?)", [name]).fetchall()
                for name in names
            }
            fields = '"from", "table", "to"'
            keys = {
                name: database.execute(
                    f"select {fields} from pragma_foreign_key_list(?)", [name]
                ).fetchall()
                for name in names
            }
    except (sqlite3.Error, UnicodeDecodeError) as error:  # the latter of names that are not UTF-8
        raise FormatError(
            f"expected a SQLite database, found a file that cannot be read as one: {error}", path
        ) from None
    if not names:
        raise FormatError("expected a SQLite database with at least one table, found none", path)
    tables = tuple(
        Table(name.lower(), tuple(column.lower() for (column,) in columns[name])) for name in names
    )
    foreign_keys = tuple(
        ForeignKey(f"{name}.{column}".lower(), f"{other}.{refers_to}".lower())
        for name in names
        for column, other, refers_to in keys[name]
        if refers_to is not None  # the primary key goes without saying
    )
    return Schema(path.stem.lower(), tables, foreign_keys)


def _read_url(url: str) -> Schema:
    """The schema of a database that SQLAlchemy reaches: the tables and views that its user finds without a prefix."""
    from nqg.sql.database_url import connected

    with connected(url) as connection:
        from sqlalchemy import inspect

        found, name = (
            inspect(connection),
            Path(connection.engine.url.database or "database").stem.lower(),
        )
        names = [*found.get_table_names(), *found.get_view_names()]
        if not names:
            raise FormatError("expected a database with at least one table, found none")
        tables = tuple(
            Table(each.lower(), tuple(own["name"].lower() for own in found.get_columns(each)))
            for each in names
        )
        keys = tuple(
            ForeignKey(f"{each}.{column}".lower(), f"{key['referred_table']}.{other}".lower())
            for each in names
            for key in found.get_foreign_keys(each)
            for column, other in zip(
                key["constrained_columns"], key["referred_columns"], strict=True
            )
        )
    return Schema(name, tables, keys)
