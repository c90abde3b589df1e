"""The JSON files of Spider: each is a list of objects, whose fields are read with errors that name file and entry."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nqg.data.strict_json import json_kind, strict_json
from nqg.errors import FormatError, Place
from nqg.files import numbered_lines


@dataclass(frozen=True, slots=True)
class JsonEntry:
    """One object of the list in a file; `number` counts from 0."""

    path: Path
    number: int
    fields: dict[str, Any]

    def text(self, key: str) -> str:
        """The string under `key`, which holds more than white space."""
        value = self._value(key)
        if not isinstance(value, str):
            raise self.complaint(f"expected a string as '{key}', found {json_kind(value)}")
        if not value.strip():
            raise self.complaint(f"expected some text as '{key}', found an empty string")
        return value

    def items(self, key: str) -> list[Any]:
        """The list under `key`."""
        value = self._value(key)
        if not isinstance(value, list):
            raise self.complaint(f"expected a list as '{key}', found {json_kind(value)}")
        return value

    def complaint(self, reason: str) -> FormatError:
        """The error to raise about this entry."""
        return FormatError(f"entry {self.number} (counted from 0): {reason}", self.path)

    def _value(self, key: str) -> object:
        if key not in self.fields:
            keys = ", ".join(f"'{found}'" for found in self.fields) or "no key at all"
            raise self.complaint(f"expected the key '{key}', found {keys}")
        return self.fields[key]


def read_json_entries(path: Path) -> list[JsonEntry]:
    """The objects in the list that the file holds."""
    text = "\n".join(line for _, line in numbered_lines(path))
    value = strict_json(text, Place(path, 1))
    if not isinstance(value, list):
        raise FormatError(f"expected a list of objects, found {json_kind(value)}", path)
    return [_entry(path, number, fields) for number, fields in enumerate(value)]


def _entry(path: Path, number: int, fields: object) -> JsonEntry:
    if not isinstance(fields, dict):
        raise JsonEntry(path, number, {}).complaint(f"expected an object, found {json_kind(fields)}")
    return JsonEntry(path, number, fields)
