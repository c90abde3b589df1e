"""Database schemas: which tables and columns a query may name, and the grammar of legal SQL over
one of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from nqg.errors import UnknownName


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
        columns: list[str] = []
        for table in self.tables:
            columns += [f"{table.name}.{column}" for column in table.columns]
        return tuple(columns)

    @property
    def columns_of_tables(self) -> dict[str, frozenset[str]]:
        """The columns of each table."""
        return {table.name: frozenset(table.columns) for table in self.tables}

    def __str__(self) -> str:
        return " | ".join(
            f"{table.name} : {' , '.join(table.columns)}" for table in self.tables
        )


def known_name(kind: str, name: str, known: Iterable[str]) -> str:
    """The known name that `name` is in some casing; there must be one."""
    for candidate in known:
        if candidate.casefold() == name.casefold():
            return candidate
    raise UnknownName(kind, name, known)
