"""Spider's files of JSON, and the schemas in its `tables.json`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from nqg.errors import FormatError
from nqg.files import read_json
from nqg.settings_reader import read_dataclass, read_value
from nqg.sql.schema import ForeignKey, Schema, Table

Entry = TypeVar("Entry")


def read_schemas(path: Path) -> Mapping[str, Schema]:
    """The schemas in a `tables.json`, by the lower-case name of their database."""
    schemas: dict[str, Schema] = {}
    for number, entry in enumerate(read_entries(SchemaEntry, path)):
        try:
            schema = entry.schema
            if schema.database in schemas:
                raise FormatError(
                    f"expected a new database, found '{schema.database}' for the second time"
                )
        except FormatError as error:
            raise FormatError(f"entry {number} (counted from 0): {error}", path) from error
        schemas[schema.database] = schema
    return schemas


def read_entries(kind: type[Entry], path: Path) -> list[Entry]:
    """The objects in the list that one of Spider's files holds; keys that `kind` does not have are passed over."""
    values = read_value(list[Any], read_json(path), "the contents", path)
    return [
        read_dataclass(kind, each, f"entry {number} (counted from 0)", path, ignores_unknown=True)
        for number, each in enumerate(values)
    ]


@dataclass(frozen=True, slots=True)
class SchemaEntry:
    """A schema as `tables.json` has it: columns and foreign keys name others by their number; `*` is of table -1."""

    db_id: str
    table_names_original: tuple[str, ...]
    column_names_original: tuple[tuple[int, str], ...]
    foreign_keys: tuple[tuple[int, int], ...]

    @property
    def schema(self) -> Schema:
        names = [name.lower() for name in self.table_names_original]
        if not names:
            raise FormatError("expected at least one table, found none")
        full_names: list[str | None] = []
        columns: dict[int, list[str]] = {number: [] for number in range(-1, len(names))}
        for owner, name in self.column_names_original:
            if not (owner in columns and name):
                expected = (
                    f"[number of a table below {len(names)}, name] in 'column_names_original'"
                )
                raise FormatError(f"expected {expected}, found {[owner, name]}")
            columns[owner].append(name.lower())
            full_names.append(None if owner == -1 else f"{names[owner]}.{name.lower()}")
        keys = []
        for pair in self.foreign_keys:
            column, other = (full_names[at] if 0 <= at < len(full_names) else None for at in pair)
            if column is None or other is None:
                kinds = f"number of a column, each below {len(full_names)} and not that of '*'"
                raise FormatError(
                    f"expected twice the {kinds}, in 'foreign_keys', found {list(pair)}"
                )
            keys.append(ForeignKey(column, other))
        tables = tuple(Table(name, tuple(columns[number])) for number, name in enumerate(names))
        for table in tables:
            if not (table.name and table.columns):
                raise FormatError(
                    f"expected a name and columns of the table '{table.name}', found none"
                )
        return Schema(self.db_id.lower(), tables, tuple(keys))
