"""The schemas of Spider's databases: which tables and columns a query may name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nqg.data.spider_json import JsonEntry, read_json_entries
from nqg.data.strict_json import json_kind


@dataclass(frozen=True, slots=True)
class Table:
    """A table and its columns, by the names that queries use."""

    name: str
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Schema:
    """A database and its tables; all names are in lower case, as in the dataset.

    >>> str(Schema("pets_1", (Table("student", ("stuid", "age")), Table("pets", ("petid",)))))
    'student : stuid , age | pets : petid'
    """

    database: str
    tables: tuple[Table, ...]

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
    columns: list[list[str]] = [[] for _ in names]
    for pair in entry.items("column_names_original"):
        table, column = _column(pair, len(names), entry)
        if table >= 0:  # -1 marks the star, which belongs to no table
            columns[table].append(column)
    tables = tuple(Table(name, tuple(own)) for name, own in zip(names, columns, strict=True))
    _check(tables, entry)
    return Schema(entry.text("db_id").lower(), tables)


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
        case [int(table), str(name)] if -1 <= table < tables and name:
            return table, name.lower()
    raise entry.complaint(
        f"expected [number of a table below {tables}, name] in 'column_names_original', found {pair!r}"
    )
