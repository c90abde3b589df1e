"""Whether calls fit the tools: function, argument names, required ones, types, values, bounds.

A `format` is not checked: programs write a time or a date as training shows it. Where no tools are
given, training programs show which arguments are required.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

import regex

from nqg.calls import Call, Value, all_calls, calls_or_none, read_calls
from nqg.errors import FormatError, UnknownName
from nqg.files import read_json, write_text
from nqg.text.brackets import QUOTATION_MARKS
from nqg.types.tools import (
    ABSENT,
    Json,
    JsonSchema,
    Parameter,
    Tool,
    is_of_type,
    near_miss,
    shown,
)

# Seconds that a pattern may take on a value.
PATTERN_TIMEOUT = 0.05
# An argument that so many calls of a function have, and none lacks, is required.
# docs/types-measured.md has the curve.
ENOUGH_CALLS = 12
REQUIRED_FILE = "required.json"  # in a model folder

# The arguments that each function needs.
RequiredArguments: TypeAlias = Mapping[str, tuple[str, ...]]


def required_arguments(programs: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """The arguments that a function has in all of its calls, if there are enough of them.

    Equal programs count once. Programs that are not calls show nothing.

    >>> dims = [f"dim(room={room}, percent={20 * room})" for room in range(12)]
    >>> required_arguments([*dims, "dim(percent=35)", "off(room=3)"])
    {'dim': ('percent',)}
    """
    calls, having = Counter[str](), Counter[tuple[str, str]]()
    for program in dict.fromkeys(programs):
        for call in all_calls(list(calls_or_none(program) or ())):
            calls[call.name] += 1
            having.update((call.name, argument) for argument in call.arguments)
    required: dict[str, tuple[str, ...]] = {}
    for (name, argument), count in having.items():
        if count == calls[name] >= ENOUGH_CALLS:
            required[name] = (*required.get(name, ()), argument)
    return required


def missing_argument(program: str, required: RequiredArguments) -> str:
    """Which required argument a call in a program lacks; "" if none.

    >>> missing_argument("dim(room=attic)", {"dim": ("percent",)})
    "dim: argument 'percent' is missing, which all calls in training have"
    """
    # Programs that need no calls need not load the reader.
    for call in all_calls(list(calls_or_none(program) or ())):
        for argument in required.get(call.name, ()):
            if argument not in call.arguments:
                return (
                    f"{call.name}: argument '{argument}' is missing, "
                    "which all calls in training have"
                )
    return ""


def write_required(path: Path, required: RequiredArguments) -> None:
    """Write required arguments as `read_required` reads them."""
    write_text(path, json.dumps(dict(required), ensure_ascii=False) + "\n")


def read_required(path: Path) -> dict[str, tuple[str, ...]]:
    """The required arguments that `write_required` wrote; anything else is refused."""
    stored = read_json(path)
    if not isinstance(stored, dict):
        found = shown(stored)
        raise FormatError(f"expected an object of functions, found {found}", path)
    for name, arguments in stored.items():
        are_names = isinstance(arguments, list) and all(
            isinstance(argument, str) for argument in arguments
        )
        if not are_names:
            found = shown(arguments)
            raise FormatError(
                f"{name}: expected a list of the arguments that it needs, found {found}",
                path,
            )
    return {name: tuple(arguments) for name, arguments in stored.items()}


def program_misfit(program: str, tools: Sequence[Tool]) -> str:
    """Why a program is not a sequence of calls of these tools; "" if it is.

    >>> from nqg.types.tools import read_tools
    >>> tools = read_tools([{"name": "dim", "parameters": {"properties": {
    ...     "percent": {"type": "integer", "maximum": 100}}}}])
    >>> program_misfit("dim(percent=120)", tools)
    "dim: argument 'percent': expected at most 100, found 120"
    >>> program_misfit("dim(percent=20)", tools)
    ''
    """
    # Programs that need no calls need not load the reader.
    try:
        calls = read_calls(program)
    except FormatError as error:
        return error.reason
    by_name = {tool.name: tool for tool in tools}
    # Without quotation marks a number may be meant as a string.
    is_quoted = any(mark in program for mark in QUOTATION_MARKS)
    for call in calls:
        reason = call_misfit(call, by_name, is_quoted=is_quoted)
        if reason:
            return reason
    return ""


def call_misfit(call: Call, tools: Mapping[str, Tool], *, is_quoted: bool) -> str:
    """Why a call does not fit its tool; "" if it does.

    Arguments without a keyword are those of the first parameters.
    """
    if call.name not in tools:
        return str(UnknownName("tool", call.name, tools))
    tool = tools[call.name]
    parameters = {parameter.name: parameter for parameter in tool.parameters}
    names = list(parameters)
    if len(call.positional) > len(names):
        expected = f"expected at most {len(names)}"
        return f"{tool.name}: {expected} arguments, found {len(call.positional)}"
    arguments = dict(zip(names, call.positional))
    for name, value in call.arguments.items():
        if name in arguments:
            return f"{tool.name}: argument '{name}' is there twice"
        arguments[name] = value
    check = _Check(tool, tools, is_quoted)
    for name, value in arguments.items():
        if name in parameters:
            reason = check.parameter(parameters[name], value)
            if reason:
                return f"{tool.name}: argument '{name}'{reason}"
        elif not tool.is_open:
            return f"{tool.name}: no argument '{name}'{near_miss(name, names)}"
    for parameter in tool.parameters:
        if parameter.is_required and parameter.name not in arguments:
            return f"{tool.name}: argument '{parameter.name}' is required, and missing"
    return ""


class _Check:
    """Values against the schemas of a tool; reasons begin with the place inside of the value."""

    def __init__(self, tool: Tool, tools: Mapping[str, Tool], is_quoted: bool) -> None:
        self.tool = tool
        self.tools = tools
        self.is_quoted = is_quoted

    def parameter(self, parameter: Parameter, value: Value) -> str:
        if value is None and parameter.is_nullable:
            return ""
        return self.misfit(parameter.schema, value)

    def misfit(self, schema: JsonSchema, value: Value) -> str:
        """Why a value does not fit a schema; "" if it does."""
        # Here, too, the reader of calls is loaded late.
        schema = self.tool.resolved(schema)
        if isinstance(value, Call):
            if schema.types and "object" not in schema.types:
                return f": expected {' or '.join(schema.types)}, found a call"
            reason = call_misfit(value, self.tools, is_quoted=self.is_quoted)
            return reason and f": {reason}"
        if value is None and schema.nullable:
            return ""
        value = self._as_meant(schema, value)
        # The value as a whole.
        types = schema.types
        if types and not any(is_of_type(value, name) for name in types):
            return f": expected {' or '.join(types)}, found {shown(value)}"
        allowed = schema.enum
        if schema.const is not ABSENT:
            allowed = (schema.const,)
        if allowed is not None and not _is_among(value, allowed):
            values = ", ".join(map(shown, allowed))
            near = ""
            if isinstance(value, str):
                near = near_miss(
                    value, [item for item in allowed if isinstance(item, str)]
                )
            return f": expected one of {values}, found {shown(value)}{near}"
        # What is inside of it.
        if isinstance(value, bool) or value is None:
            reason = ""
        elif isinstance(value, int | float):
            reason = _number_misfit(schema, value)
        elif isinstance(value, str):
            reason = _string_misfit(schema, value)
        elif isinstance(value, list):
            reason = self.array_misfit(schema, value)
        else:
            assert isinstance(value, dict), "a call was checked above"
            reason = self.object_misfit(schema, value)
        return reason or self.combination_misfit(schema, value)

    def _as_meant(self, schema: JsonSchema, value: Value) -> Value:
        """A number as a string, where programs have no quotes and a string is expected."""
        is_text = schema.types == ("string",) and not isinstance(value, str)
        if is_text and not self.is_quoted and isinstance(value, int | float):
            return str(value)
        return value

    def array_misfit(self, schema: JsonSchema, value: list[Value]) -> str:
        reason = _outside(len(value), schema.min_items, schema.max_items, " values")
        if reason:
            return reason
        for number, item in enumerate(value):
            if schema.unique_items and item in value[:number]:
                return f"[{number}]: {shown(item)} is there twice"
            if schema.items:
                reason = self.misfit(schema.items, item)
                if reason:
                    return f"[{number}]{reason}"
        return ""

    def object_misfit(self, schema: JsonSchema, value: Mapping[str, Value]) -> str:
        properties = schema.properties or {}
        for name in schema.required or ():
            if name not in value:
                return f".{name}: is required, and missing"
        for name, item in value.items():
            inner = properties.get(name)
            if inner is None and isinstance(schema.additional_properties, JsonSchema):
                inner = schema.additional_properties
            if inner is not None:
                reason = self.misfit(inner, item)
                if reason:
                    return f".{name}{reason}"
            elif schema.additional_properties is False or (
                properties and schema.additional_properties is None
            ):
                return f".{name}: no such property{near_miss(name, properties)}"
        return ""

    def combination_misfit(self, schema: JsonSchema, value: Value) -> str:
        for part in schema.all_of or ():
            reason = self.misfit(part, value)
            if reason:
                return reason
        if schema.alternatives:
            reasons = [self.misfit(part, value) for part in schema.alternatives]
            if all(reasons):
                return f": fits no alternative; the first says{reasons[0]}"
        return ""


def _is_among(value: Json, allowed: Iterable[Json]) -> bool:
    # True and 1 are equal in Python, and not in JSON.
    return any(
        value == item and isinstance(value, bool) == isinstance(item, bool)
        for item in allowed
    )


def _outside(
    figure: float, least: float | None, most: float | None, unit: str = ""
) -> str:
    """Why a figure is outside of its bounds; "" if it is not."""
    if least is not None and figure < least:
        return f": expected at least {least}{unit}, found {figure}"
    if most is not None and figure > most:
        return f": expected at most {most}{unit}, found {figure}"
    return ""


def _number_misfit(schema: JsonSchema, value: float) -> str:
    least, most = schema.minimum, schema.maximum
    above, below = schema.exclusive_minimum, schema.exclusive_maximum
    # JSON Schema 4: a truth value makes the bound itself exclusive.
    if above is True:
        above, least = least, None
    if below is True:
        below, most = most, None
    reason = _outside(value, least, most)
    if reason:
        return reason
    if above is not None and above is not False and value <= above:
        return f": expected more than {above}, found {value}"
    if below is not None and below is not False and value >= below:
        return f": expected less than {below}, found {value}"
    step = schema.multiple_of
    if step is not None and abs(value / step - round(value / step)) > 1e-9:
        return f": expected a multiple of {step}, found {value}"
    return ""


def _string_misfit(schema: JsonSchema, value: str) -> str:
    least, most = schema.min_length, schema.max_length
    reason = _outside(len(value), least, most, " characters")
    if reason:
        return reason
    if schema.pattern is not None:
        try:
            match = regex.search(schema.pattern, value, timeout=PATTERN_TIMEOUT)
        except TimeoutError:
            return f": '{schema.pattern}' takes too long on {shown(value)}"
        if match is None:
            return f": expected a string like '{schema.pattern}', found {shown(value)}"
    return ""
