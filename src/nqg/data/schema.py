"""Database schemas: which tables and columns a query may name, and the grammar of legal SQL over one of them."""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from enum import Enum
from importlib import resources
from pathlib import Path
from typing import Any, TypeVar

from nqg.data.sql import QUOTES, SPACE, is_number, sql_tokens, sql_words
from nqg.errors import FormatError, SettingsError
from nqg.files import is_url, read_json
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


def read_database(place: Path | str) -> Schema:
    """The schema of a SQLite database, which is only read, and called after the file; or of what a URL names."""
    if is_url(place):
        return _read_url(str(place))
    path = Path(place)
    if not os.path.isfile(path):  # sqlite3 says of every mistake that it is "unable to open database file"
        raise FormatError("expected a SQLite database, found no such file", path)
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as database:
            kinds = "type in ('table', 'view') and name not like 'sqlite\\_%' escape '\\'"
            names = [
                name for (name,) in database.execute(f"select name from sqlite_master where {kinds} order by rowid")
            ]
            columns = {
                name: database.execute("select name from pragma_table_info(?)", [name]).fetchall() for name in names
            }
            fields = '"from", "table", "to"'
            keys = {
                name: database.execute(f"select {fields} from pragma_foreign_key_list(?)", [name]).fetchall()
                for name in names
            }
    except (sqlite3.Error, UnicodeDecodeError) as error:  # the latter of names that are not UTF-8
        raise FormatError(
            f"expected a SQLite database, found a file that cannot be read as one: {error}", path
        ) from None
    if not names:
        raise FormatError("expected a SQLite database with at least one table, found none", path)
    tables = tuple(Table(name.lower(), tuple(column.lower() for (column,) in columns[name])) for name in names)
    foreign_keys = tuple(
        ForeignKey(f"{name}.{column}".lower(), f"{other}.{refers_to}".lower())
        for name in names
        for column, other, refers_to in keys[name]
        if refers_to is not None  # the primary key goes without saying
    )
    return Schema(path.stem.lower(), tables, foreign_keys)


def _read_url(url: str) -> Schema:
    """The schema of a database that SQLAlchemy reaches: the tables and views that its user finds without a prefix."""
    from nqg.database_url import connected

    with connected(url) as connection:
        from sqlalchemy import inspect

        found, name = inspect(connection), Path(connection.engine.url.database or "database").stem.lower()
        names = [*found.get_table_names(), *found.get_view_names()]
        if not names:
            raise FormatError("expected a database with at least one table, found none")
        tables = tuple(
            Table(each.lower(), tuple(own["name"].lower() for own in found.get_columns(each))) for each in names
        )
        keys = tuple(
            ForeignKey(f"{each}.{column}".lower(), f"{key['referred_table']}.{other}".lower())
            for each in names
            for key in found.get_foreign_keys(each)
            for column, other in zip(key["constrained_columns"], key["referred_columns"], strict=True)
        )
    return Schema(name, tables, keys)


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


class SqlForm(Enum):
    """How far a grammar of SQL ties columns to tables."""

    PUBLISHED = "published"  # any column of the database, whatever the tables of the query
    NAMED = "named"  # those of the tables of its query; aliases are called after their tables (`named_aliases`)
    QUALIFIED = "qualified"  # so, but a column without a table before it may be any: small, for queries that name both


def sql_target_grammar(schema: Schema, constants: SqlConstants | None = None, form: SqlForm = SqlForm.PUBLISHED) -> str:
    """The text of a target grammar that derives the tokens of the queries that make sense for `schema`.

    Without `constants` a string may hold any tokens up to its closing quotation mark, and any number may be one.
    """
    text = resources.files("nqg.data").joinpath("sql.grammar").read_text("utf-8")
    sections = dict(re.findall(r"^# == (.*) ==\n((?:(?!# == ).*\n)*)", text, flags=re.MULTILINE))
    if form is SqlForm.PUBLISHED:
        select = sections["clauses"] + sections["select"]
        lines = [sections["shared"], select, sections["published"], *_published_names(schema)]
    else:
        select = sections["growing clauses"] + sections["select"] + sections["more of select"]
        lines = [sections["shared"], select, sections["named"], *_named_tables(schema, select, form)]
    return "".join(f"{line}\n" for line in (*lines, *_constants(constants)))


