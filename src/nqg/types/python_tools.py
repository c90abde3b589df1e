"""Tools from annotated Python functions: their signatures as JSON Schemas.

A module is imported, so its code runs: name only modules that you trust. A model folder has the
schemas alone.
"""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import importlib
import importlib.util
import inspect
import json
import sys
import types
import typing
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from enum import Enum
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from nqg.errors import FormatError, NqgError
from nqg.types.tools import Json, Tool, read_tools

ToolSource = (
    Path | str | ModuleType | Mapping[str, Any] | Iterable[Any] | Callable[..., Any]
)
JSON_TYPES: Mapping[Any, str] = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    None: "null",
    type(None): "null",
    decimal.Decimal: "number",
    Path: "string",
}
# JSON has these types as strings in a format.
STRING_FORMATS: Mapping[Any, str] = {
    datetime.date: "date",
    datetime.time: "time",
    datetime.datetime: "date-time",
    datetime.timedelta: "duration",
    uuid.UUID: "uuid",
}


def load_tools(source: ToolSource) -> tuple[Tool, ...]:
    """Tools from whatever has them.

    That is a JSON file, a Python file, the name of a module, a module, functions, or the values that
    a JSON file would hold.
    """
    if isinstance(source, str | Path):
        path = Path(source)
        if path.suffix == ".py":
            return module_tools(_module_of_file(path))
        if path.exists() or path.suffix or "/" in str(source):
            return read_tools(path)
        return module_tools(_module_named(str(source)))
    if isinstance(source, ModuleType):
        return module_tools(source)
    if isinstance(source, Mapping):
        return read_tools(source)
    if callable(source):
        return read_tools([function_tool(source)])
    items = []
    for item in typing.cast(Iterable[Any], source):
        is_function = callable(item) and not isinstance(item, Tool)
        items.append(function_tool(item) if is_function else item)
    return read_tools(items)


def module_tools(module: ModuleType) -> tuple[Tool, ...]:
    """The public functions of a module: those in `__all__`, or those that are defined there."""
    names = getattr(module, "__all__", None)
    functions = []
    for name, value in vars(module).items():
        if not inspect.isfunction(value):
            continue
        is_own = value.__module__ == module.__name__ and not name.startswith("_")
        is_public = is_own if names is None else name in names
        if is_public:
            functions.append(function_tool(value))
    if not functions:
        raise NqgError(
            f"the module '{module.__name__}' has no public functions of its own; expected "
            "annotated functions"
        )
    return read_tools(functions)


