"""A gazetteer: names as sentences write them, and the values that they stand for.

A dictionary of names, and for every first word the number of words of the longest name that begins with it: a sentence
costs a few look-ups per word, however many names there are. Names match whatever their casing.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from nqg.errors import FormatError, NqgError, SettingsError, UnknownName
from nqg.extensions import load_extension
from nqg.files import is_url, numbered_lines, write_text

Tokenize = Callable[[str], Sequence[str]]


@dataclass(frozen=True, slots=True)
class Gazetteer:
    """Values by name; a name is its words in lower case with a space between them."""

    values: dict[str, str]
    longest: dict[str, int] = field(repr=False)  # words of the longest name, by its first word

    @classmethod
    def of(cls, names: Iterable[tuple[str, str]], tokenize: Tokenize = str.split) -> Gazetteer:
        """Of pairs of name and value; where a name comes twice its first value counts.

        >>> cities = Gazetteer.of([("New York", "nyc"), ("Big Apple", "nyc"), ("York", "york")])
        >>> list(cities.matches(("from", "new", "york")))
        [(1, 3, 'nyc'), (2, 3, 'york')]
        """
        values: dict[str, str] = {}
        longest: dict[str, int] = {}
        for name, value in names:
            name = name.casefold()
            is_plain = (
                name.isascii() and name.replace(" ", "").isalpha()
            )  # words to every tokenizer
            words = name.split() if is_plain else tokenize(name)
            key = " ".join(words)
            if key and key not in values:
                values[key] = value
                if longest.get(words[0], 0) < len(words):
                    longest[words[0]] = len(words)
        return cls(values, longest)

    def matches(self, words: Sequence[str]) -> Iterator[tuple[int, int, str]]:
        """Start, end and value of every name among words in lower case."""
        for start, word in enumerate(words):
            if bound := self.longest.get(word):
                for end in range(start + 1, min(start + bound, len(words)) + 1):
                    value = self.values.get(" ".join(words[start:end]))
                    if value is not None:
                        yield start, end, value


def read_gazetteer(path: Path, tokenize: Tokenize = str.split) -> Gazetteer:
    """The names of a file: `alias<TAB>value`, or a name a line that is its own value; empty lines are skipped."""

    def names() -> Iterator[tuple[str, str]]:
        for place, line in numbered_lines(path):
            if not line.strip():
                continue
            name, tab, value = line.partition("\t")
            if "\t" in value:
                raise FormatError(
                    f"expected 'name' or 'alias<TAB>value', found {line.count(chr(9)) + 1} columns",
                    place,
                )
            if not name.strip() or (tab and not value.strip()):
                raise FormatError(
                    f"expected 'name' or 'alias<TAB>value', found {line!r:.80}", place
                )
            yield name, value.strip() if tab else name.strip()

    gazetteer = Gazetteer.of(names(), tokenize)
    if not gazetteer.values:
        raise FormatError("found no name, expected 'name' or 'alias<TAB>value' on every line", path)
    return gazetteer


def write_gazetteer(path: Path, gazetteer: Gazetteer) -> None:
    """Write the names as `read_gazetteer` reads them without a tokenizer."""
    write_text(path, "".join(f"{name}\t{value}\n" for name, value in gazetteer.values.items()))


def column_values(database: Path | str, column: str, tokenize: Tokenize = str.split) -> Gazetteer:
    """The distinct values of a column, `table.column` in any casing, of an SQLite file or what a URL names."""
    table, dot, name = column.partition(".")
    if not dot or not table or not name:
        raise SettingsError(f"expected 'table.column' as the column of a slot, found '{column}'")
    if is_url(database):
        values_of = load_extension("nqg.sql.database_url:values_of")
        return Gazetteer.of(
            ((value, value) for value in values_of(str(database), column)), tokenize
        )
    database = Path(database)
    if not os.path.isfile(database):  # False for names that no file can have, too
        raise NqgError(f"{database}: no such file; expected an SQLite database")
    try:
        with closing(
            sqlite3.connect(f"{database.resolve().as_uri()}?mode=ro", uri=True)
        ) as connection:
            named = connection.execute(
                "SELECT name FROM sqlite_master WHERE type IN ('table', 'view')"
            )
            tables = [row[0] for row in named]
            table = next((each for each in tables if each.casefold() == table.casefold()), table)
            if table not in tables:
                raise UnknownName(f"table of {database}", table, tables)
            columns = [row[1] for row in connection.execute(f"PRAGMA table_info({_quoted(table)})")]
            name = next((each for each in columns if each.casefold() == name.casefold()), name)
            if name not in columns:
                raise UnknownName(f"column of {table} in {database}", name, columns)
            select = f"SELECT DISTINCT {_quoted(name)} FROM {_quoted(table)} ORDER BY 1"
            values = [str(value) for (value,) in connection.execute(select) if value is not None]
    except (sqlite3.Error, UnicodeDecodeError) as error:  # the latter of names that are not UTF-8
        raise NqgError(f"{database}: cannot be read as an SQLite database ({error})") from error
    return Gazetteer.of(((value, value) for value in values), tokenize)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
