"""Calls: every notation is read back, and what is not a call is refused with its place."""

from __future__ import annotations

import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nqg.calls import Call, NotACall, Value, read_calls

NAMES = st.from_regex(r"[a-z_][a-z0-9_]{0,6}(\.[a-z][a-z0-9]{0,3})?", fullmatch=True)
KEYWORDS = st.from_regex(r"k[a-z0-9_]{0,4}", fullmatch=True)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
NUMBERS = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
ATOMS = st.none() | st.booleans() | NUMBERS | TEXTS


def values() -> st.SearchStrategy[Value]:
    """Any value of an argument; objects have no key that is one of a call."""
    return st.recursive(
        ATOMS,
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(TEXTS.map("key {}".format), inner, max_size=3)
            | calls(inner)
        ),
        max_leaves=6,
    )


def calls(arguments: st.SearchStrategy[Value]) -> st.SearchStrategy[Call]:
    keywords = st.dictionaries(KEYWORDS, arguments, max_size=3)
    positional = st.lists(arguments, max_size=3).map(tuple)
    return st.builds(Call, NAMES, keywords, positional)


def as_json(call: Call) -> str:
    return json.dumps(call.to_json())


def as_code(call: Call) -> str:
    keywords = [f"{key}={written(value)}" for key, value in call.arguments.items()]
    return f"{call.name}({', '.join([*map(written, call.positional), *keywords])})"


def as_spaced_code(call: Call) -> str:
    """The same with spaces around marks, but not within quotation marks."""
    keywords = [f"{key} = {written(value)}" for key, value in call.arguments.items()]
    arguments = " , ".join([*map(written, call.positional), *keywords])
    return f"{call.name} ( {arguments} )"


def written(value: Value) -> str:
    if isinstance(value, Call):
        return as_code(value)
    if isinstance(value, list):
        return f"[{', '.join(map(written, value))}]"
    if isinstance(value, dict):
        members = [f"{json.dumps(key)}: {written(item)}" for key, item in value.items()]
        return f"{{{', '.join(members)}}}"
    return json.dumps(value)


@pytest.mark.parametrize("write", [as_json, as_code])
@pytest.mark.parametrize(
    "form", ["{}", "[{}]"], ids=["a sequence of calls", "a list of calls"]
)
@given(data=st.data())
def test_calls_are_read_back_in_each_notation(
    write: object, form: str, data: st.DataObject
) -> None:
    assert callable(write)
    drawn = data.draw(st.lists(calls(values()), min_size=1, max_size=3))
    separator = ", "
    if form == "{}":
        separator = data.draw(st.sampled_from(["; ", ";", "\n", " && ", ", "]))
    program = form.format(separator.join(map(write, drawn)))
    # True equals 1, so that what is written is compared, too.
    assert read_calls(program) == tuple(drawn)
    assert str(read_calls(program)) == str(tuple(drawn))


@given(calls(st.integers() | st.booleans() | st.none()))
def test_spaces_around_marks_change_nothing(call: Call) -> None:
    assert read_calls(as_spaced_code(call)) == (call,)


@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    with suppress(NotACall):
        assert read_calls(text)


@given(calls(values()), st.data())
def test_a_damaged_call_is_read_or_refused(call: Call, data: st.DataObject) -> None:
    program = as_code(call)
    at = data.draw(st.integers(0, len(program)))
    put = data.draw(st.sampled_from(["", *"()[]{},;=\"'\\:-.a1 \n"]))
    with suppress(NotACall):
        assert read_calls(program[:at] + put + program[at + 1 :])


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        ("forward()", Call("forward")),
        ("forward ( 12 )", Call("forward", {}, (12,))),
        ("turn ( right , 120 )", Call("turn", {}, ("right", 120))),
        (
            "schedule(12:00, turn_on(bedroom.heater))",
            Call("schedule", {}, ("12:00", Call("turn_on", {}, ("bedroom.heater",)))),
        ),
        ("zip(code=00123)", Call("zip", {"code": "00123"})),
        ("weather(city=New  York)", Call("weather", {"city": "New York"})),
        ("f(x='it\\'s', y=-1.5e3)", Call("f", {"x": "it's", "y": -1500.0})),
        ("f(x=don't)", Call("f", {"x": "don't"})),
        ('play ( song = " Hey Jude " )', Call("play", {"song": "Hey Jude"})),
        ('play(song=" Hey Jude ")', Call("play", {"song": " Hey Jude "})),
        ("lamp . turn_on ( kitchen )", Call("lamp.turn_on", {}, ("kitchen",))),
        ("f(a=true, b=None, c={x: 1})", Call("f", {"a": True, "b": None, "c": {"x": 1}})),
        ('f("\\ud83d\\ude00")', Call("f", {}, ("😀",))),
    ],
)  # fmt: skip
def test_calls_of_code_are_read(program: str, expected: Call) -> None:
    assert read_calls(program) == (expected,)


