"""Plain values, as JSON and TOML give them, read into dataclasses by their annotations.

Whatever is not as expected is refused with its place, its table and its key.
"""

from __future__ import annotations

import sys
import tomllib
import types
import typing
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import MISSING, fields, is_dataclass, replace
from datetime import date
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from nqg.errors import FormatError, NqgError, Place, SettingsError, UnknownName

Settings = TypeVar("Settings")


def read_dataclass(
    kind: type[Settings],
    values: object,
    name: str,
    place: Place | Path | None = None,
    *,
    complete: bool = False,
    ignores_unknown: bool = False,
) -> Settings:
    """A dataclass from plain values; errors call them `name`.

    With `complete`, every field must be there, whatever its default.

    >>> from nqg.data.example import Example
    >>> read_dataclass(Example, {"source": "jump", "target": "I_JUMP"}, "the example")
    Example(source='jump', target='I_JUMP', id=None)
    >>> read_dataclass(Example, {"targets": "I_JUMP"}, "the example")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    nqg.errors.FormatError: no key of the example 'targets'; did you mean 'target'? ...
    """
    if not isinstance(values, Mapping):
        raise _mismatch(kind, values, name, place)
    hints, required = _fields(kind)  # type: ignore[arg-type]  # a class can be hashed
    # Refuse keys that no field has, and fields without a key.
    if not ignores_unknown:
        for key in values:
            if key not in hints:
                raise FormatError(str(UnknownName(f"key of {name}", key, hints)), place)
    for key in hints if complete else required:
        if key not in values:
            raise FormatError(
                f"the key '{key}' of {name} is missing; expected {_words(hints[key])}",
                place,
            )
    read = {}
    for key, hint in hints.items():
        if key in values:
            label = f"'{key}' of {name}"
            read[key] = read_value(hint, values[key], label, place, table=f"[{key}]")
    try:
        return kind(**read)
    except (FormatError, SettingsError, UnknownName) as error:
        raise FormatError(f"{name}: {error}", place) from error


@cache
def _fields(kind: type) -> tuple[dict[str, Any], list[str]]:
    """The types of a dataclass's fields, and the names of those without a default."""
    hints = typing.get_type_hints(kind)
    kinds: dict[str, Any] = {}
    required = []
    for setting in fields(kind):
        kinds[setting.name] = hints[setting.name]
        if setting.default is MISSING and setting.default_factory is MISSING:
            required.append(setting.name)
    return kinds, required


def read_value(
    hint: Any,
    value: Any,
    name: str,
    place: Place | Path | None = None,
    *,
    table: str | None = None,
) -> Any:
    """A plain value as the type `hint`; errors call it `name`, or `table` if it is one.

    >>> read_value(tuple[float, ...], [1, 2.5], "'rates'")
    (1.0, 2.5)
    """
    # `isinstance` would take true for a number.
    if hint is Any or (type(value) is hint and hint is not float):
        return value
    # NaN is not at most the largest float.
    if (
        hint is float
        and type(value) in (int, float)
        and abs(value) <= sys.float_info.max
    ):
        return float(value)
    origin, options = typing.get_origin(hint), typing.get_args(hint)
    if isinstance(hint, type) and is_dataclass(hint):
        if table and isinstance(value, Mapping):
            name = table
        return read_dataclass(hint, value, name, place)
    if _is_union(hint):
        kinds = [option for option in options if option is not types.NoneType]
        if value is None and len(kinds) < len(options):
            return None
        # The error of a lone type says more than that no type takes the value.
        if len(kinds) == 1:
            return read_value(kinds[0], value, name, place, table=table)
        for kind in kinds:
            with suppress(FormatError):
                return read_value(kind, value, name, place, table=table)
    if origin is typing.Literal and value in options:
        return value
    if isinstance(hint, type) and issubclass(hint, Enum):
        for member in hint:
            if member.value == value:
                return member
    if origin in (tuple, list) and isinstance(value, list | tuple):
        row = options
        if origin is list or options[-1] is Ellipsis:
            row = options[:1] * len(value)
        if len(row) == len(value):
            entries = []
            for at, (kind, entry) in enumerate(zip(row, value)):
                entries.append(read_value(kind, entry, f"entry {at} of {name}", place))
            return origin(entries)
    if origin in (Mapping, dict) and isinstance(value, Mapping):
        entries_by_key = {}
        for key, entry in value.items():
            label = f"'{key}' of {table or name}"
            entries_by_key[key] = read_value(options[1], entry, label, place)
        return entries_by_key
    raise _mismatch(hint, value, name, place)


