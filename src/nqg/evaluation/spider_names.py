"""What a name in a query stands for: Spider's metric has one list of aliases for a query and all that is inside it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from nqg.data.spider_schema import Schema
from nqg.errors import FormatError

STAR = "*"


class Names:
    """The tables and columns of a database, and the aliases that a query gives them."""

    def __init__(self, schema: Schema, words: Sequence[str]) -> None:
        self.columns = {table.name: frozenset(table.columns) for table in schema.tables}
        self.aliases = _aliases(words)
        for alias in self.aliases:
            if alias in self.columns:
                raise FormatError(f"expected an alias that is no table, found 'as {alias}'")

    def table(self, word: str) -> str:
        """The table that a word names, by itself or as an alias."""
        name = self.aliases.get(word, word)
        if name not in self.columns:
            raise FormatError(f"expected a table or its alias, found '{word}'")
        return name

    def column(self, word: str, tables: Iterable[str]) -> str:
        """The column that a word names, as `table.column`; a bare name is that of the first table which has it."""
        if word == STAR:
            return STAR
        qualifier, dot, name = word.partition(".")
        owners = [self.table(qualifier)] if dot else tables
        wanted = name if dot else word
        for table in owners:
            if wanted in self.columns[table]:
                return f"{table}.{wanted}"
        raise FormatError(f"expected a column, found '{word}'")


def _aliases(words: Sequence[str]) -> dict[str, str]:
    """What stands before each `as`, by what stands after it; of two meanings the last holds everywhere."""
    if words and words[-1] == "as":
        raise FormatError("expected an alias after 'as', found the end of the query")
    triples = zip(words, words[1:], words[2:], strict=False)
    return {alias: name for name, word, alias in triples if word == "as"}
