"""Annotated functions as tools."""

from __future__ import annotations

import datetime
import math
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal, NotRequired, TypedDict

import pytest

from nqg.errors import FormatError, NqgError
from nqg.types.python_tools import function_tool, load_tools
from nqg.types.tools import Tool


class Unit(Enum):
    CELSIUS = "celsius"
    FAHRENHEIT = "fahrenheit"


@dataclass
class Place:
    city: str
    country: str = "de"


class Window(TypedDict):
    start: datetime.time
    end: NotRequired[datetime.time]


def forecast(
    place: Place,
    day: datetime.date,
    hours: list[int],
    window: Window,
    unit: Unit = Unit.CELSIUS,
    mode: Literal["short", "long"] = "short",
    wind: float | None = None,
    sunrise: bool = False,
    note: Annotated[str, "What to add"] = "",
    labels: dict[str, str] = {},  # noqa: B006
) -> None:
    """The weather at a place.

    More of it.
    """


def test_a_function_becomes_a_schema() -> None:
    tool = function_tool(forecast)
    assert tool.name == "forecast"
    assert tool.description == "The weather at a place."
    assert tool.schema is not None
    assert tool.schema.to_json() == {
        "type": "object",
        "properties": {
            "place": {
                "type": "object",
                "properties": {
                    "city": {"type": "string"},
                    "country": {"type": "string", "default": "de"},
                },
                "required": ["city"],
            },
            "day": {"type": "string", "format": "date"},
            "hours": {"type": "array", "items": {"type": "integer"}},
            "window": {
                "type": "object",
                "properties": {
                    "start": {"type": "string", "format": "time"},
                    "end": {"type": "string", "format": "time"},
                },
                "required": ["start"],
            },
            "unit": {
                "type": "string",
                "enum": ["celsius", "fahrenheit"],
                "default": "celsius",
            },
            "mode": {"type": "string", "enum": ["short", "long"], "default": "short"},
            "wind": {"anyOf": [{"type": "number"}, {"type": "null"}]},
            "sunrise": {"type": "boolean", "default": False},
            "note": {"type": "string", "description": "What to add", "default": ""},
            "labels": {
                "type": "object",
                "additionalProperties": {"type": "string"},
                "default": {},
            },
        },
        "required": ["place", "day", "hours", "window"],
    }


def without_annotation(city) -> None:  # type: ignore[no-untyped-def]
    pass


def with_others(*cities: str) -> None:
    pass


def of_a_strange_type(city: re_pattern) -> None:  # type: ignore[name-defined]  # noqa: F821
    pass


def of_complex_numbers(number: complex) -> None:
    pass


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (without_annotation, "without_annotation.city: expected an annotation such as"),
        (with_others, r"with_others.cities: a tool has named parameters only"),
        (of_a_strange_type, "of_a_strange_type: its annotations cannot be read"),
        (of_complex_numbers, "of_complex_numbers.number: expected str, int"),
    ],
)
def test_a_function_that_is_no_tool_is_refused(function: Any, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        function_tool(function)


MODULE = '''
from __future__ import annotations
from dataclasses import dataclass
import math

@dataclass
class Place:
    city: str

def go(place: Place) -> None:
    """Go there."""

def _hidden(x: int) -> None: ...
'''


def test_the_public_functions_of_a_file_are_tools(tmp_path: Path) -> None:
    path = tmp_path / "tools.py"
    path.write_text(MODULE)
    (tool,) = load_tools(path)
    assert (tool.name, tool.description) == ("go", "Go there.")


def test_the_public_functions_of_a_module_are_tools(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "my_home_tools.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    (tool,) = load_tools("my_home_tools")
    assert tool.name == "go"


def test_functions_and_schemas_may_stand_together() -> None:
    tools = load_tools([forecast, {"name": "stop"}, Tool("skip")])
    assert [tool.name for tool in tools] == ["forecast", "stop", "skip"]
    assert load_tools(forecast) == tools[:1]


def test_what_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NqgError, match=r"no tools 'no_such_module': there is no such"):
        load_tools("no_such_module")
    with pytest.raises(NqgError, match=r"missing\.json: no such file"):
        load_tools(tmp_path / "missing.json")
    with pytest.raises(NqgError, match=r"missing\.py: no such file"):
        load_tools(tmp_path / "missing.py")
    with pytest.raises(NqgError, match=r"'math' has no public functions"):
        load_tools(math)
    path = tmp_path / "broken.py"
    path.write_text("1 / 0")
    with pytest.raises(
        NqgError, match=r"broken\.py: cannot be imported \(ZeroDivision"
    ):
        load_tools(path)
