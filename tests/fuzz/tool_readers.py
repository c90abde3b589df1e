"""Readers of tools, templates, JSON programs and exports: what came with function calling."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from fuzz.readers import Reader
from nqg.calls import all_calls, read_calls
from nqg.data.example import Example, in_scope
from nqg.data.example_files import read_examples
from nqg.inference.rules_by_hand import read_rules
from nqg.preprocessing.preprocessor import Preprocessor
from nqg.preprocessing.training_text import fit_text
from nqg.slots.call_schema import json_program_schema, tool_call_schema
from nqg.slots.grammar_formats import write_gbnf, write_lark
from nqg.slots.string_grammar import string_grammar
from nqg.slots.tool_grammar import tool_grammar
from nqg.slots.tool_slots import tool_slots
from nqg.text.programs import fit_programs
from nqg.types.target_grammar import TargetGrammar
from nqg.types.tool_calls import program_misfit
from nqg.types.tools import read_tools, write_tools
from tool_schemas import CALENDAR, WEATHER

PROGRAMS = (
    '{"name": "get_forecast", "arguments": {"location": "Oslo", "days": 3}}',
    'set_timer(duration="PT5M", label="tea"); lights(room.kitchen, [on, -1.5e3])',
    '[{"name": "stop", "arguments": {}}, {"name": "say", "arguments": {"text": "caf\\u00e9 \\"x\\""}}]',
)
TEMPLATES = (
    b"# mine\n<polite> = (please|kindly)\n{size} = small|very large:xl\n"
    b"[<polite>] turn (on|off) [the] lamp ### R\nrun [twice] ### R R\n",
    b"NT_1 [and then] NT_2 ### NT_1 NT_2\n\\[walk\\] ### J\n",
)
SCOPED = (
    b"jump twice\tJ J\ntell me a joke\tOUT_OF_SCOPE\nwho are you\t\nrun\tR\n",
    b'"a sentence","a program"\n"say ""hi"", now","say(""hi"")"\n"hm",OUT_OF_SCOPE\n',
)
EXPORTED = (
    b"<program> ::= set ( <name> , <#> ) | <program> ; <program>\n<name> ::= fan | tv\n",
    b'<program> ::= say ( " <...> " ) | list ( <names> )\n<names> ::= fan , <names> | a\\b\n',
)
JSON_PROGRAM = '{"name": "light", "arguments": {"room": "hall", "percent": 20}}'
LIGHT = {
    "name": "light",
    "parameters": {
        "properties": {
            "room": {"enum": ["hall", "attic"]},
            "percent": {"type": "number"},
        }
    },
}


@cache
def _text() -> Preprocessor:
    return fit_text([Example("turn on the lamp", "R"), Example("run twice", "R R")])


def _tools(path: Path) -> object:
    tools = read_tools(path)
    again = path.with_name("again.jsonl")
    write_tools(again, tools)
    assert read_tools(again) == tools
    misfit = program_misfit(PROGRAMS[0], tools)
    schema = json.dumps(tool_call_schema(tools))
    program = PROGRAMS[0].replace("{", "{ ").replace("}", " }").split()
    grammar = tool_grammar(tools, [program], slots=tool_slots(tools))
    return misfit, schema, str(grammar)


def _calls(path: Path) -> object:
    program = path.read_bytes().decode(errors="replace")
    calls = read_calls(program)
    values = [call.to_json() for call in calls]
    # What is read can be written as JSON, and read again as the same calls.
    assert read_calls(json.dumps(values)) == calls or not calls
    programs = fit_programs([program])
    return programs.render(programs.tokenize(program)), len(
        list(all_calls(list(calls)))
    )


def _templates(path: Path) -> object:
    return read_rules(path, _text())


def _scoped(path: Path) -> object:
    pairs = read_examples(path, allows_out_of_scope=True)
    return len(in_scope(pairs))


def _exports(path: Path) -> object:
    grammar = TargetGrammar.read(path)
    programs = fit_programs(["set(fan, 20)", 'say("x")'])
    strings = string_grammar(grammar, programs, ())
    return write_gbnf(strings), write_lark(strings)


def _exported_schema(path: Path) -> object:
    programs = fit_programs([JSON_PROGRAM])
    return json.dumps(json_program_schema(TargetGrammar.read(path), programs, ()))


def _json_grammar() -> tuple[bytes, ...]:
    tokens = fit_programs([JSON_PROGRAM]).tokenize(JSON_PROGRAM)
    return (str(tool_grammar(read_tools([LIGHT]), [tokens])).encode(),)


def _tool_seeds() -> tuple[bytes, ...]:
    return tuple(
        json.dumps(tools).encode()
        for tools in ([WEATHER, CALENDAR], {"tools": [WEATHER]})
    )


TOOL_READERS: Mapping[str, Reader] = {
    "tool schemas": Reader("tools.json", _tools, _tool_seeds),
    "tool calls": Reader(
        "program.txt", _calls, lambda: tuple(text.encode() for text in PROGRAMS)
    ),
    "templates": Reader("rules.txt", _templates, lambda: TEMPLATES),
    "out of scope": Reader("pairs.tsv", _scoped, lambda: SCOPED[:1]),
    "csv": Reader("pairs.csv", _scoped, lambda: SCOPED[1:]),
    "exports": Reader("target.grammar", _exports, lambda: EXPORTED),
    "exported schema": Reader("target.grammar", _exported_schema, _json_grammar),
}