def _is_union(hint: Any) -> bool:
    return isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union


def _mismatch(
    hint: Any, value: object, name: str, place: Place | Path | None
) -> FormatError:
    words = _words(hint)
    if str(place).endswith(".toml"):
        words = words.replace("an object", "a table")
    return FormatError(f"expected {words} as {name}, found {value!r:.200}", place)


def _words(hint: Any) -> str:
    """What a type is called in errors."""
    origin, options = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Literal:
        return f"one of {', '.join(map(str, options))}"
    if _is_union(hint):
        return " or ".join(
            _words(option) for option in options if option is not types.NoneType
        )
    if isinstance(hint, type) and issubclass(hint, Enum):
        return f"one of {', '.join(str(member.value) for member in hint)}"
    if origin is tuple and options[-1] is not Ellipsis:
        return f"[{', '.join(map(_words, options))}]"
    return _NAMES.get(origin or hint, "an object")


_NAMES = {
    str: "a string",
    int: "an integer",
    float: "a number",
    bool: "true or false",
    tuple: "a list",
    list: "a list",
}


def read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise NqgError(f"{path}: cannot be read ({error.strerror})") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise FormatError(f"not valid TOML: {error}", path) from error
    except (RecursionError, ValueError) as error:
        raise FormatError(f"not usable TOML: {error}", path) from error


def change_value(values: dict[str, Any], change: str) -> None:
    """Set `table.key=value` in a table of plain values, as TOML writes it; a word needs no quotes.

    >>> values = {"training": {"steps": 100}}
    >>> change_value(values, "training.steps=200")
    >>> change_value(values, "model.encoder=embedded")
    >>> values
    {'training': {'steps': 200}, 'model': {'encoder': 'embedded'}}
    >>> change_value(values, "text.today=2026-11-16")
    >>> values["text"]
    {'today': '2026-11-16'}
    """
    name, equals, text = change.partition("=")
    *tables, key = name.strip().split(".")
    if not equals or not key:
        raise SettingsError(
            f"'{change}' changes nothing; expected NAME=VALUE, as in training.steps=200"
        )
    for table in tables:
        values = values.setdefault(table, {})
        if not isinstance(values, dict):
            raise SettingsError(f"'{change}': '{table}' is not a table")
    # What is not valid TOML is a word without quotes.
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text.strip()
    # No setting is a date: one that holds a day, such as text.today, holds it as it is written.
    if isinstance(value, date):
        value = text.strip()
    values[key] = value


def changed_settings(settings: Settings, changes: Sequence[str]) -> Settings:
    """Settings with other values for the fields that `changes` name, as in `training.steps=200`.

    Dataclasses may be nested. `none` stands for None, which TOML cannot write.

    >>> from nqg.induction.settings import InductionSettings
    >>> changed_settings(InductionSettings(), ["shortest=500", "pruning=false"]).shortest
    500
    >>> changed_settings(InductionSettings(), ["shortes=500"])  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    nqg.errors.UnknownName: no setting 'shortes'; did you mean 'shortest'? Known: balanced, ...
    """
    values: dict[str, Any] = {}
    for change in changes:
        change_value(values, change)
    return updated_settings(settings, values)


def updated_settings(
    settings: Settings, values: Mapping[str, Any], prefix: str = ""
) -> Settings:
    """Settings with tables of plain values laid over them; errors name keys after `prefix`."""
    hints, _ = _fields(type(settings))  # type: ignore[arg-type]  # a class can be hashed
    updates: dict[str, Any] = {}
    for key, value in values.items():
        name = f"{prefix}{key}"
        if key not in hints:
            raise UnknownName("setting", name, [f"{prefix}{hint}" for hint in hints])
        present = getattr(settings, key)
        if is_dataclass(present) and isinstance(value, Mapping):
            updates[key] = updated_settings(present, value, f"{name}.")
        elif value == "none" and types.NoneType in typing.get_args(hints[key]):
            updates[key] = None
        else:
            try:
                updates[key] = read_value(
                    hints[key], value, f"'{name}'", table=f"[{name}]"
                )
            except FormatError as error:
                # An option is wrong, not a file.
                raise SettingsError(str(error)) from error
    return replace(settings, **updates)  # type: ignore[type-var]  # settings are dataclasses
