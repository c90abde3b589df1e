"""TOML files on their way into types: whatever is not as expected is refused with its file, table and key."""

from __future__ import annotations

import tomllib
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any, TypeVar

from nqg.errors import FormatError, NqgError, SettingsError, UnknownName

Settings = TypeVar("Settings")


@dataclass(frozen=True, slots=True)
class Table:
    """A table of a TOML file; `name` is how errors call it."""

    values: Mapping[str, Any]
    path: Path | None
    name: str

    def only(self, *known: str) -> None:
        """Refuse keys that mean nothing here."""
        for key in self.values:
            if key not in known:
                raise FormatError(str(UnknownName(f"key of {self.name}", key, known)), self.path)

    def text(self, key: str, default: str | None = None, among: tuple[str, ...] = ()) -> str:
        """A string, perhaps one of few."""
        value = self.values.get(key, default)
        if not isinstance(value, str) or (among and value not in among):
            self._refuse(key, f"one of {', '.join(among)}" if among else "a string", value)
        return value

    def table(self, key: str) -> Table:
        """A table within this one; empty if it is not there."""
        value = self.values.get(key, {})
        if not isinstance(value, dict):
            self._refuse(key, "a table", value)
        return Table(value, self.path, f"[{key}]")

    def numbers(self) -> dict[str, float]:
        """This table, all of whose values are numbers."""
        for key, value in self.values.items():
            if isinstance(value, bool) or not isinstance(value, int | float):
                self._refuse(key, "a number", value)
        return {key: float(value) for key, value in self.values.items()}

    def settings(self, kind: type[Settings]) -> Settings:
        """This table as settings of a stage; what it leaves out has its default."""
        known = {each.name for each in fields(kind)}  # type: ignore[arg-type]
        self.only(*sorted(known))
        hints = typing.get_type_hints(kind)
        try:
            return kind(**{key: self._fitting(key, hints[key]) for key in self.values})
        except (SettingsError, UnknownName) as error:
            raise FormatError(f"{self.name}: {error}", self.path) from error

    def _fitting(self, key: str, hint: Any) -> Any:
        """The value at `key`, if it is of the type that a setting has."""
        value = self.values[key]
        kinds = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
        nested = next((kind for kind in kinds if is_dataclass(kind)), None)
        if nested is not None:
            return self.table(key).settings(nested)  # type: ignore[arg-type]
        if typing.get_origin(hint) is typing.Literal:
            return self.text(key, among=typing.get_args(hint))
        if float in kinds and type(value) is int:
            return float(value)
        if type(value) not in kinds:  # `isinstance` would take true for a number
            self._refuse(key, " or ".join(kind.__name__ for kind in kinds if kind is not types.NoneType), value)
        return value

    def _refuse(self, key: str, expected: str, value: object) -> typing.NoReturn:
        raise FormatError(f"expected {expected} as '{key}' of {self.name}, found {value!r}", self.path)


def read_toml(path: Path, name: str) -> Table:
    """A TOML file; errors call it `name`."""
    try:
        return Table(tomllib.loads(path.read_text(encoding="utf-8")), path, name)
    except OSError as error:
        raise NqgError(f"{path}: cannot be read ({error.strerror})") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise FormatError(f"not valid TOML: {error}", path) from error
    except (RecursionError, ValueError) as error:
        raise FormatError(f"no TOML that makes sense here: {error}", path) from error
