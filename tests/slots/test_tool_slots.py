"""Slots and types of tools."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nqg.calls import read_calls
from nqg.slots.fit import fit_slots
from nqg.slots.slot import Gazetteer, Slot
from nqg.slots.tool_grammar import tool_grammar
from nqg.slots.tool_slots import tool_slots
from nqg.types.tool_calls import program_misfit
from nqg.types.tools import read_tools

ROOM = {"type": "string", "enum": ["kitchen", "living_room", "attic"]}
UNIT = {"type": "string", "enum": ["celsius", "fahrenheit"]}


def tool(
    name: str, required: tuple[str, ...] = (), **properties: Any
) -> dict[str, Any]:
    schema = {"type": "object", "properties": properties, "required": list(required)}
    return {"name": name, "parameters": schema}


TOOLS = read_tools(
    [
        tool("light", ("room",), room=ROOM, state={"enum": ["on", "off"]}),
        tool("dim", room=ROOM, percent={"type": "integer", "maximum": 100}),
        tool("heat", degrees={"type": "number"}, unit=UNIT, slowly={"type": "boolean"}),
        tool("say", text={"type": "string"}, to={"type": "array", "items": ROOM}),
        tool(
            "wait",
            until={"type": "string", "format": "time"},
            unit={"enum": ["s", "h"]},
        ),
    ]
)


def test_enums_of_strings_are_gazetteers_and_formats_are_kinds() -> None:
    slots = {slot.name: slot for slot in tool_slots(TOOLS)}
    assert list(slots) == ["room", "state", "unit", "wait-unit", "time", "number"]
    room = slots["room"].names
    assert room is not None
    assert list(room.matches(["the", "living", "room"])) == [(1, 3, "living_room")]


PAIRS = [
    (
        ["light", "in", "the", "kitchen"],
        ["light", "(", "room", "=", '"', "kitchen", '"', ")"],
    ),
    (
        ["light", "in", "the", "living", "room"],
        ["light", "(", "room", "=", '"', "living_room", '"', ")"],
    ),
    (["go", "on", "and", "dim", "to", "20"], ["dim", "(", "percent", "=", "20", ")"]),
]


def test_an_offered_slot_is_used_where_pairs_show_it() -> None:
    slots = fit_slots(PAIRS, offered=tool_slots(TOOLS))
    # "on" is no state here, and one number is enough where a tool has numbers.
    assert [slot.name for slot in slots.slots] == ["room", "number"]
    assert [slot.name for slot in fit_slots(PAIRS).slots] == []
    (mention,) = slots.mentions(["light", "in", "the", "attic"])
    assert (mention.slot, mention.value) == ("room", ("attic",))


def test_a_declared_slot_comes_before_an_offered_one() -> None:
    declared = Slot("room", "gazetteer", names=Gazetteer.of([("den", "living_room")]))
    slots = fit_slots(PAIRS, [declared], offered=tool_slots(TOOLS))
    assert slots.slots[0].names == declared.names
    assert [slot.name for slot in slots.slots].count("room") == 1


TOKEN = re.compile(r"[\w@.-]+|\S")


def tokens(program: str) -> list[str]:
    return TOKEN.findall(program)


TRAINING = {
    "keywords": [
        'light(room="kitchen", state="on")',
        "dim(percent=@number)",
        'heat(degrees=20, unit="celsius", slowly=true)',
        'say(text="good morning", to=["attic"])',
        'wait(until="@time")',
    ],
    "JSON": [
        '{"name": "light", "arguments": {"room": "kitchen", "state": "on"}}',
        '{"name": "dim", "arguments": {"percent": @number}}',
        '{"name": "heat", "arguments": {"degrees": 20, "slowly": true}}',
        '{"name": "say", "arguments": {"text": "good morning"}}',
    ],
    "flat JSON": [
        '{"intent": "light", "room": "kitchen"}',
        '{"intent": "dim", "percent": @number}',
    ],
    "positions": ["light(kitchen, on)", "dim(attic, @number)"],
    "sequences": ['light(room="attic"); dim(percent=5)', 'light(room="attic")'],
    "lists": ['[{"name": "light", "arguments": {"room": "attic"}}, {"name": "dim"}]'],
}
SLOTS = [Slot("number", "number"), Slot("time", "time", quote='"')]


@pytest.mark.parametrize("notation", TRAINING)
def test_the_grammar_accepts_what_training_has(notation: str) -> None:
    programs = [tokens(program) for program in TRAINING[notation]]
    grammar = tool_grammar(TOOLS, programs, slots=SLOTS)
    assert grammar is not None
    assert all(map(grammar.accepts, programs))


@pytest.mark.parametrize(
    ("program", "is_legal"),
    [
        ('light(room="living_room")', True),
        ('light(room="living_room", state="off")', True),
        ('dim(room="attic", percent=7)', True),
        ('heat(unit="fahrenheit", degrees=@number)', True),
        ('wait(unit="h")', True),
        ('say(to=["attic", "kitchen"])', True),
        ('say(text="good evening")', True),
        ("heat()", True),
        ('light(room="cellar")', False),
        ("light(percent=20)", False),
        ('wait(unit="celsius")', False),
        ('heat(unit="h")', False),
        ('dim(percent="kitchen")', False),
        ("heat(slowly=maybe)", False),
        ('wait(until="attic")', False),
        ('play(room="attic")', False),
        ("light()", False),
    ],
)
def test_the_grammar_has_what_tools_allow_and_nothing_that_they_forbid(
    program: str, is_legal: bool
) -> None:
    programs = [tokens(each) for each in TRAINING["keywords"]]
    grammar = tool_grammar(TOOLS, programs, slots=SLOTS)
    assert grammar is not None
    assert grammar.accepts(tokens(program)) is is_legal


@pytest.mark.parametrize(
    ("program", "is_legal"),
    [
        ("light(living_room)", True),
        ("dim(attic, 7)", True),
        ("heat(7, fahrenheit, true)", True),
        ("wait(dawn)", True),
        ("light()", False),
        ("light(on)", False),
        ("light(room=attic)", False),
        ("wait(dawn ( ) )", False),
    ],
)
def test_where_arguments_have_places_types_have_their_order(
    program: str, is_legal: bool
) -> None:
    programs = [tokens(each) for each in TRAINING["positions"]]
    grammar = tool_grammar(TOOLS, programs, slots=SLOTS[:1])
    assert grammar is not None
    assert grammar.accepts(tokens(program)) is is_legal


def test_programs_that_are_not_calls_have_no_grammar_of_tools() -> None:
    assert tool_grammar(TOOLS, [["jump", "twice"]]) is None
    assert tool_grammar(TOOLS, [tokens("light(kitchen, state=on)")]) is None


@st.composite
def calls(draw: st.DrawFn) -> str:
    """A call of a tool that has some of its arguments, as JSON or with keywords."""
    called = draw(st.sampled_from(TOOLS))
    arguments = {}
    for parameter in called.parameters:
        schema = parameter.schema
        if not parameter.is_required and draw(st.booleans()):
            continue
        if schema.enum:
            value: Any = draw(st.sampled_from(schema.enum))
        elif schema.type == "boolean":
            value = draw(st.booleans())
        elif schema.type == "array":
            value = draw(st.lists(st.sampled_from(ROOM["enum"]), max_size=2))
        elif schema.type == "string":
            value = draw(st.sampled_from(["good", "new words", "x"]))
        else:
            value = draw(st.integers(0, 100))
        arguments[parameter.name] = value
    written = ", ".join(
        f"{name}={json.dumps(value)}" for name, value in arguments.items()
    )
    return f"{called.name}({written})"


@given(calls())
def test_the_grammar_accepts_every_call_that_fits(program: str) -> None:
    assert program_misfit(program, TOOLS) == ""
    if "until" in read_calls(program)[0].arguments:
        # Training has the slot of times there, and no other strings.
        return
    programs = [tokens(each) for each in TRAINING["keywords"]]
    grammar = tool_grammar(TOOLS, programs, slots=SLOTS)
    assert grammar is not None
    assert grammar.accepts(tokens(program))
