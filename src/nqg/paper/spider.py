"""Spider as the paper uses it: one set with databases shared between train and test (SSP), one with unseen ones (XSP).

A source is `database: question` and a target the query, both in lower case. White space of questions is kept, because
the published length split counts it; that of queries is made single, which changes no query.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from nqg.data.example import Example
from nqg.errors import FormatError, UnknownName
from nqg.extensions import load_extension
from nqg.paper.spider_schemas import read_entries
from nqg.sql.schema import Schema
from nqg.sql.tokens import sql_tokens, text_tokens

SSP_MIN_EXAMPLES = 50  # in train_spider.json, for a database to take part in SSP


@dataclass(frozen=True, slots=True)
class SpiderEntry:
    db_id: str
    question: str
    query: str

    def __post_init__(self) -> None:
        for name, text in asdict(self).items():
            if not text.strip():
                raise FormatError(f"expected some text as '{name}', found an empty string")

    def example(self, name: str) -> Example:
        source = f"{self.db_id}: {self.question}".lower()
        return Example(source, " ".join(self.query.lower().split()), id=name)


def load_spider_ssp(train: Path) -> list[Example]:
    """The examples of train_spider.json whose databases have at least 50 of them."""
    entries = read_entries(SpiderEntry, train)
    sizes = Counter(entry.db_id for entry in entries)
    kept = (
        (number, entry)
        for number, entry in enumerate(entries)
        if sizes[entry.db_id] >= SSP_MIN_EXAMPLES
    )
    return [entry.example(f"train-{number}") for number, entry in kept]


def load_spider_xsp(train: Path, dev: Path) -> tuple[list[Example], list[Example]]:
    """All examples of train_spider.json, and those of dev.json, whose databases are others."""
    train_examples, dev_examples = (
        [
            entry.example(f"{part}-{number}")
            for number, entry in enumerate(read_entries(SpiderEntry, path))
        ]
        for part, path in (("train", train), ("dev", dev))
    )
    return train_examples, dev_examples


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


def nqg_target(sql: str, *, names_aliases: bool = False) -> str:
    """A query as the grammar writes it; `sql_text` of its tokens is the query again.

    >>> nqg_target("select t1.name from dogs as t1 where t1.name = 'a b'")
    "select t1 . name from dogs as t1 where t1 . name = ' a b '"
    """
    if names_aliases:
        sql = load_extension("nqg.sql.names:named_aliases")(sql)
    return " ".join(sql_tokens(sql))


def nqg_examples(examples: Iterable[Example], *, names_aliases: bool = False) -> list[Example]:
    """The examples as grammars are induced from them, if wanted with aliases that are called after their tables."""
    return [
        replace(
            each,
            source=nqg_source(each.source),
            target=nqg_target(each.target, names_aliases=names_aliases),
        )
        for each in examples
    ]


def with_schemas(examples: Iterable[Example], schemas: Mapping[str, Schema]) -> list[Example]:
    """The examples with ` | table : column , column | table : …` appended to their sources, as T5 reads them."""
    extended = []
    for example in examples:
        database = database_of(example.source)
        if database not in schemas:
            raise UnknownName("database", database, schemas)
        extended.append(replace(example, source=f"{example.source} | {schemas[database]}"))
    return extended
