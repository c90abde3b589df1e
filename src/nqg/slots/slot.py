"""A slot: a kind of value (number, time, the names of a gazetteer, …), and its forms in programs.

A gazetteer has names as sentences write them, and the values that they stand for. It is a
dictionary of names and, for every first word, the number of words of the longest name that begins
with it: a sentence costs a few look-ups per word, however many names there are. Names match
whatever their casing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from pathlib import Path
from typing import Any, Literal

import regex

from nqg.errors import FormatError, SettingsError, UnknownName
from nqg.extensions import load_extension
from nqg.files import is_url, numbered_lines, write_text
from nqg.settings_reader import read_dataclass
from nqg.slots.values import FORMS, Fields, format_value, is_form

Kind = Literal[
    "number",
    "ordinal",
    "time",
    "date",
    "duration",
    "quoted",
    "regex",
    "gazetteer",
    "column",
    "text",
]
# A kind whose values hold values of another comes before it.
BUILT_IN: tuple[Kind, ...] = ("quoted", "time", "date", "duration", "ordinal", "number")
WORD_FORMS = ("{verbatim}", "{lower}")
LISTED_FORMS = ("{value}", "{lower_value}", "{lower}", "{verbatim}")
# The counted repetitions of an expression are written out when it is compiled. The bound keeps an
# expression of a settings file from filling the memory.
MAX_REPEATS = 10_000


Tokenize = Callable[[str], Sequence[str]]


@dataclass(frozen=True, slots=True)
class Gazetteer:
    """Values by name; a name is its words in lower case with a space between them.

    `longest` has the number of words of the longest name, by its first word.
    """

    values: dict[str, str]
    longest: dict[str, int] = field(repr=False)

    @classmethod
    def of(
        cls, names: Iterable[tuple[str, str]], tokenize: Tokenize = str.split
    ) -> Gazetteer:
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


@dataclass(frozen=True)
class Slot:
    """What a slot reads, and how programs write it: in the first form that a value has fields for.

    `quote` is the quotation mark around its values in programs, `length` the most words of a value.
    """

    name: str
    kind: Kind
    forms: tuple[str, ...] = ()
    quote: str = ""
    expression: str | None = None
    length: int | None = None
    names: Gazetteer | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        for form in self.forms:
            if not is_form(form):
                expected = f"expected one like '{self.possible_forms[0]}'"
                raise FormatError(
                    f"slot '{self.name}': {form!r:.80} is not a form, {expected}"
                )

    @cached_property
    def pattern(self) -> regex.Pattern[str]:
        counts = map(int, regex.findall(r"(\d{1,9})\d*\}", self.expression or ""))
        repeats = prod(filter(None, counts))
        reason = f"slot '{self.name}': {self.expression!r:.80}"
        if repeats > MAX_REPEATS:
            expected = f"expected at most {MAX_REPEATS:,}"
            raise FormatError(f"{reason} repeats up to {repeats:,} times, {expected}")
        try:
            return regex.compile(self.expression or "")
        except (regex.error, RecursionError, OverflowError) as error:
            raise FormatError(
                f"{reason} is not a regular expression: {error}"
            ) from error

    @property
    def is_listed(self) -> bool:
        return self.kind in ("gazetteer", "column")

    @property
    def possible_forms(self) -> tuple[str, ...]:
        if self.is_listed:
            return LISTED_FORMS
        return FORMS.get(self.kind, WORD_FORMS)

    def write(self, fields: Fields) -> str | None:
        for form in self.forms:
            text = format_value(form, fields)
            if text is not None:
                return text
        return None


@dataclass(frozen=True, slots=True)
class SlotTable:
    """A slot in a settings file.

    It has exactly one of `kind`, `regex`, `gazetteer` (a list of names, a table of names and their
    values, or the path of a file), `column` (written `table.column`, with the path or the URL of a
    `database`) and `text` (how many words free text may have). `form` says how programs write a
    value, if that is not to be learned.
    """

    kind: str | None = None
    regex: str | None = None
    gazetteer: str | tuple[str, ...] | dict[str, str] | None = None
    column: str | None = None
    database: str | None = None
    text: int | None = None
    form: str | None = None


def read_slots(
    values: Mapping[str, Any], place: Path | None = None, tokenize: Tokenize = str.split
) -> list[Slot]:
    """The `[slots]` of a settings file, with paths relative to its folder.

    `tokenize` splits names into words.
    """
    slots = []
    for name, value in values.items():
        if not is_slot_name(name):
            raise FormatError(
                f"expected letters, digits and '-' as the name of a slot, found '{name}'",
                place,
            )
        table = {"kind": value} if isinstance(value, str) else value
        declared = read_dataclass(SlotTable, table, f"slot '{name}'", place)
        try:
            slot = _read_slot(
                name, declared, place.parent if place else Path(), tokenize
            )
            # An expression is refused here rather than at the first sentence.
            _ = slot.pattern
        except FormatError as error:
            raise FormatError(error.reason, error.place or place) from error
        slots.append(slot)
    return slots


def is_slot_name(name: str) -> bool:
    return regex.fullmatch(r"[^\W\d_][\w-]*(?<!_\d+)", name) is not None


def _read_slot(name: str, table: SlotTable, folder: Path, tokenize: Tokenize) -> Slot:
    sources = [
        source
        for source in ("kind", "regex", "gazetteer", "column", "text")
        if getattr(table, source) is not None
    ]
    if len(sources) != 1:
        actual = " and ".join(sources) or "neither"
        expected = "expected one of kind, regex, gazetteer, column or text"
        raise FormatError(f"slot '{name}': {expected}, found {actual}")
    if table.kind is not None and table.kind not in BUILT_IN:
        raise FormatError(
            f"slot '{name}': {UnknownName('kind of slot', table.kind, BUILT_IN)}"
        )
    if (table.column is None) != (table.database is None):
        raise FormatError(f"slot '{name}': expected column and database together")
    if table.text is not None and table.text < 1:
        expected = "expected a number of words, at least 1, as text"
        raise FormatError(f"slot '{name}': {expected}, found {table.text}")
    names = None
    if isinstance(table.gazetteer, str):
        names = read_gazetteer(folder / table.gazetteer, tokenize)
    elif table.gazetteer is not None:
        names = _gazetteer_of(table.gazetteer, name, tokenize)
    elif table.column is not None and table.database is not None:
        database = table.database if is_url(table.database) else folder / table.database
        names = column_values(database, table.column, tokenize)
    kind: Kind = table.kind or sources[0]  # type: ignore[assignment]  # both were checked
    forms = (table.form,) if table.form else ()
    return Slot(name, kind, forms, "", table.regex, table.text, names)


def read_gazetteer(path: Path, tokenize: Tokenize = str.split) -> Gazetteer:
    """The names of a file, one a line: `alias<TAB>value`, or a name that is its own value."""
    gazetteer = Gazetteer.of(_names_in(path), tokenize)
    if not gazetteer.values:
        raise FormatError(
            "found no name, expected 'name' or 'alias<TAB>value' on every line", path
        )
    return gazetteer


def _gazetteer_of(
    names: Sequence[str] | Mapping[str, str], slot: str, tokenize: Tokenize
) -> Gazetteer:
    """The names that a settings file lists, each its own value unless it has another."""
    values = names if isinstance(names, Mapping) else dict(zip(names, names))
    gazetteer = Gazetteer.of(values.items(), tokenize)
    if not gazetteer.values or not all(value.strip() for value in values.values()):
        raise FormatError(f"slot '{slot}': expected names as gazetteer, found {names}")
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
    write_text(
        path, "".join(f"{name}\t{value}\n" for name, value in gazetteer.values.items())
    )


def column_values(
    database: Path | str, column: str, tokenize: Tokenize = str.split
) -> Gazetteer:
    """The distinct values of a column, `table.column` in any casing.

    The database is an SQLite file, or what a URL names.
    """
    table, _, name = column.partition(".")
    if not table or not name:
        raise SettingsError(
            f"expected 'table.column' as the column of a slot, found '{column}'"
        )
    values = load_extension("nqg.sql.reader:distinct_values")(database, table, name)
    return Gazetteer.of(zip(values, values), tokenize)