def _module_named(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise NqgError(
            f"no tools '{name}': there is no such file, and no module '{error.name}'"
        ) from error


def _module_of_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise NqgError(f"{path}: no such file")
    name = f"_nqg_tools_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None, "a .py file has a loader"
    assert spec.loader is not None, "a .py file has a loader"
    module = importlib.util.module_from_spec(spec)
    # Annotations that are strings are looked up in the module of their class.
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise NqgError(
            f"{path}: cannot be imported ({type(error).__name__}: {error})"
        ) from error
    finally:
        del sys.modules[name]
    return module


def function_tool(function: Callable[..., Any]) -> Tool:
    """The tool that calls a function; the first paragraph of its docstring describes it.

    >>> def dim(room: Literal["kitchen", "hall"], percent: int = 50) -> None:
    ...     "Dim the lights."
    >>> tool = function_tool(dim)
    >>> tool.description, [parameter.is_required for parameter in tool.parameters]
    ('Dim the lights.', [True, False])
    """
    name = getattr(function, "__name__", type(function).__name__)
    try:
        hints = typing.get_type_hints(function, include_extras=True)
    except Exception as error:
        raise FormatError(
            f"{name}: its annotations cannot be read ({type(error).__name__}: {error})"
        ) from error
    properties: dict[str, Json] = {}
    required = []
    for parameter in inspect.signature(function).parameters.values():
        where = f"{name}.{parameter.name}"
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise FormatError(
                f"{where}: a tool has named parameters only, found '{parameter}'"
            )
        if parameter.name not in hints:
            expected = "expected an annotation such as 'int' or 'Literal[...]'"
            raise FormatError(f"{where}: {expected}, found none")
        schema = _schema_of(hints[parameter.name], where)
        if parameter.default is parameter.empty:
            required.append(parameter.name)
        else:
            schema = _with_default(schema, parameter.default)
        properties[parameter.name] = schema
    description = inspect.getdoc(function)
    written: dict[str, Json] = {"name": name}
    if description:
        written["description"] = " ".join(description.split("\n\n")[0].split())
    written["parameters"] = _object(properties, required)
    (tool,) = read_tools([written])
    return tool


def _object(properties: dict[str, Json], required: Sequence[str]) -> dict[str, Json]:
    schema: dict[str, Json] = {"type": "object", "properties": properties}
    if required:
        schema["required"] = list(required)
    return schema


def _with_default(schema: dict[str, Json], default: object) -> dict[str, Json]:
    """The schema with a default, where JSON can write that one."""
    if isinstance(default, Enum):
        default = default.value
    if default is None:
        return schema
    try:
        return {**schema, "default": json.loads(json.dumps(default))}
    except TypeError:
        return schema


def _schema_of(hint: Any, where: str, outer: tuple[Any, ...] = ()) -> dict[str, Json]:
    """The JSON Schema of a type; `outer` are the classes around it."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        schema = _schema_of(arguments[0], where, outer)
        texts = [text for text in arguments[1:] if isinstance(text, str)]
        return {**schema, "description": texts[0]} if texts else schema
    if hint in (Any, object):
        return {}
    if hint in JSON_TYPES:
        return {"type": JSON_TYPES[hint]}
    if hint in STRING_FORMATS:
        return {"type": "string", "format": STRING_FORMATS[hint]}
    if origin is Literal:
        return _enumerated(arguments)
    if origin in (Union, types.UnionType):
        return {"anyOf": [_schema_of(item, where, outer) for item in arguments]}
    if inspect.isclass(origin or hint):
        class_schema = _schema_of_class(hint, where, outer)
        if class_schema is not None:
            return class_schema
    expected = (
        "expected str, int, float, bool, a date or time, Literal, Enum, list, dict, a "
        "dataclass or a TypedDict"
    )
    raise FormatError(f"{where}: {expected}, found '{inspect.formatannotation(hint)}'")


def _schema_of_class(
    hint: Any, where: str, outer: tuple[Any, ...]
) -> dict[str, Json] | None:
    """The JSON Schema of a class, perhaps with the types of its items; None where it has none."""
    container, arguments = get_origin(hint) or hint, get_args(hint)
    if issubclass(container, Enum):
        return _enumerated([member.value for member in container])
    if issubclass(container, Mapping | dict) and not typing.is_typeddict(hint):
        value = arguments[1] if arguments else Any
        inner = _schema_of(value, where, outer)
        return {"type": "object", "additionalProperties": inner}
    if issubclass(container, Sequence | AbstractSet):
        items = [item for item in arguments if item is not Ellipsis] or [Any]
        if len(items) == 1:
            array: dict[str, Json] = {"type": "array"}
            array["items"] = _schema_of(items[0], where, outer)
            if issubclass(container, AbstractSet):
                array["uniqueItems"] = True
            return array
    if dataclasses.is_dataclass(container) or typing.is_typeddict(container):
        if container in outer:
            raise FormatError(f"{where}: '{container.__name__}' holds itself")
        return _object_of_class(container, where, (*outer, container))
    return None


def _enumerated(values: Iterable[Any]) -> dict[str, Json]:
    values = list(values)
    schema: dict[str, Json] = {"enum": values}
    if all(isinstance(value, str) for value in values):
        schema = {"type": "string", **schema}
    elif all(type(value) is int for value in values):
        schema = {"type": "integer", **schema}
    return schema


def _object_of_class(
    container: type, where: str, outer: tuple[Any, ...]
) -> dict[str, Json]:
    hints = typing.get_type_hints(container, include_extras=True)
    properties: dict[str, Json] = {}
    required = []
    if dataclasses.is_dataclass(container):
        for field in dataclasses.fields(container):
            schema = _schema_of(hints[field.name], f"{where}.{field.name}", outer)
            if field.default is not dataclasses.MISSING:
                schema = _with_default(schema, field.default)
            elif field.default_factory is dataclasses.MISSING:
                required.append(field.name)
            properties[field.name] = schema
        return _object(properties, required)
    needed: frozenset[str] = getattr(container, "__required_keys__", frozenset())
    for name, hint in hints.items():
        # Where annotations are strings, `__required_keys__` does not know these.
        origin = get_origin(hint)
        if origin in (typing.Required, typing.NotRequired):
            (hint,) = get_args(hint)
        properties[name] = _schema_of(hint, f"{where}.{name}", outer)
        is_needed = name in needed or origin is typing.Required
        if is_needed and origin is not typing.NotRequired:
            required.append(name)
    return _object(properties, required)