def _alternatives(category: str, names: Iterable[str]) -> str:
    alternatives = dict.fromkeys(spelled_all(sql_tokens(name)) for name in names)
    return f"<{category}> ::= {' | '.join(alternatives)}"


def _all_columns(schema: Schema) -> str:
    return _alternatives("column_name", (column for table in schema.tables for column in table.columns))


def _published_names(schema: Schema) -> Iterator[str]:
    yield _alternatives("table", (table.name for table in schema.tables))
    yield _all_columns(schema)
    for number, table in enumerate(schema.tables):
        columns = f"columns_of_table_{number}"
        yield f"<column_of_table> ::= {spelled_all(sql_tokens(table.name))} . <{columns}>"
        yield _alternatives(columns, table.columns)
    yield f"<alias> ::= {' | '.join(f't{number}' for number in range(1, 10))}"


def _uses(name: str) -> list[str]:
    """What a table is called each time that a `from` has it."""
    return [name, *(f"{name}_{use}" for use in (2, 3, 4))]


def _named_tables(schema: Schema, select: str, form: SqlForm) -> Iterator[str]:
    """The names, and the categories of `select` once more for each table, called `<condition:city>` and so on.

    Where columns are qualified, one copy of the categories does: of which table a column is, stands before it.
    """
    is_qualified = form is SqlForm.QUALIFIED
    yield f"<derived> ::= {' | '.join(_uses('derived_table'))}"
    yield f"<column> ::= <column_name>\n{_all_columns(schema)}"
    if is_qualified:
        yield "<tables> ::= <source>"
    copied = {*re.findall(r"^<(\w+)>", select, flags=re.MULTILINE), "tables", "column", "qualifier"}
    any_copied = re.compile(rf"<({'|'.join(sorted(copied))})>")
    productions = "\n".join(line for line in select.splitlines() if line.startswith("<"))
    for number, table in enumerate(schema.tables):
        name = spelled_all(sql_tokens(table.name))
        of = table.name if re.fullmatch(r"\w+", table.name) else f"table.{number}"
        names = _uses(name)
        if is_qualified:
            yield f"\n# {of}\n<source> ::= {' | '.join([name, *(f'{name} as {each}' for each in names)])}"
            yield f"<qualifier> ::= {' | '.join(names)}"
            yield f"<column> ::= {' | '.join(f'{each} . <column_name:{of}>' for each in names)}"
            yield _alternatives(f"column_name:{of}", table.columns)
            continue
        yield f"\n# {of}\n<selected> ::= <selection:{of}>"
        yield f"<source> ::= {name} | {name} as <alias:{of}>"
        yield f"<tables:{of}> ::= {name} | {name} as <alias:{of}>"
        yield f"<qualifier> ::= <qualifier:{of}>\n<column> ::= <qualifier:{of}> . <column_name:{of}>"
        yield f"<qualifier:{of}> ::= <alias:{of}>"
        yield f"<alias:{of}> ::= {' | '.join(names)}"
        yield f"<column:{of}> ::= <column_name:{of}> | <qualifier:{of}> . <column_name:{of}> | <field>"
        yield _alternatives(f"column_name:{of}", table.columns)
        yield any_copied.sub(rf"<\1:{of}>", productions)


def _constants(constants: SqlConstants | None) -> Iterator[str]:
    yield "\n# Constants"
    yield f"<number> ::= {'<#>' if constants is None else ' | '.join(constants.numbers)}"
    for quote, other in (QUOTES, reversed(QUOTES)):
        inside = None if constants is None else dict.fromkeys((*constants.inside_strings, SPACE))
        pieces = f"<'> | {other}" if inside is None else " | ".join(spelled(each) for each in inside if each != quote)
        yield f"<in_{quote}> ::= <piece_{quote}> | <in_{quote}> <piece_{quote}>\n<piece_{quote}> ::= {pieces}"
