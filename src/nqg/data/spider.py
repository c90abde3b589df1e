"""Spider as the paper uses it: one set with databases shared between train and test (SSP), one with unseen ones (XSP).

A source is `database: question` and a target the query, both in lower case. White space of questions is kept, because
the published length split counts it; that of queries is made single, which changes no query.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from nqg.data.examples import Example
from nqg.data.schema import JsonEntry, Schema, read_json_entries
from nqg.data.sql import sql_tokens, text_tokens
from nqg.errors import FormatError, UnknownName

SSP_MIN_EXAMPLES = 50
"""A database takes part in SSP when train_spider.json has this many examples of it."""


def load_spider_ssp(train: Path) -> list[Example]:
    """The examples of train_spider.json whose databases have at least 50 of them."""
    entries = read_json_entries(train)
    sizes = Counter(entry.text("db_id") for entry in entries)
    return [_example(entry, "train") for entry in entries if sizes[entry.text("db_id")] >= SSP_MIN_EXAMPLES]


def load_spider_xsp(train: Path, dev: Path) -> tuple[list[Example], list[Example]]:
    """All examples of train_spider.json, and those of dev.json, whose databases are others."""
    return _examples(train, "train"), _examples(dev, "dev")


def _examples(path: Path, part: str) -> list[Example]:
    return [_example(entry, part) for entry in read_json_entries(path)]


def _example(entry: JsonEntry, part: str) -> Example:
    source = f"{entry.text('db_id')}: {entry.text('question')}".lower()
    target = " ".join(entry.text("query").lower().split())
    return Example(source, target, id=f"{part}-{entry.number}")


def database_of(source: str) -> str:
    """The database that a source names before its first colon.

    >>> database_of("pets_1: how old is the youngest: dog?")
    'pets_1'
    """
    database, colon, _ = source.partition(":")
    if not (colon and database.strip()):
        raise FormatError(f"expected a source like 'database: question', found {source!r}")
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
    return [
        replace(example, source=nqg_source(example.source), target=nqg_target(example.target)) for example in examples
    ]


@dataclass(frozen=True, slots=True)
class WithSchemas:
    """Examples whose sources end in their schemas, and how many schemas had to be cut to fit the model."""

    examples: tuple[Example, ...]
    cut: int


def with_schemas(
    examples: Sequence[Example],
    schemas: Mapping[str, Schema],
    *,
    limit: int,
    length: Callable[[str], int],
) -> WithSchemas:
    """The examples with ` | table : column , column | table : …` appended to their sources, as T5 reads them.

    `length` counts a source's tokens as the model does; where it is over `limit`, words are taken off the schema's end.
    A question that is too long by itself stays whole and loses all of its schema.
    """
    whole = [f"{example.source} | {_schema_of(example, schemas)}" for example in examples]
    fitting = [
        source if length(source) <= limit else _cut(example.source, source, limit, length)
        for example, source in zip(examples, whole, strict=True)
    ]
    cut = sum(short != long for short, long in zip(fitting, whole, strict=True))
    pairs = zip(examples, fitting, strict=True)
    return WithSchemas(tuple(replace(example, source=source) for example, source in pairs), cut)


def _schema_of(example: Example, schemas: Mapping[str, Schema]) -> Schema:
    database = database_of(example.source)
    if database not in schemas:
        raise UnknownName("database", database, schemas)
    return schemas[database]


def _cut(question: str, source: str, limit: int, length: Callable[[str], int]) -> str:
    """The longest start of `source` that fits, found by halving; the question itself is never cut."""
    words = source[len(question) :].split(" ")
    fits, too_long = 1, len(words)
    while too_long - fits > 1:
        middle = (fits + too_long) // 2
        if length(question + " ".join(words[:middle])) <= limit:
            fits = middle
        else:
            too_long = middle
    return question + " ".join(words[:fits])
