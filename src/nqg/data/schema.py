"""Database schemas: which tables and columns a query may name, and the grammar of legal SQL over one of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from nqg.data.sql import QUOTES, SPACE, is_number, sql_tokens, sql_words
from nqg.errors import FormatError, Place, SettingsError
from nqg.files import json_kind, numbered_lines, strict_json
from nqg.grammar.target_grammar import spelled, spelled_all


@dataclass(frozen=True, slots=True)
class JsonEntry:
    """One object of the list in a file; `number` counts from 0."""

    path: Path
    number: int
    fields: dict[str, Any]

    def text(self, key: str) -> str:
        """The string under `key`, which holds more than white space."""
        value = self._value(key)
        if not isinstance(value, str):
            raise self.complaint(f"expected a string as '{key}', found {json_kind(value)}")
        if not value.strip():
            raise self.complaint(f"expected some text as '{key}', found an empty string")
        return value

    def items(self, key: str) -> list[Any]:
        """The list under `key`."""
        value = self._value(key)
        if not isinstance(value, list):
            raise self.complaint(f"expected a list as '{key}', found {json_kind(value)}")
        return value

    def complaint(self, reason: str) -> FormatError:
        """The error to raise about this entry."""
        return FormatError(f"entry {self.number} (counted from 0): {reason}", self.path)

    def _value(self, key: str) -> object:
        if key not in self.fields:
            keys = ", ".join(f"'{found}'" for found in self.fields) or "no key at all"
            raise self.complaint(f"expected the key '{key}', found {keys}")
        return self.fields[key]


def read_json_entries(path: Path) -> list[JsonEntry]:
    """The objects in the list that the file holds."""
    text = "\n".join(line for _, line in numbered_lines(path))
    value = strict_json(text, Place(path, 1))
    if not isinstance(value, list):
        raise FormatError(f"expected a list of objects, found {json_kind(value)}", path)
    return [_entry(path, number, fields) for number, fields in enumerate(value)]


def _entry(path: Path, number: int, fields: object) -> JsonEntry:
    if not isinstance(fields, dict):
        raise JsonEntry(path, number, {}).complaint(f"expected an object, found {json_kind(fields)}")
    return JsonEntry(path, number, fields)


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


@dataclass(frozen=True, slots=True)
class SqlConstants:
    """The numbers, and the tokens inside strings, that a query may hold."""

    numbers: tuple[str, ...]
    inside_strings: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.numbers:
            raise SettingsError("expected at least one number among the constants of SQL, found none")

    @classmethod
    def of(cls, queries: Iterable[str]) -> SqlConstants:
        """The constants that occur in `queries`: a grammar induced from them writes no others.

        >>> SqlConstants.of(["select a from t where b = 'x y' limit 3"])
        SqlConstants(numbers=('3',), inside_strings=('x', 'y'))
        """
        words = {word for query in queries for word in sql_words(query)}
        strings = [sql_tokens(word)[1:-1] for word in words if word[0] in QUOTES]
        inside = {token for tokens in strings for token in tokens}
        return cls(tuple(sorted(filter(is_number, words))), tuple(sorted(inside)))


def sql_target_grammar(schema: Schema, constants: SqlConstants | None = None) -> str:
    """The text of a target grammar that derives the tokens of the queries that make sense for `schema`.

    Without `constants` any token may be a number, and a string may hold any tokens, even quotes: a query is then
    checked only outside the stretch from its first quote to its last. With them, every token is.
    """
    return _shape() + "".join(f"{line}\n" for line in (*_names(schema), *_constants(constants)))


@cache
def _shape() -> str:
    return resources.files(__package__).joinpath("sql.grammar").read_text("utf-8")


def _names(schema: Schema) -> Iterator[str]:
    yield f"\n# The database {schema.database}"
    yield _productions("table", (table.name for table in schema.tables))
    yield _productions("column_name", (column for table in schema.tables for column in table.columns))
    for number, table in enumerate(schema.tables):
        columns = f"columns_of_table_{number}"
        yield f"<column_of_table> ::= {_spelled(table.name)} . <{columns}>"
        yield _productions(columns, table.columns)


def _productions(category: str, names: Iterable[str]) -> str:
    alternatives = dict.fromkeys(map(_spelled, names))
    return f"<{category}> ::= {' | '.join(alternatives)}"


def _spelled(name: str) -> str:
    return spelled_all(sql_tokens(name))


def _constants(constants: SqlConstants | None) -> Iterator[str]:
    yield "\n# Constants"
    if constants is None:
        yield "<number> ::= <.>"
        yield "<content> ::= <...>"
    else:
        pieces = dict.fromkeys((*constants.inside_strings, SPACE))
        yield f"<number> ::= {' | '.join(constants.numbers)}"
        yield "<content> ::= <piece> | <content> <piece>"
        yield f"<piece> ::= {' | '.join(map(spelled, pieces))}"
