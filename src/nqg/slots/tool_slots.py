"""Slots that tools offer: an enum of strings is a gazetteer, a number or a format a built-in kind.

Whether sentences mention the values is for the training pairs to show (`fit_slots`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from nqg.slots.slot import BUILT_IN, Gazetteer, Kind, Slot, Tokenize, is_slot_name
from nqg.types.tools import JsonSchema, Tool

# The kinds of values that formats and types of JSON Schema name.
FORMAT_KINDS: dict[str, Kind] = {"date": "date", "time": "time", "duration": "duration"}
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def tool_slots(tools: Iterable[Tool], tokenize: Tokenize = str.split) -> list[Slot]:
    """The slots that the parameters of tools may have, gazetteers first.

    Enums with the same values are one slot, called like the first parameter.

    >>> from nqg.types.tools import read_tools
    >>> room = {"type": "string", "enum": ["kitchen", "living_room"]}
    >>> tools = read_tools([{"name": "dim", "parameters": {"properties": {
    ...     "room": room, "percent": {"type": "integer"}}}}])
    >>> [(slot.name, slot.kind) for slot in tool_slots(tools)]
    [('room', 'gazetteer'), ('number', 'number')]
    """
    by_values: dict[tuple[str, ...], Slot] = {}
    names: set[str] = set()
    kinds: set[Kind] = set()
    for tool in tools:
        for parameter in tool.parameters:
            for schema in _schemas(tool, parameter.schema):
                kinds.update(_kinds(schema))
                values = string_enum(schema)
                if len(values) < 2 or values in by_values:
                    continue
                # Parameters of one name may have different values in different tools.
                name = re.sub(r"\W", "-", parameter.name)
                if name in names:
                    name = f"{re.sub(r'[^0-9A-Za-z]', '-', tool.name)}-{name}"
                if name not in names and is_slot_name(name) and name not in BUILT_IN:
                    names.add(name)
                    gazetteer = Gazetteer.of(spoken_names(values), tokenize)
                    by_values[values] = Slot(name, "gazetteer", names=gazetteer)
    built_in = [Slot(kind, kind) for kind in BUILT_IN if kind in kinds]
    return [*by_values.values(), *built_in]


def string_enum(schema: JsonSchema) -> tuple[str, ...]:
    """The values of an enum of strings."""
    return tuple(item for item in schema.enum or () if isinstance(item, str))


def spoken_names(values: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Values as programs have them, each with the names by which sentences may call it.

    >>> list(spoken_names(["livingRoom", "rock_n_roll"]))[1::2]
    [('living Room', 'livingRoom'), ('rock n roll', 'rock_n_roll')]
    """
    for value in values:
        yield value, value
        words = _HUMP.sub(" ", value).replace("_", " ").replace("-", " ").strip()
        if words and words != value:
            yield words, value


def _schemas(tool: Tool, schema: JsonSchema, depth: int = 4) -> Iterator[JsonSchema]:
    """A schema and those inside of it; the depth ends those that hold themselves."""
    schema = tool.resolved(schema)
    yield schema
    inner = [*schema.alternatives, *(schema.properties or {}).values()]
    if schema.items:
        inner.append(schema.items)
    if depth:
        for part in inner:
            yield from _schemas(tool, part, depth - 1)


def _kinds(schema: JsonSchema) -> Iterator[Kind]:
    if schema.enum is not None:
        return
    if "integer" in schema.types or "number" in schema.types:
        yield "number"
    if schema.format in FORMAT_KINDS:
        yield FORMAT_KINDS[schema.format]
