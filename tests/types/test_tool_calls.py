"""Whether calls fit the tools, or lack an argument that training always has, and why."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nqg.errors import FormatError
from nqg.types.tool_calls import (
    ENOUGH_CALLS,
    missing_argument,
    program_misfit,
    read_required,
    required_arguments,
    write_required,
)
from nqg.types.tools import read_tools
from tool_schemas import SCHEMAS

TOOLS = read_tools(SCHEMAS)


@pytest.mark.parametrize(
    "program",
    [
        'get_forecast(location="Rome", unit="celsius", days=3)',
        'get_forecast("Rome", "celsius")',
        "get_forecast ( Rome , celsius )",
        "get_forecast(location=12345)",
        '{"name": "get_forecast", "arguments": {"location": "Rome", "hourly": true}}',
        'search_now(); get_forecast(location="Oslo")',
        'create_event(summary="Tea", start={"date": "2026-11-18"}, end=null)',
        'create_event(summary="Tea", start={"date": "2026-11-18"}, visibility=None)',
        'light_turn_on(area="attic", rgb_color=[255, 0, 10], transition=null)',
        'transfer_money(amount=12.34, currency="EUR", iban="DE02120300000000202051")',
        'directions(origin={"lat": 48.1, "lng": 11.5}, avoid=["tolls"])',
        'directions(origin="Rome")',
        'send_email(to=["a@b.c"], body="Hi", headers={"X": "1"}, priority=2)',
        'create_refund(charge="ch_1", reason="duplicate", metadata={"a": 1})',
        'create_issue(project="NQG", type="bug", parent="NQG-36")',
    ],
)
def test_a_call_that_fits_has_no_problem(program: str) -> None:
    assert program_misfit(program, TOOLS) == ""


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        ("weather", "character 8 of 'weather': expected '(' after the name"),
        ("get_forcast()", "no tool 'get_forcast'; did you mean 'get_forecast'?"),
        (
            "get_forecast()",
            "get_forecast: argument 'location' is required, and missing",
        ),
        (
            'get_forecast(location="Rome", units="celsius")',
            "get_forecast: no argument 'units'; did you mean 'unit'?",
        ),
        (
            'get_forecast("Rome", location="Rome")',
            "get_forecast: argument 'location' is there twice",
        ),
        (
            'get_forecast("Rome", "celsius", 1, true, 5)',
            "get_forecast: expected at most 4 arguments, found 5",
        ),
        (
            'get_forecast(location=5, unit="celsius")',
            "get_forecast: argument 'location': expected string, found 5",
        ),
        (
            'get_forecast(location="Rome", days=11)',
            "argument 'days': expected at most 10, found 11",
        ),
        (
            'get_forecast(location="Rome", days=2.5)',
            "argument 'days': expected integer, found 2.5",
        ),
        (
            'get_forecast(location="Rome", hourly=1)',
            "argument 'hourly': expected boolean, found 1",
        ),
        (
            'get_forecast(location="Rome", unit="celcius")',
            "expected one of 'celsius', 'fahrenheit', found 'celcius'; did you mean",
        ),
        (
            'create_event(summary="Tea", start={"time": "9:00"})',
            "argument 'start'.date: is required, and missing",
        ),
        (
            'create_event(summary="Tea", start={"date": "1", "day": "2"})',
            "argument 'start'.day: no such property; known: date, time",
        ),
        (
            'create_event(summary="", start={"date": "2026-11-18"})',
            "argument 'summary': expected at least 1 characters, found 0",
        ),
        (
            'light_turn_on(area="attic", rgb_color=[1, 2])',
            "argument 'rgb_color': expected at least 3 values, found 2",
        ),
        (
            'light_turn_on(area="attic", rgb_color=[1, 2, 300])',
            "argument 'rgb_color'[2]: expected at most 255, found 300",
        ),
        (
            'light_turn_on(area="attic", transition=0)',
            "argument 'transition': expected more than 0, found 0",
        ),
        (
            'transfer_money(amount=1.234, currency="EUR", iban="DE02120300000000")',
            "argument 'amount': expected a multiple of 0.01, found 1.234",
        ),
        (
            'transfer_money(amount=1, currency="euro", iban="DE02120300000000")',
            "argument 'currency': expected a string like '^[A-Z]{3}$', found 'euro'",
        ),
        ("directions(origin=[1])", "argument 'origin': fits no alternative"),
        (
            'create_refund(charge="ch_1", reason="whim")',
            "argument 'reason': expected one of 'duplicate'",
        ),
        (
            "get_forecast(location=search_now())",
            "argument 'location': expected string, found a call",
        ),
    ],
)
def test_a_call_that_does_not_fit_is_told_with_function_and_argument(
    program: str, reason: str
) -> None:
    assert reason in program_misfit(program, TOOLS)


def test_a_pattern_that_takes_too_long_is_stopped() -> None:
    schema = {"type": "string", "pattern": "^(a|aa|[a-z]a?)+$"}
    tools = read_tools([{"name": "f", "parameters": {"properties": {"x": schema}}}])
    program = f'f(x="{"a" * 200}!")'
    assert "takes too long" in program_misfit(program, tools)


# Arguments that training programs show to be required.

CALLS = st.tuples(
    st.sampled_from("fg"), st.sets(st.sampled_from("abc")), st.integers(0, 9)
)


@given(st.lists(CALLS, max_size=60))
def test_what_all_of_enough_calls_have_is_required(
    calls: list[tuple[str, set[str], int]],
) -> None:
    programs: dict[str, tuple[str, set[str]]] = {}
    for name, arguments, value in calls:
        written = ", ".join(f"{argument}={value}" for argument in sorted(arguments))
        programs[f"{name}({written})"] = name, arguments
    # By the definition, function by function and argument by argument.
    expected: set[tuple[str, str]] = set()
    for name in "fg":
        arguments_of = [found for other, found in programs.values() if other == name]
        for argument in "abc":
            having = [found for found in arguments_of if argument in found]
            if len(having) == len(arguments_of) >= ENOUGH_CALLS:
                expected.add((name, argument))
    required = required_arguments([*programs, *programs])
    assert expected == {
        (name, argument) for name in required for argument in required[name]
    }
    assert not any(missing_argument(program, required) for program in programs)


def test_calls_inside_of_calls_and_lists_count() -> None:
    programs = [f"at(time={hour}, do=[dim(percent={hour})])" for hour in range(12)]
    required = required_arguments([*programs, "not a call"])
    assert required == {"at": ("time", "do"), "dim": ("percent",)}
    reason = "dim: argument 'percent' is missing, which all calls in training have"
    assert missing_argument("at(time=3, do=[dim(room=hall)])", required) == reason
    assert missing_argument("not a call", required) == ""


def test_the_order_of_arguments_and_the_notation_do_not_matter() -> None:
    required = {"dim": ("room", "percent")}
    assert missing_argument("dim(percent=3, room=hall)", required) == ""
    dark = '{"name": "dim", "arguments": {"room": "hall"}}'
    assert "'percent'" in missing_argument(dark, required)


def test_required_arguments_survive_a_round_trip(tmp_path: Path) -> None:
    required = {"dim": ("percent", "räume"), "off": ("room",)}
    write_required(tmp_path / "required.json", required)
    assert read_required(tmp_path / "required.json") == required


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[1]", "expected an object of functions, found"),
        ('{"dim": "percent"}', "dim: expected a list of the arguments that it needs"),
        ('{"dim": [3]}', "dim: expected a list of the arguments that it needs"),
    ],
)
def test_a_file_of_something_else_is_refused(
    text: str, reason: str, tmp_path: Path
) -> None:
    path = tmp_path / "required.json"
    path.write_text(text)
    with pytest.raises(FormatError, match=r"required\.json") as error:
        read_required(path)
    assert reason in str(error.value)
