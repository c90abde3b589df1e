"""A gazetteer: names as sentences write them, and the values that they stand for.

It is a dictionary of names and, for every first word, the number of words of the longest name that
begins with it: a sentence costs a few look-ups per word, however many names there are. Names match
whatever their casing.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nqg.errors import FormatError, NqgError, SettingsError, UnknownName
from nqg.extensions import load_extension
from nqg.files import is_url, numbered_lines, write_text

Tokenize = Callable[[str], Sequence[str]]


@dataclass(frozen=True, slots=True)
class Gazetteer:
    """Values by name; a name is its words in lower case with a space between them.

    `longest` has the number of words of the longest name, by its first word.
    """

    values: dict[str, str]
    longest: dict[str, int] = field(repr=False)

    @classmethod
    def of(cls, names: Iterable[tuple[str, str]], tokenize: Tokenize = str.split) -> Gazetteer:
        """Pairs of name and value as a gazetteer; the first value of a name counts.

        >>> cities = Gazetteer.of([("New York", "nyc"), ("Big Apple", "nyc"), ("York", "york")])
        >>> list(cities.matches(("from", "new", "york")))
        [(1, 3, 'nyc'), (2, 3, 'york')]
        """
        values = {}
        longest: dict[str, int] = {}
        for name, value in names:
            name = name.casefold()
            # Letters and spaces are the same words to every tokenizer, and most names.
            is_plain = name.isascii() and name.replace(" ", "").isalpha()
            words = name.split() if is_plain else tokenize(name)
            key = " ".join(words)
            if key and key not in values:
                values[key] = value
                longest[words[0]] = max(longest.get(words[0], 0), len(words))
        return cls(values, longest)

    def matches(self, words: Sequence[str]) -> Iterator[tuple[int, int, str]]:
        """Start, end and value of every name among words in lower case."""
        for start, word in enumerate(words):
            last_end = min(start + self.longest.get(word, 0), len(words))
            for end in range(start + 1, last_end + 1):
                value = self.values.get(" ".join(words[start:end]))
                if value is not None:
                    yield start, end, value


def read_gazetteer(path: Path, tokenize: Tokenize = str.split) -> Gazetteer:
    """The names of a file, one a line: `alias<TAB>value`, or a name that is its own value."""
    gazetteer = Gazetteer.of(_names_in(path), tokenize)
    if not gazetteer.values:
        raise FormatError("found no name, expected 'name' or 'alias<TAB>value' on every line", path)
    return gazetteer


def _names_in(path: Path) -> Iterator[tuple[str, str]]:
    for place, line in numbered_lines(path):
        if not line.strip():
            continue
        columns = line.split("\t")
        expected = "expected 'name' or 'alias<TAB>value'"
        if len(columns) > 2:
            raise FormatError(f"{expected}, found {len(columns)} columns", place)
        if not all(column.strip() for column in columns):
            raise FormatError(f"{expected}, found {line!r:.80}", place)
        yield columns[0], columns[-1].strip()


def write_gazetteer(path: Path, gazetteer: Gazetteer) -> None:
    """Write the names as `read_gazetteer` reads them without a tokenizer."""
    write_text(path, "".join(f"{name}\t{value}\n" for name, value in gazetteer.values.items()))


def column_values(database: Path | str, column: str, tokenize: Tokenize = str.split) -> Gazetteer:
    """The distinct values of a column, `table.column` in any casing.

    The database is an SQLite file, or what a URL names.
    """
    table, _, name = column.partition(".")
    if not table or not name:
        raise SettingsError(f"expected 'table.column' as the column of a slot, found '{column}'")
    if is_url(database):
        values = load_extension("nqg.sql.database_url:values_of")(str(database), table, name)
    else:
        values = _sqlite_values(Path(database), table, name)
    return Gazetteer.of(zip(values, values, strict=True), tokenize)


def _sqlite_values(path: Path, table: str, column: str) -> list[str]:
    if not path.is_file():
        raise NqgError(f"{path}: no such file; expected an SQLite database")
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as connection:
            tables = "SELECT name FROM sqlite_master WHERE type IN ('table', 'view')"
            table = known_name(f"table of {path}", table, _first_column(connection, tables))
            columns = f"SELECT name FROM pragma_table_info({_quoted(table)})"
            names = _first_column(connection, columns)
            column = known_name(f"column of {table} in {path}", column, names)
            values = f"SELECT DISTINCT {_quoted(column)} FROM {_quoted(table)} ORDER BY 1"
            return [str(value) for value in _first_column(connection, values) if value is not None]
    except (sqlite3.Error, UnicodeDecodeError) as error:
        # A name that is not UTF-8 cannot be decoded.
        raise NqgError(f"{path}: cannot be read as an SQLite database ({error})") from error


def _first_column(connection: sqlite3.Connection, query: str) -> list[Any]:
    return [value for (value,) in connection.execute(query)]


def known_name(kind: str, name: str, known: Sequence[str]) -> str:
    """The known name that `name` is in some casing; there must be one."""
    for candidate in known:
        if candidate.casefold() == name.casefold():
            return candidate
    raise UnknownName(kind, name, known)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
