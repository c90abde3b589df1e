"""The schemas of Spider's databases: which tables and columns a query may name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nqg.data.spider_json import JsonEntry, read_json_entries
from nqg.data.strict_json import json_kind

STAR = -1
"""The number that stands for the table of `*`, which belongs to none."""


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


def read_schemas(path: Path) -> Mapping[str, Schema]:
    """The schemas in a `tables.json`, by the lower-case name of their database."""
    schemas: dict[str, Schema] = {}
    for entry in read_json_entries(path):
        schema = _schema(entry)
        if schema.database in schemas:
            raise entry.complaint(f"expected a new database, found '{schema.database}' for the second time")
        schemas[schema.database] = schema
    return schemas


def _schema(entry: JsonEntry) -> Schema:
    names = [_table_name(name, entry) for name in entry.items("table_names_original")]
    columns = [_column(pair, len(names), entry) for pair in entry.items("column_names_original")]
    tables = tuple(
        Table(name, tuple(column for owner, column in columns if owner == number)) for number, name in enumerate(names)
    )
    _check(tables, entry)
    full_names = [None if owner == STAR else f"{names[owner]}.{column}" for owner, column in columns]
    keys = tuple(_foreign_key(pair, full_names, entry) for pair in entry.items("foreign_keys"))
    return Schema(entry.text("db_id").lower(), tables, keys)


def _check(tables: tuple[Table, ...], entry: JsonEntry) -> None:
    if not tables:
        raise entry.complaint("expected at least one table, found none")
    for table in tables:
        if not table.columns:
            raise entry.complaint(f"expected columns of the table '{table.name}', found none")


def _table_name(name: Any, entry: JsonEntry) -> str:
    if not isinstance(name, str) or not name:
        raise entry.complaint(f"expected names in 'table_names_original', found {json_kind(name)}")
    return name.lower()


def _column(pair: Any, tables: int, entry: JsonEntry) -> tuple[int, str]:
    match pair:
        case [int(table), str(name)] if STAR <= table < tables and name:
            return table, name.lower()
    raise entry.complaint(
        f"expected [number of a table below {tables}, name] in 'column_names_original', found {pair!r}"
    )


def _foreign_key(pair: Any, columns: Sequence[str | None], entry: JsonEntry) -> ForeignKey:
    match pair:
        case [int(number), int(other)] if min(number, other) >= 0 and max(number, other) < len(columns):
            column, refers_to = columns[number], columns[other]
            if column and refers_to:
                return ForeignKey(column, refers_to)
    raise entry.complaint(
        f"expected [number of a column, number of a column], each below {len(columns)} and not that of '*',"
        f" in 'foreign_keys', found {pair!r}"
    )
