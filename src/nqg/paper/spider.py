"""Spider as the paper uses it: one set with databases shared between train and test (SSP), one with
unseen ones (XSP).

A source is `database: question` and a target the query, both in lower case. White space of
questions is kept, because the published length split counts it; that of queries is made single,
which changes no query.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from nqg.data.example import Example
from nqg.errors import FormatError, UnknownName
from nqg.files import read_json
from nqg.paper.schema_text import SchemaSettings, SchemaText
from nqg.settings_reader import read_dataclass, read_value
from nqg.sql.schema import ForeignKey, Schema, Table
from nqg.sql.tokens import sql_tokens, text_tokens

# Examples in train_spider.json for a database to take part in SSP.
SSP_MIN_EXAMPLES = 50
Entry = TypeVar("Entry")


@dataclass(frozen=True, slots=True)
class SpiderEntry:
    db_id: str
    question: str
    query: str

    def __post_init__(self) -> None:
        for name, text in asdict(self).items():
            if not text.strip():
                raise FormatError(
                    f"expected some text as '{name}', found an empty string"
                )

    def example(self, name: str) -> Example:
        source = f"{self.db_id}: {self.question}".lower()
        return Example(source, " ".join(self.query.lower().split()), id=name)


def load_spider_ssp(train: Path) -> list[Example]:
    """The examples of train_spider.json whose databases have at least 50 of them."""
    entries = read_entries(SpiderEntry, train)
    # Numbers count all examples of the file, so that ids do not depend on the bound.
    sizes = Counter(entry.db_id for entry in entries)
    examples = []
    for number, entry in enumerate(entries):
        if sizes[entry.db_id] >= SSP_MIN_EXAMPLES:
            examples.append(entry.example(f"train-{number}"))
    return examples


def load_spider_xsp(train: Path, dev: Path) -> tuple[list[Example], list[Example]]:
    """All examples of train_spider.json, and those of dev.json, whose databases are others."""

    def load(name: str, path: Path) -> list[Example]:
        entries = enumerate(read_entries(SpiderEntry, path))
        return [entry.example(f"{name}-{number}") for number, entry in entries]

    return load("train", train), load("dev", dev)


def database_of(source: str) -> str:
    """The database that a source names before its first colon.

    >>> database_of("pets_1: how old is the youngest: dog?")
    'pets_1'
    """
    database, colon, _ = source.partition(":")
    if not (colon and database.strip()):
        raise FormatError(
            f"expected a source like 'database: question', found {source!r}"
        )
    return database.strip()


def nqg_source(source: str) -> str:
    """A source as the grammar reads it: words, numbers and punctuation marks apart.

    >>> nqg_source("pets_1: what's the dog's weight, if over 3.5?")
    "pets_1 : what ' s the dog ' s weight , if over 3.5 ?"
    """
    return " ".join(text_tokens(source))


def nqg_target(sql: str) -> str:
    """A query as the grammar writes it; `sql_text` of its tokens is the query again.

    >>> nqg_target("select t1.name from dogs as t1 where t1.name = 'a b'")
    "select t1 . name from dogs as t1 where t1 . name = ' a b '"
    """
    return " ".join(sql_tokens(sql))


def nqg_examples(examples: Iterable[Example]) -> list[Example]:
    """The examples as grammars are induced from them."""
    converted = []
    for example in examples:
        pair = nqg_source(example.source), nqg_target(example.target)
        converted.append(Example(*pair, example.id))
    return converted


def with_schemas(
    examples: Iterable[Example],
    schemas: Mapping[str, Schema],
    settings: SchemaSettings = SchemaSettings(),  # noqa: B008 (frozen)
    names: Mapping[str, Mapping[str, str]] = MappingProxyType({}),
) -> list[Example]:
    """The examples with ` | table : column , column | table : …` appended to their sources, as T5
    reads them; `names` has the natural names of each database.
    """
    extended = []
    for example in examples:
        database = database_of(example.source)
        if database not in schemas:
            raise UnknownName("database", database, schemas)
        text = SchemaText(schemas[database], settings, names.get(database, {}))
        question = example.source.partition(":")[2]
        extended.append(
            replace(example, source=f"{example.source} | {text.beside(question)}")
        )
    return extended


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
            raise FormatError(
                f"entry {number} (counted from 0): {error}", path
            ) from error
        schemas[schema.database] = schema
    return schemas


def read_natural_names(path: Path) -> Mapping[str, Mapping[str, str]]:
    """The natural names in a `tables.json` of each database, by `table` and `table.column`."""
    return {
        entry.db_id.lower(): entry.natural_names
        for entry in read_entries(SchemaEntry, path)
    }


def read_entries(kind: type[Entry], path: Path) -> list[Entry]:
    """The objects in the list that one of Spider's files holds; keys that `kind` does not have are
    passed over.
    """
    values = read_value(list[Any], read_json(path), "the contents", path)
    entries = []
    for number, value in enumerate(values):
        name = f"entry {number} (counted from 0)"
        entries.append(read_dataclass(kind, value, name, path, ignores_unknown=True))
    return entries


@dataclass(frozen=True, slots=True)
class SchemaEntry:
    """A schema as `tables.json` has it: columns and foreign keys name others by their number; `*`
    is of table -1.
    """

    db_id: str
    table_names_original: tuple[str, ...]
    column_names_original: tuple[tuple[int, str], ...]
    foreign_keys: tuple[tuple[int, int], ...]
    table_names: tuple[str, ...] = ()
    column_names: tuple[tuple[int, str], ...] = ()

    @property
    def natural_names(self) -> Mapping[str, str]:
        """What people would call tables and columns, by `table` and `table.column`."""
        tables = list(map(str.lower, self.table_names_original))
        names = dict(zip(tables, map(str.lower, self.table_names)))
        for (owner, original), (_, natural) in zip(
            self.column_names_original, self.column_names
        ):
            if owner >= 0:
                names[f"{tables[owner]}.{original.lower()}"] = natural.lower()
        return names

    @property
    def schema(self) -> Schema:
        names = list(map(str.lower, self.table_names_original))
        if not names:
            raise FormatError("expected at least one table, found none")
        # Columns name their table by its number; `*` belongs to none.
        columns: list[list[str]] = [[] for _ in names]
        full_names: list[str | None] = []
        for owner, name in self.column_names_original:
            if not (-1 <= owner < len(names) and name):
                expected = f"[number of a table below {len(names)}, name] in 'column_names_original'"
                raise FormatError(f"expected {expected}, found {[owner, name]}")
            full_name = None
            if owner >= 0:
                columns[owner].append(name.lower())
                full_name = f"{names[owner]}.{name.lower()}"
            full_names.append(full_name)
        # Keys name both columns by their numbers.
        keys = []
        for pair in self.foreign_keys:
            ends = [full_names[at] for at in pair if 0 <= at < len(full_names)]
            match ends:
                case [str(column), str(refers_to)]:
                    keys.append(ForeignKey(column, refers_to))
                case _:
                    kinds = f"number of a column, each below {len(full_names)} and not that of '*'"
                    raise FormatError(
                        f"expected twice the {kinds}, in 'foreign_keys', found {list(pair)}"
                    )
        tables = tuple(map(Table, names, map(tuple, columns)))
        for table in tables:
            if not (table.name and table.columns):
                raise FormatError(
                    f"expected a name and columns of the table '{table.name}', found none"
                )
        return Schema(self.db_id.lower(), tables, tuple(keys))
