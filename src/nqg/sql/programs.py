"""SQL as the programs of a grammar: the queries of one database in one form, and back in the
spelling of the data.

A grammar learns more from queries that look alike. So names and keywords are in lower case, aliases
are called after their tables, strings stand in single quotation marks, and no query ends in a
semicolon. What the training queries did instead is remembered, and answers are spelled so.
"""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from itertools import chain
from pathlib import Path
from typing import ClassVar

from nqg.errors import FormatError, counted
from nqg.files import is_url, read_json, write_text
from nqg.progress import Progress, silent
from nqg.settings_reader import read_dataclass
from nqg.slots.slot import Gazetteer
from nqg.sql.names import (
    AliasStyle,
    named_aliases,
    numbered_aliases,
    qualified_share,
    sql_problem,
)
from nqg.sql.reader import DatabaseError, DatabaseReader
from nqg.sql.reader_protocol import Failure
from nqg.sql.schema import Schema, Table
from nqg.sql.target_grammar import SqlForm, sql_target_grammar
from nqg.sql.tokens import (
    SQL_QUOTES,
    is_number,
    is_string,
    quoted,
    sql_text,
    sql_tokens,
    sql_words,
)
from nqg.text.sentences import SentenceTokenizer
from nqg.types.target_grammar import TargetGrammar

# Values that questions and queries must share before a column is a slot unasked.
FEWEST = 2
# Seconds that reading the values of one column may take, of a table that nobody named: longer
# than half a million different texts take, and not so long that somebody takes it for a hang.
SEARCH_SECONDS = 4.0
# And the columns of one table together: a hundred columns of a view may take as long each.
TABLE_SECONDS = 20.0
# Where so many columns stand behind their tables, these say enough.
QUALIFIED = 0.9


