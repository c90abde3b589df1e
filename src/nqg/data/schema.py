"""Database schemas: which tables and columns a query may name, and the grammar of legal SQL over one of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any, TypeVar

from nqg.data.sql import QUOTES, SPACE, is_number, sql_tokens, sql_words
from nqg.errors import FormatError, SettingsError
from nqg.files import read_json
from nqg.grammar.target_grammar import spelled, spelled_all
from nqg.settings_reader import read_dataclass, read_value

Entry = TypeVar("Entry")


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
    for number, entry in enumerate(read_entries(SchemaEntry, path)):
        try:
            schema = entry.schema
            if schema.database in schemas:
                raise FormatError(f"expected a new database, found '{schema.database}' for the second time")
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
                expected = f"[number of a table below {len(names)}, name] in 'column_names_original'"
                raise FormatError(f"expected {expected}, found {[owner, name]}")
            columns[owner].append(name.lower())
            full_names.append(None if owner == -1 else f"{names[owner]}.{name.lower()}")
        keys = []
        for pair in self.foreign_keys:
            column, other = (full_names[at] if 0 <= at < len(full_names) else None for at in pair)
            if column is None or other is None:
                kinds = f"number of a column, each below {len(full_names)} and not that of '*'"
                raise FormatError(f"expected twice the {kinds}, in 'foreign_keys', found {list(pair)}")
            keys.append(ForeignKey(column, other))
        tables = tuple(Table(name, tuple(columns[number])) for number, name in enumerate(names))
        for table in tables:
            if not (table.name and table.columns):
                raise FormatError(f"expected a name and columns of the table '{table.name}', found none")
        return Schema(self.db_id.lower(), tables, tuple(keys))


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
        inside = {token for word in words if word[0] in QUOTES for token in sql_tokens(word)[1:-1]}
        return cls(tuple(sorted(filter(is_number, words))), tuple(sorted(inside)))


def sql_target_grammar(schema: Schema, constants: SqlConstants | None = None) -> str:
    """The text of a target grammar that derives the tokens of the queries that make sense for `schema`.

    Without `constants` any token may be a number, and a string may hold any tokens, even quotes: a query is then
    checked only outside the stretch from its first quote to its last. With them, every token is.
    """

    def productions(category: str, names: Iterable[str]) -> str:
        alternatives = dict.fromkeys(spelled_all(sql_tokens(name)) for name in names)
        return f"<{category}> ::= {' | '.join(alternatives)}"

    lines = [
        f"\n# The database {schema.database}",
        productions("table", (table.name for table in schema.tables)),
        productions("column_name", (column for table in schema.tables for column in table.columns)),
    ]
    for number, table in enumerate(schema.tables):
        columns = f"columns_of_table_{number}"
        lines += [f"<column_of_table> ::= {spelled_all(sql_tokens(table.name))} . <{columns}>"]
        lines += [productions(columns, table.columns)]
    lines += ["\n# Constants"]
    if constants is None:
        lines += ["<number> ::= <.>", "<content> ::= <...>"]
    else:
        pieces = dict.fromkeys((*constants.inside_strings, SPACE))
        lines += [f"<number> ::= {' | '.join(constants.numbers)}", "<content> ::= <piece> | <content> <piece>"]
        lines += [f"<piece> ::= {' | '.join(map(spelled, pieces))}"]
    shape = resources.files("nqg.data").joinpath("sql.grammar").read_text("utf-8")
    return shape + "".join(f"{line}\n" for line in lines)
