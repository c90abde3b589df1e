"""A slot: a kind of value (number, time, the names of a gazetteer, …) and the forms in which programs write it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from pathlib import Path
from typing import Any, Literal

import regex

from nqg.errors import FormatError, Place, UnknownName
from nqg.files import is_url
from nqg.settings_reader import read_dataclass
from nqg.slots.gazetteer import Gazetteer, Tokenize, column_values, read_gazetteer
from nqg.slots.values import FORMS, Fields, is_form, written

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
# What holds others comes first.
BUILT_IN: tuple[Kind, ...] = ("quoted", "time", "date", "duration", "ordinal", "number")
LISTED_FORMS = ("{value}", "{lower_value}", "{lower}", "{verbatim}")
WORD_FORMS = ("{verbatim}", "{lower}")
MOST_REPEATS = 10_000  # that counted repetitions of an expression may ask for


@dataclass(frozen=True, slots=True)
class SlotTable:
    """A slot in a settings file: exactly one of `kind`, `regex`, `gazetteer`, `column` (and `database`), `text`."""

    kind: str | None = None
    regex: str | None = None
    gazetteer: str | None = None  # path of a file
    column: str | None = None  # table.column
    database: str | None = None  # path of an SQLite file, or a URL
    text: int | None = None  # words that free text may have
    form: str | None = None  # how programs write a value, if it is not to be learned


@dataclass(frozen=True)
class Slot:
    """What a slot reads, and how programs write it: the first form that a value has the fields for."""

    name: str
    kind: Kind
    forms: tuple[str, ...] = ()
    quote: str = ""  # inside of which programs write the values
    expression: str | None = None
    length: int | None = None
    names: Gazetteer | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        if wrong := [form for form in self.forms if not is_form(form)]:
            expected = f"one like '{self.possible_forms[0]}'"
            raise FormatError(
                f"slot '{self.name}': {wrong[0]!r:.80} is not a form, expected {expected}"
            )

    @cached_property
    def pattern(self) -> regex.Pattern[str]:
        repeats = prod(
            int(count)
            for count in regex.findall(r"(\d{1,9})\d*\}", self.expression or "")
            if int(count)
        )
        if repeats > MOST_REPEATS:  # compiled, each would be written out
            reason = f"slot '{self.name}': {self.expression!r:.80} repeats up to {repeats:,} times"
            raise FormatError(f"{reason}, expected at most {MOST_REPEATS:,}")
        try:
            return regex.compile(self.expression or "")
        except (regex.error, RecursionError, OverflowError) as error:
            reason = (
                f"slot '{self.name}': {self.expression!r:.80} is not a regular expression: {error}"
            )
            raise FormatError(reason) from error

    @property
    def possible_forms(self) -> tuple[str, ...]:
        if self.kind in ("gazetteer", "column"):
            return LISTED_FORMS
        return FORMS.get(self.kind, WORD_FORMS)

    def write(self, fields: Fields) -> str | None:
        for form in self.forms:
            if (text := written(form, fields)) is not None:
                return text
        return None


def read_slots(
    values: Mapping[str, Any], place: Place | Path | None = None, tokenize: Tokenize = str.split
) -> list[Slot]:
    """The `[slots]` of a settings file; paths are relative to its folder, names are split into words by `tokenize`."""
    folder = place.parent if isinstance(place, Path) else place.path.parent if place else Path()
    return [_read_slot(name, value, place, folder, tokenize) for name, value in values.items()]


def is_slot_name(name: str) -> bool:
    return regex.fullmatch(r"[^\W\d_][\w-]*(?<!_\d+)", name) is not None


def _read_slot(
    name: str, value: object, place: Place | Path | None, folder: Path, tokenize: Tokenize
) -> Slot:
    if not is_slot_name(name):
        raise FormatError(
            f"expected letters, digits and '-' as the name of a slot, found '{name}'", place
        )
    values = {"kind": value} if isinstance(value, str) else value
    table = read_dataclass(SlotTable, values, f"slot '{name}'", place)
    given = [
        each
        for each in ("kind", "regex", "gazetteer", "column", "text")
        if getattr(table, each) is not None
    ]
    if len(given) != 1:
        found = " and ".join(given) or "neither"
        raise FormatError(
            f"slot '{name}': expected one of kind, regex, gazetteer, column or text, found {found}",
            place,
        )
    if table.kind is not None and table.kind not in BUILT_IN:
        raise FormatError(
            f"slot '{name}': {UnknownName('kind of slot', table.kind, BUILT_IN)}", place
        )
    if (table.column is None) != (table.database is None):
        raise FormatError(f"slot '{name}': expected column and database together", place)
    if table.text is not None and table.text < 1:
        raise FormatError(
            f"slot '{name}': expected a number of words, at least 1, as text, found {table.text}",
            place,
        )
    kind: Kind = table.kind or given[0]  # type: ignore[assignment]  # both were checked
    names = None
    if table.gazetteer is not None:
        names = read_gazetteer(folder / table.gazetteer, tokenize)
    elif table.column is not None and table.database is not None:
        database = table.database if is_url(table.database) else folder / table.database
        names = column_values(database, table.column, tokenize)
    try:
        slot = Slot(
            name, kind, (table.form,) if table.form else (), "", table.regex, table.text, names
        )
        _ = slot.pattern  # refused here rather than at the first sentence
    except FormatError as error:
        raise FormatError(error.reason, place) from error
    return slot
