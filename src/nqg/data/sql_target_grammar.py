"""The grammar of legal SQL for one database: the shape of queries from `sql.grammar`, the names from its schema."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib import resources

from nqg.data.spider_schema import Schema
from nqg.data.sql import QUOTES, SPACE, is_number, sql_tokens, sql_words
from nqg.errors import SettingsError
from nqg.grammar.production import spelled, spelled_all


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