@pytest.mark.parametrize(
    "program",
    [
        '{"name": "alarm", "arguments": {"time": "7:30"}}',
        '{ " name " : " alarm " , " arguments " : { " time " : " 7:30 " } }',
        '{"name": "alarm", "arguments": "{\\"time\\": \\"7:30\\"}"}',
        '{"name": "alarm", "parameters": {"time": "7:30"}}',
        '{"function": "alarm", "arguments": {"time": "7:30"}}',
        '{"type": "function", "function": {"name": "alarm", "arguments": {"time": "7:30"}}}',
        '{"intent": "alarm", "time": "7:30"}',
        '[{"name": "alarm", "arguments": {"time": "7:30"}}]',
        'alarm(time="7:30")',
    ],
)
def test_notations_of_one_call_are_read_alike(program: str) -> None:
    assert read_calls(program) == (Call("alarm", {"time": "7:30"}),)


@pytest.mark.parametrize(
    ("program", "message"),
    [
        ("", "character 1 of '': expected the name of a function, found the end"),
        ("12", "character 1 of '12': expected the name of a function, found '12'"),
        ("lamp", "character 5 of 'lamp': expected '(' after the name 'lamp'"),
        ("on(lamp", "expected ',' or ')' after a value of 'on', found the end"),
        ("on(lamp))", "character 9 of 'on(lamp))': expected ';' or the end after a call"),
        ("on(lamp) off(fan)", "expected ';' or the end after a call, found 'off(fan)'"),
        ("on(lamp); off", "expected '(' after the name 'off', found the end"),
        ("on(lamp, )", "expected a value, found ')'"),
        ('on("lamp)', 'expected a closing "'),
        ("on(a=1, a=2)", "expected every keyword of 'on' once, found 'a=2)'"),
        ("on(1=2)", "expected a keyword before '=', found '1=2)'"),
        ("on(a == 3)", "expected a value, found '= 3)'"),
        ("on(x=1e999)", "1e999 is not a finite number"),
        ("on({a: 1, a: 2})", "expected every key of an object once"),
        ("on({a})", "expected ':' after a key"),
        ("[on(lamp)", "expected ']' after the calls of a list"),
        ("[]", "expected the name of a function, found ']'"),
        ("(on lamp)", "expected the name of a function"),
        ("a(b).c(d)", "expected ';' or the end after a call, found '.c(d)'"),
        ("SELECT count(*) FROM t", "expected '(' after the name 'SELECT'"),
        ('{"name": "f"', "expected JSON: Expecting ',' delimiter"),
        ('{"name": "f", "x": 1, "x": 2}', "the key 'x' is there twice"),
        ('{"name": "f", "x": NaN}', "NaN is not a finite number"),
        ('{"time": "7:30"}', "expected an object with one of the keys name, function"),
        ('{"name": "a", "intent": "b"}', "expected an object with one of the keys"),
        ('{"name": "a", "arguments": [1]}', "expected an object with one of the keys"),
        ('{"name": "a", "x": "\\ud83d"}', "expected whole characters"),
        ('f("\\ud83d")', "expected whole characters"),
        ("f(" * 200, "expected at most 100 brackets in each other"),
        ('{"name": "f", "x": ' + "[" * 100_000, "expected JSON"),
        ('{"name": "f", "x": ' + "[" * 900 + "]" * 900 + "}", "expected JSON"),
        ("f(" + "9" * 5000 + ")", "expected a number: Exceeds the limit"),
    ],
)  # fmt: skip
def test_what_is_not_a_call_is_refused_with_its_place(
    program: str, message: str
) -> None:
    with pytest.raises(NotACall) as caught:
        read_calls(program)
    assert message in str(caught.value)
    assert "programs are read as calls if each is a call such as" in str(caught.value)