@dataclass(frozen=True)
class SqlPrograms:
    """A schema, and how the training queries over it are spelled."""

    schema: Schema
    aliases: AliasStyle
    # How a word that is written otherwise than in lower case is written most often.
    words: Mapping[str, str]
    quote: str
    ends_with_semicolon: bool
    form: SqlForm = SqlForm.NAMED
    file_name: ClassVar[str] = "sql.json"  # in a model folder

    def __post_init__(self) -> None:
        if self.quote not in SQL_QUOTES:
            raise FormatError(
                f"expected ' or \" as quotation mark, found {self.quote!r}"
            )
        if not self.schema.tables:
            raise FormatError("expected a schema with tables, found none")

    @classmethod
    def fit(cls, schema: Schema, queries: Iterable[str]) -> SqlPrograms:
        """The spelling of most queries, word by word.

        >>> from nqg.sql.schema import Table
        >>> queries = ['SELECT T1.name FROM dogs AS T1 WHERE T1.age > 3;', 'SELECT name FROM dogs WHERE name = "Rex";']
        >>> sql = SqlPrograms.fit(Schema("pets", (Table("dogs", ("name", "age")),)), queries)
        >>> " ".join(sql.tokenize(queries[0])), " ".join(sql.tokenize(queries[1]))
        ('select dogs . name from dogs as dogs where dogs . age > 3', "select name from dogs where name = ' Rex '")
        >>> [sql.render(sql.tokenize(query)) == query for query in queries]
        [True, True]
        """
        queries = list(queries)
        spellings: dict[str, Counter[str]] = {}
        quotes = Counter({"'": 0})
        for query in queries:
            # A string that is never closed is refused by `tokenize`.
            with suppress(FormatError):
                for word in sql_words(named_aliases(query)):
                    if is_string(word):
                        quotes[word[0]] += 1
                    else:
                        spellings.setdefault(word.lower(), Counter())[word] += 1
        # Only what is not in lower case has to be remembered.
        usual: dict[str, str] = {}
        for word, counts in sorted(spellings.items()):
            spelling = counts.most_common(1)[0][0]
            if spelling != word:
                usual[word] = spelling
        ended = sum(query.rstrip().endswith(";") for query in queries)
        form = SqlForm.NAMED
        if qualified_share(queries) > QUALIFIED:
            form = SqlForm.QUALIFIED
        return cls(
            schema,
            AliasStyle.of(queries),
            usual,
            quotes.most_common(1)[0][0],
            2 * ended > len(queries),
            form,
        )

    def __str__(self) -> str:
        aliases = f"prefix = {self.aliases.prefix}, names = {dict(self.aliases.names)}"
        return f"{self.schema}; columns are {self.form.value}, {aliases}"

    def target_grammar(self, programs: Iterable[Iterable[str]]) -> TargetGrammar:
        """The grammar of the queries that make sense for the schema, as `tokenize` writes them, over
        the tables that the tokens of `programs` name.

        No rule can write the name of another table, and thousands of them would take long.
        """
        tokens = set(chain.from_iterable(programs))
        named = [
            table for table in self.schema.tables if tokens >= {*sql_tokens(table.name)}
        ]
        schema = replace(self.schema, tables=tuple(named) or self.schema.tables)
        return TargetGrammar.parse(sql_target_grammar(schema, form=self.form))

    def tokenize(self, query: str) -> tuple[str, ...]:
        """The tokens of a query in the one form that the target grammar knows."""
        words = [
            quoted(word, "'") if is_string(word) else word.lower()
            for word in sql_words(named_aliases(query))
        ]
        while words[-1:] == [";"]:
            words.pop()
        return sql_tokens(" ".join(words))

    def render(self, tokens: Iterable[str]) -> str:
        """The query that tokens make, spelled as the training queries are."""
        words = sql_words(sql_text(tokens))
        written = (quoted(self.words.get(word, word), self.quote) for word in words)
        query = numbered_aliases(sql_text(written), self.aliases)
        return f"{query};" if self.ends_with_semicolon else query

    def problem(self, query: str) -> str:
        """Which table, alias or column of a query does not exist or could be several, in words; ""
        if all is well.
        """
        return sql_problem(query, self.schema)

    def column_slots(
        self,
        database: Path | str,
        pairs: Iterable[tuple[str, str]],
        progress: Progress = silent,
    ) -> tuple[dict[str, dict[str, str]], list[str]]:
        """The slots that pairs of a question and its query show, and what could not be read: columns
        some of whose values are in both; numbers.

        A column whose values another one of them has, too, is part of that slot: what is said of
        cities of customers is said of those of shops. They are what a settings file would say:
        `customers-city = {column = "customers.city", database = "shop.db"}`.
        """
        tokenize = SentenceTokenizer().tokenize
        # The words of each question with the strings of its query, if it has any.
        questions: list[tuple[list[str], set[str]]] = []
        numbers: set[str] = set()
        for question, query in pairs:
            words = list(map(str.casefold, tokenize(question)))
            query_words = sql_words(query)
            numbers.update(filter(is_number, {*words}.intersection(query_words)))
            strings = {word[1:-1].casefold() for word in filter(is_string, query_words)}
            if strings:
                questions.append((words, strings))
        # The columns of whose values questions and queries share some, with all their values.
        shared: dict[str, Set[str]] = {}
        left_out: list[str] = []
        if questions:
            reader = DatabaseReader(database)
            columns = read_columns(reader, self.schema.tables, left_out, progress)
            for column, read in columns:
                names = Gazetteer.of(zip(read, read), tokenize)
                shown: set[str] = set()
                for words, strings in questions:
                    matched = {value.casefold() for _, _, value in names.matches(words)}
                    shown |= matched & strings
                if len(shown) >= FEWEST:
                    shared[column] = names.values.keys()
        # Of columns with the same values the largest, or the first of them, is the slot.
        largest = sorted(shared, key=lambda column: -len(shared[column]))
        address = str(database if is_url(database) else Path(database).resolve())
        slots: dict[str, dict[str, str]] = {}
        for column, values in shared.items():
            larger = largest[: largest.index(column)]
            if not any(values <= shared[rival] for rival in larger):
                name = re.sub(r"[^a-z0-9]+", "-", column).strip("-")
                slots[name] = {"column": column, "database": address}
        if len(numbers) >= FEWEST:
            slots["number"] = {"kind": "number"}
        return slots, left_out

    def write(self, path: Path) -> None:
        """Write it as JSON; `read` gives it back."""
        fields = asdict(self) | {"form": self.form.value}
        write_text(path, json.dumps(fields, indent=1) + "\n")

    @classmethod
    def read(cls, path: Path) -> SqlPrograms:
        return read_dataclass(
            cls, read_json(path), "the SQL of the model", path, complete=True
        )


def read_columns(
    reader: DatabaseReader,
    tables: Sequence[Table],
    left_out: list[str],
    progress: Progress,
) -> Iterator[tuple[str, list[str]]]:
    """The columns of tables with their values; what cannot be read is added to `left_out`."""
    done, total = 0, sum(len(table.columns) for table in tables)
    for table in tables:
        seconds = 0.0
        for number, column in enumerate(table.columns):
            progress("reading values of columns", done + number, total)
            name = f"{table.name}.{column}"
            if seconds > TABLE_SECONDS:
                reason = f"the columns before it take more than {TABLE_SECONDS:g} s"
                left_out.append(f"values of {name}: {reason}")
                break
            begin = time.monotonic()
            try:
                values, unreadable = reader.column_values(
                    table.name, column, SEARCH_SECONDS
                )
                seconds += time.monotonic() - begin
            except DatabaseError as error:
                left_out.append(f"values of {name}: {error}")
                # A view that takes too much does so for each of its columns.
                if error.kind in (Failure.TIME, Failure.MEMORY):
                    break
                continue
            if unreadable:
                left_out.append(
                    f"{counted(unreadable, 'value')} of {name}: expected UTF-8"
                )
            yield name, values
        done += len(table.columns)
