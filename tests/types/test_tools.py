"""Schemas of tools: read without loss, or refused with a path and a reason."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nqg.errors import FormatError
from nqg.types.tools import Tool, read_tools, write_tools
from tool_schemas import CALENDAR, HOME, SCHEMAS, TICKETS, WEATHER


def name_of(schema: dict[str, Any]) -> str:
    return str(schema.get("function", schema)["name"])


@pytest.mark.parametrize("schema", SCHEMAS, ids=name_of)
def test_a_schema_is_read_and_written_without_loss(schema: dict[str, Any]) -> None:
    (tool,) = read_tools([schema])
    assert tool.to_json() == schema
    assert read_tools([tool.to_json()]) == (tool,)


def test_all_formats_stand_in_one_file(tmp_path: Path) -> None:
    path = tmp_path / "tools.json"
    path.write_text(json.dumps({"tools": SCHEMAS}))
    tools = read_tools(path)
    write_tools(tmp_path / "again.json", tools)
    assert read_tools(tmp_path / "again.json") == tools
    assert [tool.name for tool in tools] == [name_of(schema) for schema in SCHEMAS]


def test_parameters_have_their_order_and_are_required_or_not() -> None:
    (tool,) = read_tools([WEATHER])
    parameters = {each.name: each.is_required for each in tool.parameters}
    assert parameters == {
        "location": True,
        "unit": False,
        "days": False,
        "hourly": False,
    }


def test_references_are_resolved_and_null_is_told_apart() -> None:
    (tool,) = read_tools([CALENDAR])
    parameters = {each.name: each for each in tool.parameters}
    assert parameters["start"].schema.properties is not None
    assert parameters["end"].schema == parameters["start"].schema
    assert parameters["end"].is_nullable
    assert not parameters["start"].is_nullable
    (tool,) = read_tools([TICKETS])
    assert tool.parameters[3].schema.pattern == "^[A-Z]+-[0-9]+$"


def of(parameters: Any) -> list[Any]:
    return [{"name": "f", "parameters": parameters}]


def with_property(schema: Any) -> list[Any]:
    return of({"type": "object", "properties": {"x": schema}})


X = "tools[0].parameters.properties.x"
MALFORMED: list[tuple[Any, str]] = [
    ("text", "expected a list of tools, or an object with the list as 'tools'"),
    ({"functions": []}, "expected a list of tools, or an object with the list as"),
    ([], "tools: expected at least one tool, found an empty list"),
    (["f"], "tools[0]: expected a tool (a JSON object), found 'f'"),
    ([{"parameters": {}}], "tools[0]: expected 'name', found 'parameters'"),
    ([{"name": 3}], "tools[0].name: expected a string, found 3"),
    ([{"name": "a b"}], "tools[0].name: expected a name without blanks"),
    ([{"name": ""}], "tools[0].name: expected a name without blanks"),
    (
        [HOME, {"name": "light_turn_on"}],
        "tools[1].name: 'light_turn_on' is the name of",
    ),
    ([{"type": "retrieval"}], "tools[0].type: expected 'function', found 'retrieval'"),
    (
        [{"type": "function", "function": "f"}],
        "tools[0].function: expected a function (a JSON object), found 'f'",
    ),
    (
        [{"name": "f", "description": None}],
        "tools[0].description: expected a string, found null",
    ),
    (
        [{"name": "f", "parameters": {}, "inputSchema": {}}],
        "tools[0]: expected 'parameters' or 'inputSchema', found both",
    ),
    (
        [{"name": "f", "paramters": {}}],
        "tools[0].paramters: no such keyword; did you mean 'parameters'?",
    ),
    (of([]), "tools[0].parameters: expected a JSON Schema (a JSON object), found []"),
    (
        of({"type": "string"}),
        "tools[0].parameters.type: expected 'object', found 'string'",
    ),
    (
        of({"properties": ["x"]}),
        "tools[0].parameters.properties: expected schemas by name (a JSON object)",
    ),
    (
        of({"properties": {"city": {}}, "required": ["cty"]}),
        "tools[0].parameters.required[0]: no property 'cty'; did you mean 'city'?",
    ),
    (
        of({"properties": {"x": {}}, "required": "x"}),
        "tools[0].parameters.required: expected a list of names, found 'x'",
    ),
    (
        of({"properties": {"x": {}}, "required": ["x", "x"]}),
        "tools[0].parameters.required[1]: 'x' stands there twice",
    ),
    (
        with_property({"type": "strng"}),
        f"{X}.type: expected a JSON Schema type, found 'strng'; did you mean 'string'?",
    ),
    (
        with_property({"type": ["string", "nul"]}),
        f"{X}.type[1]: expected a JSON Schema type, found 'nul'; did you mean 'null'?",
    ),
    (with_property({"type": []}), f"{X}.type: expected a list of JSON Schema types"),
    (with_property("string"), f"{X}: expected a JSON Schema (a JSON object), found"),
    (with_property({"enum": []}), f"{X}.enum: expected a list of values, found []"),
    (with_property({"enum": "on"}), f"{X}.enum: expected a list of values, found 'on'"),
    (
        with_property({"enum": ["a", "b", "a"]}),
        f"{X}.enum[2]: 'a' stands there twice",
    ),
    (
        with_property({"type": "string", "enum": ["a", 1]}),
        f"{X}.enum[1]: expected string, found 1",
    ),
    (
        with_property({"type": "integer", "default": "many"}),
        f"{X}.default: expected integer, found 'many'",
    ),
    (
        with_property({"enum": ["a", "b"], "default": "c"}),
        f"{X}.default: expected a value of 'enum', found 'c'",
    ),
    (
        with_property({"type": "number", "minimum": "0"}),
        f"{X}.minimum: expected a number, found '0'",
    ),
    (
        with_property({"type": "number", "minimum": 5, "maximum": 1}),
        f"{X}.maximum: expected at least 5 ('minimum'), found 1",
    ),
    (
        with_property({"type": "string", "minLength": -1}),
        f"{X}.minLength: expected a count, 0 or more, found -1",
    ),
    (
        with_property({"type": "number", "multipleOf": 0}),
        f"{X}.multipleOf: expected more than 0, found 0",
    ),
    (
        with_property({"type": "string", "pattern": "[a-"}),
        f"{X}.pattern: '[a-' is not a regular expression",
    ),
    (
        with_property({"type": "string", "format": 1}),
        f"{X}.format: expected a string, found 1",
    ),
    (
        with_property({"type": "array", "items": [{"type": "string"}]}),
        f"{X}.items: expected a JSON Schema (a JSON object), found",
    ),
    (
        with_property({"type": "array", "items": {"type": "txt"}}),
        f"{X}.items.type: expected a JSON Schema type, found 'txt'",
    ),
    (
        with_property({"anyOf": [{"type": "string"}, "null"]}),
        f"{X}.anyOf[1]: expected a JSON Schema (a JSON object), found 'null'",
    ),
    (
        with_property({"$ref": "#/$defs/missing"}),
        f"{X}.$ref: no definition '#/$defs/missing'",
    ),
    (
        with_property({"$ref": "https://example.org/city.json"}),
        f"{X}.$ref: expected '#/$defs/NAME', found 'https://example.org/city.json'",
    ),
    (
        of(
            {
                "properties": {"x": {"$ref": "#/$defs/a"}},
                "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}},
            }
        ),
        f"{X}.$ref: '#/$defs/a' leads back to itself",
    ),
    (
        with_property({"type": "string", "nullable": "yes"}),
        f"{X}.nullable: expected true or false, found 'yes'",
    ),
    (
        with_property({"typ": "string"}),
        f"{X}.typ: no such keyword; did you mean 'type'?",
    ),
    (
        with_property({"type": "object", "additionalProperties": "no"}),
        f"{X}.additionalProperties: expected a JSON Schema (a JSON object), found 'no'",
    ),
]


@pytest.mark.parametrize(
    ("value", "message"), MALFORMED, ids=[message for _, message in MALFORMED]
)
def test_a_malformed_schema_is_refused_with_its_path_and_the_reason(
    value: Any, message: str
) -> None:
    with pytest.raises(FormatError) as error:
        read_tools(value if not isinstance(value, str) else {"tools": value})
    assert message in str(error.value)


def test_the_error_of_a_file_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "tools.json"
    path.write_text(json.dumps(with_property({"type": "strng"})))
    with pytest.raises(FormatError, match=r"tools\.json: tools\[0\]\.parameters"):
        read_tools(path)
    path.write_text("[{]")
    with pytest.raises(FormatError, match=r"tools\.json:1: not valid JSON"):
        read_tools(path)


names = st.from_regex(r"[a-z_]{1,8}", fullmatch=True)
values = st.none() | st.booleans() | st.integers() | st.text(max_size=5)


def objects(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    properties = st.dictionaries(names, inner, max_size=3)
    return st.fixed_dictionaries(
        {"type": st.just("object"), "properties": properties},
        optional={"additionalProperties": st.booleans() | inner},
    )


leaves = st.one_of(
    st.fixed_dictionaries(
        {"type": st.sampled_from(["number", "integer"])},
        optional={"minimum": st.integers(-9, 0), "maximum": st.integers(0, 9)},
    ),
    st.fixed_dictionaries(
        {"type": st.just("string")},
        optional={"format": names, "description": st.text(), "x-unit": values},
    ),
    st.fixed_dictionaries({"enum": st.lists(st.text(), min_size=1, unique=True)}),
    st.fixed_dictionaries({"const": values}, optional={"default": values}),
    st.just({"type": ["boolean", "null"]}),
)
schemas = st.recursive(
    leaves,
    lambda inner: (
        objects(inner)
        | st.fixed_dictionaries({"type": st.just("array"), "items": inner})
        | st.fixed_dictionaries({"anyOf": st.lists(inner, min_size=1, max_size=3)})
    ),
    max_leaves=8,
)


@given(
    name=names,
    schema=objects(schemas),
    key=st.sampled_from(["parameters", "inputSchema", "input_schema"]),
    is_wrapped=st.booleans(),
)
def test_every_schema_survives_a_round_trip(
    name: str, schema: dict[str, Any], key: str, is_wrapped: bool
) -> None:
    written: dict[str, Any] = {"name": name, key: schema}
    if is_wrapped:
        written = {"type": "function", "function": written}
    (tool,) = read_tools([written])
    assert isinstance(tool, Tool)
    assert json.loads(json.dumps(tool.to_json())) == written
    assert read_tools([tool.to_json()]) == (tool,)


def test_reading_and_checking_tools_loads_nothing_heavy() -> None:
    modules = "nqg.types.tools, nqg.types.python_tools, nqg.types.tool_calls, nqg.calls"
    heavy = "{'numpy', 'numba', 'torch', 'transformers'}"
    program = f"import {modules}, sys; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
