"""Schemas and queries about them as T5 reads and writes them: as the paper has them, or so that a
small model does better.

T5 reads a question and then all tables and columns of its database. What lies beyond its longest
source is cut, whatever the question asks for, so items that share words with the question may come
first. Names that abbreviate (`stuid`) may have their natural names beside them. And queries may be
written in the tokens of a schema's grammar, with aliases that are called after their tables, so
that the grammar can mask every subword that leads to no query over the schema.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from nqg.errors import FormatError
from nqg.extensions import load_extension
from nqg.sql.schema import Schema, Table
from nqg.sql.tokens import sql_text, sql_tokens

# Shorter words must be equal to count as the same.
MIN_STEM = 4


@dataclass(frozen=True, slots=True)
class SchemaSettings:
    """By default all is as in the paper."""

    # Tables and columns that share words with the question come before the others.
    relevant_first: bool = False
    # Names that abbreviate have their natural names beside them.
    natural_names: bool = False
    # Queries are written in tokens, with aliases named after their tables, and decoded under the
    # grammar of the schema.
    masked: bool = False


def words_of(text: str) -> frozenset[str]:
    """The words of a question or a name, in lower case.

    >>> sorted(words_of("Official_Name of T2"))
    ['name', 'of', 'official', 't2']
    """
    return frozenset(re.findall(r"[^\W_]+", text.lower()))


def is_same_word(word: str, other: str) -> bool:
    """Whether two words are equal but for their ends, as those of singular and plural.

    >>> is_same_word("city", "cities"), is_same_word("name", "names"), is_same_word("id", "idea")
    (True, True, False)
    """
    shorter, longer = sorted((word, other), key=len)
    stem = shorter.removesuffix("y") if len(shorter) >= MIN_STEM else shorter
    ending = longer[len(stem) :]
    is_ending = ending in ("", "s", "es", "ies", "y") and len(stem) >= MIN_STEM - 1
    return shorter == longer or (longer.startswith(stem) and is_ending)


def relevance(name: str, question: Collection[str]) -> float:
    """The share of the words of a name that a question has.

    >>> relevance("official_name", words_of("what are the names?"))
    0.5
    """
    words = words_of(name)
    found = (any(is_same_word(word, asked) for asked in question) for word in words)
    return sum(found) / max(len(words), 1)


@dataclass(frozen=True, slots=True)
class SchemaText:
    """A schema as the end of a source; `natural` has natural names by `table` and `table.column`."""

    schema: Schema
    settings: SchemaSettings = SchemaSettings()
    natural: Mapping[str, str] = field(default_factory=dict)

    def beside(self, question: str) -> str:
        """The text of the schema beside a question.

        >>> tables = Table("pets", ("petid", "weight")), Table("student", ("stuid", "age"))
        >>> settings = SchemaSettings(relevant_first=True, natural_names=True)
        >>> natural = {"student.stuid": "student id"}
        >>> SchemaText(Schema("pets_1", tables), settings, natural).beside("the age of students?")
        'student : age , stuid ( student id ) | pets : petid , weight'
        """
        schema = self.schema
        if self.settings.relevant_first:
            schema = self._ordered(words_of(question))
        texts = []
        for table in schema.tables:
            columns = (self._named(table.name, column) for column in table.columns)
            texts.append(f"{self._named(table.name)} : {' , '.join(columns)}")
        return " | ".join(texts)

    def _ordered(self, question: Collection[str]) -> Schema:
        """The schema with what shares words with the question first; else the order stays."""
        scored = []
        for table in self.schema.tables:
            scores = {
                column: self._relevance(question, table.name, column)
                for column in table.columns
            }
            columns = sorted(table.columns, key=scores.__getitem__, reverse=True)
            # A table that the question names is asked for; else its best columns tell.
            score = self._relevance(question, table.name) + max(scores.values())
            scored.append((score, Table(table.name, tuple(columns))))
        scored.sort(key=lambda pair: pair[0], reverse=True)
        return replace(self.schema, tables=tuple(table for _, table in scored))

    def _relevance(self, question: Collection[str], *names: str) -> float:
        natural = self.natural.get(".".join(names), "")
        return max(relevance(name, question) for name in (names[-1], natural))

    def _named(self, *names: str) -> str:
        """A name, with its natural name where that has other letters."""
        natural = self.natural.get(".".join(names), "")
        is_telling = natural and _letters(natural) != _letters(names[-1])
        if self.settings.natural_names and is_telling:
            return f"{names[-1]} ( {natural} )"
        return names[-1]


def _letters(name: str) -> str:
    return "".join(re.findall(r"[^\W_]+", name.lower()))


def masked_target(query: str) -> str:
    """A query in the tokens of a schema's grammar, with aliases named after their tables.

    >>> masked_target("select t1.name from dogs as t1 where t1.name = 'a b'")
    "select dogs . name from dogs as dogs where dogs . name = ' a b '"
    """
    # Loads sqlglot.
    named_aliases = load_extension("nqg.sql.names:named_aliases")
    return " ".join(sql_tokens(named_aliases(query)))


def query_of(target: str) -> str:
    """The query that a masked target means; what cannot be read stays as it is.

    >>> query_of("select dogs . name from dogs as dogs where dogs . name = ' a b '")
    "select t1.name from dogs as t1 where t1.name = 'a b'"
    """
    numbered_aliases = load_extension("nqg.sql.names:numbered_aliases")
    try:
        query: str = numbered_aliases(sql_text(target.split()))
    except FormatError:
        return target
    return query
