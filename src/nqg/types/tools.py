"""The tools that programs call: names, descriptions and JSON Schemas of their parameters.

The formats of function calling and of MCP are read into a few frozen types, and written again
without loss. What a schema says that no keyword here knows is kept beside the others and checks
nothing; a keyword that is nearly one of these is refused as a slip.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import Enum
from functools import cached_property
from math import isfinite
from pathlib import Path
from typing import Any, TypeAlias

from nqg.errors import FormatError
from nqg.files import read_json, write_text

Json: TypeAlias = Any  # what `json.loads` gives
FILE = "tools.json"  # in a model folder
JSON_TYPES = ("string", "number", "integer", "boolean", "array", "object", "null")
# The key under which each format has the parameters, with a usual one first.
PARAMETER_KEYS = ("parameters", "inputSchema", "input_schema")
DEFINITION_KEYS = ("$defs", "definitions")
# How alike an unknown keyword and a known one are if it is taken for a slip. With 0.8, 98 % of all
# edits of a letter are, and one of 56 other keywords ("icons"); `benchmarks/constants.py --slips`
# prints the curve.
SLIP = 0.8
# Keywords without an effect here whose names are like those with one.
ANNOTATIONS = [
    "title",
    "examples",
    "example",
    "contains",
    "minContains",
    "maxContains",
    "minProperties",
    "maxProperties",
    "patternProperties",
    "propertyNames",
    "prefixItems",
    "additionalItems",
    "unevaluatedItems",
    "unevaluatedProperties",
    "contentEncoding",
    "contentMediaType",
]


class Absent(Enum):
    """The value of a keyword that a schema does not have, where null would be a value."""

    ABSENT = "absent"

    def __repr__(self) -> str:
        return "ABSENT"


ABSENT = Absent.ABSENT


@dataclass(frozen=True)
class JsonSchema:
    """What a JSON Schema says of a value; a field that is None says nothing.

    >>> JsonSchema(type="integer", minimum=1).to_json()
    {'type': 'integer', 'minimum': 1}
    """

    type: str | tuple[str, ...] | None = None
    description: str | None = None
    enum: tuple[Json, ...] | None = None
    const: Json | Absent = ABSENT
    default: Json | Absent = ABSENT
    nullable: bool | None = None
    # Numbers.
    minimum: float | None = None
    maximum: float | None = None
    exclusive_minimum: float | bool | None = None
    exclusive_maximum: float | bool | None = None
    multiple_of: float | None = None
    # Strings.
    format: str | None = None
    pattern: str | None = None
    min_length: int | None = None
    max_length: int | None = None
    # Arrays.
    items: JsonSchema | None = None
    min_items: int | None = None
    max_items: int | None = None
    unique_items: bool | None = None
    # Objects.
    properties: Mapping[str, JsonSchema] | None = None
    required: tuple[str, ...] | None = None
    additional_properties: bool | JsonSchema | None = None
    # Other schemas.
    any_of: tuple[JsonSchema, ...] | None = None
    one_of: tuple[JsonSchema, ...] | None = None
    all_of: tuple[JsonSchema, ...] | None = None
    ref: str | None = None
    defs: Mapping[str, JsonSchema] | None = None
    definitions: Mapping[str, JsonSchema] | None = None
    other: Mapping[str, Json] = field(default_factory=dict)

    @property
    def types(self) -> tuple[str, ...]:
        """The JSON types that are named."""
        if isinstance(self.type, str):
            return (self.type,)
        return self.type or ()

    @property
    def alternatives(self) -> tuple[JsonSchema, ...]:
        """The schemas of which a value needs to fit one."""
        return (self.any_of or ()) + (self.one_of or ())

    def to_json(self) -> dict[str, Json]:
        """The schema as it was read."""
        written: dict[str, Json] = {}
        for attribute in fields(self):
            value = getattr(self, attribute.name)
            if attribute.name != "other" and value is not attribute.default:
                written[_KEYWORDS[attribute.name]] = _to_json(value)
        return {**written, **self.other}


def _to_json(value: Any) -> Json:
    if isinstance(value, JsonSchema):
        return value.to_json()
    if isinstance(value, tuple):
        return [_to_json(item) for item in value]
    if isinstance(value, Mapping) and any(
        isinstance(item, JsonSchema) for item in value.values()
    ):
        return {name: _to_json(item) for name, item in value.items()}
    return value


def _keyword(attribute: str) -> str:
    """The keyword of JSON Schema that a field holds.

    >>> _keyword("min_length"), _keyword("ref")
    ('minLength', '$ref')
    """
    if attribute in ("ref", "defs"):
        return f"${attribute}"
    first, *others = attribute.split("_")
    return first + "".join(map(str.capitalize, others))


_KEYWORDS = {
    attribute.name: _keyword(attribute.name)
    for attribute in fields(JsonSchema)
    if attribute.name != "other"
}
_ATTRIBUTES = {keyword: attribute for attribute, keyword in _KEYWORDS.items()}


@dataclass(frozen=True)
class Parameter:
    """A named argument of a tool; the schema has no reference and no alternative with null."""

    name: str
    schema: JsonSchema
    is_required: bool
    is_nullable: bool = False


@dataclass(frozen=True)
class Tool:
    """A function that programs may call.

    `parameters_key` and `is_wrapped` tell in which format it was written, `other` and `around` what
    else stood there.

    >>> (tool,) = read_tools([{"name": "dim", "parameters": {
    ...     "type": "object", "properties": {"percent": {"type": "integer"}}}}])
    >>> [parameter.name for parameter in tool.parameters]
    ['percent']
    """

    name: str
    description: str | None = None
    schema: JsonSchema | None = None
    parameters_key: str = "parameters"
    is_wrapped: bool = False
    other: Mapping[str, Json] = field(default_factory=dict)
    around: Mapping[str, Json] = field(default_factory=dict)

    @cached_property
    def parameters(self) -> tuple[Parameter, ...]:
        """The parameters in the order of the schema."""
        if self.schema is None:
            return ()
        schema = self.resolved(self.schema)
        required = schema.required or ()
        parameters = []
        for name, written in (schema.properties or {}).items():
            resolved, is_nullable = self.without_null(written)
            parameters.append(Parameter(name, resolved, name in required, is_nullable))
        return tuple(parameters)

    @property
    def is_open(self) -> bool:
        """Whether the tool takes other arguments than those with a schema of their own.

        JSON Schema allows them unless `additionalProperties` forbids them; here they need to be
        allowed, because no model calls a tool with arguments that its author did not name.
        """
        if self.schema is None:
            return False
        additional = self.resolved(self.schema).additional_properties
        return additional is not None and additional is not False

    def resolved(self, schema: JsonSchema) -> JsonSchema:
        """The schema that a reference names."""
        while schema.ref is not None:
            assert self.schema is not None, "a reference stands in a schema"
            schema = referenced(schema.ref, self.schema)
        return schema

    def without_null(self, schema: JsonSchema) -> tuple[JsonSchema, bool]:
        """The schema of values other than null, and whether null is allowed."""
        schema = self.resolved(schema)
        alternatives = map(self.resolved, schema.alternatives)
        others = [each for each in alternatives if each.type != "null"]
        is_nullable = bool(schema.nullable) or "null" in schema.types
        is_nullable |= len(others) < len(schema.alternatives)
        if len(schema.alternatives) == 2 and len(others) == 1:
            return others[0], True
        return schema, is_nullable

    def to_json(self) -> dict[str, Json]:
        """The tool in the format in which it was read."""
        written: dict[str, Json] = {"name": self.name}
        if self.description is not None:
            written["description"] = self.description
        if self.schema is not None:
            written[self.parameters_key] = self.schema.to_json()
        written.update(self.other)
        if not self.is_wrapped:
            return written
        return {"type": "function", "function": written, **self.around}


def referenced(reference: str, root: JsonSchema) -> JsonSchema:
    """The schema that `#/$defs/name` or `#` names in `root`."""
    if reference == "#":
        return root
    _, key, name = reference.split("/", 2)
    definitions = root.defs if key == "$defs" else root.definitions
    return (definitions or {})[name.replace("~1", "/").replace("~0", "~")]


def read_tools(source: Path | str | Json) -> tuple[Tool, ...]:
    """The tools of a JSON file, or of what such a file holds; malformed ones are refused.

    An error has the path inside of the value: `tools[2].parameters.properties.city.type`.
    """
    if not isinstance(source, str | Path):
        return _tools(source)
    path = Path(source)
    try:
        return _tools(read_json(path))
    except FormatError as error:
        if error.place is not None:
            raise
        raise error.at(path) from None


def write_tools(path: Path, tools: Sequence[Tool]) -> None:
    """Write tools as `read_tools` reads them."""
    written = [tool.to_json() for tool in tools]
    write_text(path, json.dumps(written, ensure_ascii=False, indent=1) + "\n")


def _tools(value: Json) -> tuple[Tool, ...]:
    expected = "expected a list of tools, or an object with the list as 'tools'"
    if isinstance(value, Mapping):
        if "tools" not in value:
            keys = ", ".join(map(repr, value)) or "no key"
            raise FormatError(f"{expected}; found an object with {keys}")
        value = value["tools"]
    if not isinstance(value, list | tuple):
        raise FormatError(f"{expected}; found {shown(value)}")
    if not value:
        raise FormatError("tools: expected at least one tool, found an empty list")
    tools: dict[str, Tool] = {}
    for number, item in enumerate(value):
        path = f"tools[{number}]"
        tool = item if isinstance(item, Tool) else _tool(item, path)
        if tool.name in tools:
            first = list(tools).index(tool.name)
            raise FormatError(
                f"{path}.name: '{tool.name}' is the name of tools[{first}] already"
            )
        tools[tool.name] = tool
    return tuple(tools.values())


def _tool(value: Json, path: str) -> Tool:
    """The tool of a JSON value, in any of the formats."""
    _check_object(value, path, "a tool")
    # An object around the function, or the function itself.
    around: dict[str, Json] = {}
    is_wrapped = "function" in value
    if value.get("type", "function") != "function":
        raise FormatError(
            f"{path}.type: expected 'function', found {shown(value['type'])}"
        )
    if is_wrapped:
        around = {
            key: item for key, item in value.items() if key not in ("type", "function")
        }
        path, value = f"{path}.function", value["function"]
        _check_object(value, path, "a function")
    other = dict(value)
    # Its name and its description.
    if "name" not in value:
        found = ", ".join(map(repr, value)) or "no key"
        raise FormatError(f"{path}: expected 'name', found {found}")
    name = _string(other.pop("name"), f"{path}.name")
    if not name or re.search(r"[\s\"'(){}\[\],;]", name):
        raise FormatError(
            f"{path}.name: expected a name without blanks, quotes and brackets, "
            f"found {shown(name)}"
        )
    description = None
    if "description" in other:
        description = _string(other.pop("description"), f"{path}.description")
    # The schema of its parameters.
    keys = [key for key in PARAMETER_KEYS if key in value]
    if len(keys) > 1:
        raise FormatError(f"{path}: expected '{keys[0]}' or '{keys[1]}', found both")
    for key in other:
        if key not in PARAMETER_KEYS:
            _check_slip(key, (*PARAMETER_KEYS, "name", "description"), path)
    schema = None
    if keys:
        where = f"{path}.{keys[0]}"
        schema = _schema(other.pop(keys[0]), where)
        _check_references(schema, schema, where)
        if _root(schema).type not in ("object", None):
            found = shown(_to_json(schema.type))
            raise FormatError(f"{where}.type: expected 'object', found {found}")
    parameters_key = keys[0] if keys else PARAMETER_KEYS[0]
    return Tool(name, description, schema, parameters_key, is_wrapped, other, around)


def _root(schema: JsonSchema) -> JsonSchema:
    return schema if schema.ref is None else referenced(schema.ref, schema)


def _schema(value: Json, path: str) -> JsonSchema:
    """The schema of a JSON value; its references are checked later."""
    _check_object(value, path, "a JSON Schema")
    known: dict[str, Any] = {}
    other: dict[str, Json] = {}
    for key, item in value.items():
        if key in _ATTRIBUTES:
            attribute = _ATTRIBUTES[key]
            known[attribute] = _READERS[attribute](item, _joined(path, key))
        else:
            if key not in ANNOTATIONS:
                _check_slip(key, _ATTRIBUTES, path)
            other[key] = item
    schema = JsonSchema(**known, other=other)
    for keyword, reason in _contradictions(schema):
        raise FormatError(f"{_joined(path, keyword)}: {reason}")
    return schema


def _contradictions(schema: JsonSchema) -> Iterator[tuple[str, str]]:
    """Keywords that do not go with the others, with the reason."""
    bounds = (
        ("minimum", schema.minimum, "maximum", schema.maximum),
        ("minLength", schema.min_length, "maxLength", schema.max_length),
        ("minItems", schema.min_items, "maxItems", schema.max_items),
    )
    for least_name, least, most_name, most in bounds:
        if least is not None and most is not None and least > most:
            yield most_name, f"expected at least {least} ('{least_name}'), found {most}"
    types = schema.types
    if schema.required and schema.properties is not None:
        for number, name in enumerate(schema.required):
            is_closed = schema.additional_properties is False or schema.properties
            if name not in schema.properties and is_closed:
                found = f"no property '{name}'{near_miss(name, schema.properties)}"
                yield f"required[{number}]", found
    if types:
        for number, item in enumerate(schema.enum or ()):
            if not any(is_of_type(item, name) for name in types) and not (
                schema.nullable and item is None
            ):
                expected = " or ".join(types)
                yield f"enum[{number}]", f"expected {expected}, found {shown(item)}"
        for keyword in ("const", "default"):
            item = getattr(schema, keyword)
            # A default of null says that there is none.
            if item is ABSENT or item is None:
                continue
            if not any(is_of_type(item, name) for name in types):
                yield keyword, f"expected {' or '.join(types)}, found {shown(item)}"
    if schema.enum and schema.default not in (ABSENT, None, *schema.enum):
        yield "default", f"expected a value of 'enum', found {shown(schema.default)}"


def is_of_type(value: Json, name: str) -> bool:
    """Whether a JSON value has a type of JSON Schema.

    >>> is_of_type(2, "number"), is_of_type(2.0, "integer"), is_of_type(True, "integer")
    (True, True, False)
    """
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    match name:
        case "string":
            return isinstance(value, str)
        case "number":
            return is_number
        case "integer":
            return is_number and value == value // 1
        case "boolean":
            return isinstance(value, bool)
        case "array":
            return isinstance(value, list | tuple)
        case "object":
            return isinstance(value, Mapping)
        case _:
            return value is None


# Readers of keywords: each takes a value and its path, and refuses what is malformed.


def _check_object(value: Json, path: str, what: str) -> None:
    if not isinstance(value, Mapping):
        raise FormatError(
            f"{path}: expected {what} (a JSON object), found {shown(value)}"
        )
    for key in value:
        if not isinstance(key, str):
            raise FormatError(f"{path}: expected strings as keys, found {key!r:.80}")


def _string(value: Json, path: str) -> str:
    if not isinstance(value, str):
        raise FormatError(f"{path}: expected a string, found {shown(value)}")
    return value


def _boolean(value: Json, path: str) -> bool:
    if not isinstance(value, bool):
        raise FormatError(f"{path}: expected true or false, found {shown(value)}")
    return value


def _number(value: Json, path: str) -> float:
    if not is_of_type(value, "number") or not isfinite(value):
        raise FormatError(f"{path}: expected a number, found {shown(value)}")
    number: float = value
    return number


def _count(value: Json, path: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise FormatError(f"{path}: expected a count, 0 or more, found {shown(value)}")
    return value


def _positive(value: Json, path: str) -> float:
    number = _number(value, path)
    if number <= 0:
        raise FormatError(f"{path}: expected more than 0, found {shown(value)}")
    return number


def _exclusive(value: Json, path: str) -> float | bool:
    # JSON Schema 4 had a truth value beside the bound.
    return value if isinstance(value, bool) else _number(value, path)


def _anything(value: Json, path: str) -> Json:
    return value


def _array(value: Json, path: str, what: str) -> Sequence[Json]:
    if not isinstance(value, list | tuple) or not value:
        raise FormatError(f"{path}: expected a list of {what}, found {shown(value)}")
    return value


def _type(value: Json, path: str) -> str | tuple[str, ...]:
    if isinstance(value, str):
        if value not in JSON_TYPES:
            raise FormatError(
                f"{path}: expected a JSON Schema type, found '{value}'"
                f"{near_miss(value, JSON_TYPES)}"
            )
        return value
    names = []
    for number, name in enumerate(_array(value, path, "JSON Schema types")):
        where = f"{path}[{number}]"
        names.append(str(_type(_string(name, where), where)))
    return tuple(names)


def _enum(value: Json, path: str) -> tuple[Json, ...]:
    values = _array(value, path, "values")
    for number, item in enumerate(values):
        if item in values[:number] and type(item) in map(type, values[:number]):
            raise FormatError(f"{path}[{number}]: {shown(item)} stands there twice")
    return tuple(values)


def _pattern(value: Json, path: str) -> str:
    expression = _string(value, path)
    try:
        re.compile(expression)
    except (re.error, RecursionError, OverflowError) as error:
        raise FormatError(
            f"{path}: {expression!r:.80} is not a regular expression: {error}"
        ) from None
    return expression


def _required(value: Json, path: str) -> tuple[str, ...]:
    if not isinstance(value, list | tuple):
        raise FormatError(f"{path}: expected a list of names, found {shown(value)}")
    names: list[str] = []
    for number, name in enumerate(value):
        where = f"{path}[{number}]"
        if _string(name, where) in names:
            raise FormatError(f"{where}: '{name}' stands there twice")
        names.append(name)
    return tuple(names)


def _schemas(value: Json, path: str) -> tuple[JsonSchema, ...]:
    items = enumerate(_array(value, path, "schemas"))
    return tuple(_schema(item, f"{path}[{number}]") for number, item in items)


def _named_schemas(value: Json, path: str) -> dict[str, JsonSchema]:
    _check_object(value, path, "schemas by name")
    return {name: _schema(item, _joined(path, name)) for name, item in value.items()}


def _additional(value: Json, path: str) -> bool | JsonSchema:
    return value if isinstance(value, bool) else _schema(value, path)


def _reference(value: Json, path: str) -> str:
    reference = _string(value, path)
    if reference != "#" and not re.fullmatch(r"#/(\$defs|definitions)/.+", reference):
        raise FormatError(
            f"{path}: expected '#/$defs/NAME', found '{reference}'; other documents are "
            "not read"
        )
    return reference


_READERS: Mapping[str, Callable[[Json, str], Any]] = {
    "type": _type,
    "description": _string,
    "enum": _enum,
    "const": _anything,
    "default": _anything,
    "nullable": _boolean,
    "minimum": _number,
    "maximum": _number,
    "exclusive_minimum": _exclusive,
    "exclusive_maximum": _exclusive,
    "multiple_of": _positive,
    "format": _string,
    "pattern": _pattern,
    "min_length": _count,
    "max_length": _count,
    "items": _schema,
    "min_items": _count,
    "max_items": _count,
    "unique_items": _boolean,
    "properties": _named_schemas,
    "required": _required,
    "additional_properties": _additional,
    "any_of": _schemas,
    "one_of": _schemas,
    "all_of": _schemas,
    "ref": _reference,
    "defs": _named_schemas,
    "definitions": _named_schemas,
}


def _check_references(schema: JsonSchema, root: JsonSchema, path: str) -> None:
    """Refuse references to nothing, and those that lead round in a circle."""
    for where, inner in _inner_schemas(schema, path):
        seen: list[str] = []
        current = inner
        while current.ref is not None:
            reference = current.ref
            if reference in seen:
                raise FormatError(f"{where}.$ref: '{reference}' leads back to itself")
            seen.append(reference)
            known = []
            for key, definitions in zip(
                DEFINITION_KEYS, (root.defs, root.definitions), strict=True
            ):
                known += [f"#/{key}/{name}" for name in definitions or ()]
            try:
                current = referenced(reference, root)
            except KeyError:
                near = near_miss(reference, known)
                raise FormatError(
                    f"{where}.$ref: no definition '{reference}'{near}"
                ) from None


def _inner_schemas(schema: JsonSchema, path: str) -> Iterator[tuple[str, JsonSchema]]:
    """A schema and all schemas inside of it, with their paths."""
    yield path, schema
    for attribute, keyword in _KEYWORDS.items():
        value = getattr(schema, attribute)
        where = _joined(path, keyword)
        if isinstance(value, JsonSchema):
            yield from _inner_schemas(value, where)
        elif isinstance(value, Mapping):
            for name, item in value.items():
                if isinstance(item, JsonSchema):
                    yield from _inner_schemas(item, _joined(where, name))
        elif isinstance(value, tuple):
            for number, item in enumerate(value):
                if isinstance(item, JsonSchema):
                    yield from _inner_schemas(item, f"{where}[{number}]")


def _check_slip(key: str, known: Sequence[str] | Mapping[str, Any], path: str) -> None:
    near = difflib.get_close_matches(key, list(known), n=1, cutoff=SLIP)
    if near:
        raise FormatError(
            f"{_joined(path, key)}: no such keyword; did you mean '{near[0]}'?"
        )


def near_miss(name: str, known: Iterable[str]) -> str:
    """The end of an error that names something unknown.

    >>> near_miss("ciy", ["city", "unit"]), near_miss("x", ["city", "unit"])
    ("; did you mean 'city'?", '; known: city, unit')
    """
    known = list(known)
    near = difflib.get_close_matches(name, known, n=1)
    if near:
        return f"; did you mean '{near[0]}'?"
    if known:
        return f"; known: {', '.join(known)}"
    return ""


def _joined(path: str, key: str) -> str:
    return f"{path}.{key}"


def shown(value: Json) -> str:
    """A value as an error shows it: short, and as JSON writes it."""
    if isinstance(value, str):
        return f"{value!r:.80}"
    try:
        written = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError):
        written = repr(value)
    return written if len(written) <= 80 else f"{written[:77]}..."
