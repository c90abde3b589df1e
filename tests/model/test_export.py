"""Exported grammars in the parsers that read them: they accept training programs, and reject others.

An illegal program is a training program with an edit that the model's own grammar rejects.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import lark
import llguidance
import pytest
from llguidance.gbnf_to_lark import gbnf_to_lark

import nqg
from conftest import PROJECT
from nqg import ConfidenceSettings, TargetGrammar, TrainSettings, TypeSettings
from nqg.errors import NqgError, UnknownName
from nqg.evaluation.legality import target_grammar_named
from nqg.inference.parser import Parser
from nqg.model.settings import EncoderSettings, ModelSettings, TrainingSettings
from nqg.pipeline.program_types import training_types
from nqg.slots.call_schema import json_program_schema, tool_call_schema
from nqg.slots.grammar_formats import write_gbnf, write_lark
from nqg.slots.string_grammar import string_grammar
from nqg.slots.target_grammars import decoded_grammar, open_slot_categories
from nqg.text.programs import fit_programs
from nqg.types.tools import read_tools
from tool_schemas import SCHEMAS
from typed_commands import typed

Accepts = Callable[[str], bool]
BYTES = llguidance.LLTokenizer("byte")
ILLEGAL_EDITS = 1000


@dataclass(frozen=True)
class Case:
    """A grammar with the programs that it must accept, as strings, and those that it must not."""

    formats: dict[str, str]
    programs: Sequence[str]
    illegal: Sequence[str]
    schema: dict[str, Any] | None = None


def lark_parser(grammar: str) -> Accepts:
    parser = lark.Lark(grammar, parser="earley", lexer="dynamic_complete")

    def accepts(program: str) -> bool:
        try:
            parser.parse(program)
        except lark.exceptions.LarkError:
            return False
        return True

    return accepts


def llguidance_parser(grammar: str) -> Accepts:
    compiled = llguidance.LLMatcher.grammar_from_lark(grammar)
    assert llguidance.LLMatcher.validate_grammar(compiled) == ""
    matcher = llguidance.LLMatcher(BYTES, compiled)

    def accepts(program: str) -> bool:
        started = matcher.deep_copy()
        tokens = BYTES.tokenize_bytes(program.encode())
        return (
            started.try_consume_tokens(tokens) == len(tokens) and started.is_accepting()
        )

    return accepts


def gbnf_parser(grammar: str) -> Accepts:
    return llguidance_parser(gbnf_to_lark(grammar))


PARSERS = {
    "lark": ("lark", lark_parser),
    "llguidance": ("lark", llguidance_parser),
    "gbnf": ("gbnf", gbnf_parser),
}


def case_of(path: Path, *, grammar: str | None = None) -> Case:
    found = training_types(path)
    text = found.text.text
    legal = target_grammar_named(grammar) if grammar else found.grammar
    decoded, writing = decoded_grammar(legal, text.programs)
    strings = string_grammar(decoded, writing, text.slots.slots)
    formats = {"lark": write_lark(strings), "gbnf": write_gbnf(strings)}
    programs = [example.target for example in found.source.examples]
    opened = open_slot_categories(legal, text.slots.quotes)
    tokens = [example.target_tokens for example in found.text.examples]

    def is_illegal(program: str) -> bool:
        calls = text.programs.calls
        if calls and calls.problem(text.programs.tokenize(program)):
            return True
        return not opened.accepts(text.programs.normalized(program))

    illegal = edited_programs(tokens, text.programs.render, is_illegal)
    schema = None
    if programs[0].startswith("{"):
        schema = json_program_schema(decoded, writing, text.slots.slots)
    return Case(formats, list(dict.fromkeys(programs)), illegal, schema)


def edited_programs(
    programs: Sequence[tuple[str, ...]],
    render: Callable[[Sequence[str]], str],
    is_illegal: Callable[[str], bool],
) -> list[str]:
    """Programs with one token replaced, removed, added or exchanged with another."""
    rng = random.Random(0)
    vocabulary = sorted({token for program in programs for token in program})
    edits: dict[str, None] = {}
    while len(edits) < ILLEGAL_EDITS:
        tokens = list(rng.choice(programs))
        at = rng.randrange(len(tokens))
        kind = rng.choice(["replace", "remove", "add", "exchange"])
        if kind == "replace":
            tokens[at] = rng.choice(vocabulary)
        elif kind == "remove":
            del tokens[at]
        elif kind == "add":
            tokens.insert(at, rng.choice(vocabulary))
        else:
            other = rng.randrange(len(tokens))
            tokens[at], tokens[other] = tokens[other], tokens[at]
        program = render(tokens)
        if program and is_illegal(program):
            edits[program] = None
    return list(edits)


EXAMPLES = PROJECT / "examples"
STARTER = Path(str(resources.files("nqg.data").joinpath("starter")))
FILES = {
    "starter": STARTER / "train.tsv",
    "robot": EXAMPLES / "robot" / "train.tsv",
    "tools": EXAMPLES / "tools" / "train.tsv",
    "home_assistant": EXAMPLES / "home_assistant" / "en" / "train.tsv",
}


@pytest.fixture(scope="module")
def cases() -> dict[str, Case]:
    return {name: case_of(path) for name, path in FILES.items()}


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("parser", PARSERS)
def test_training_programs_are_accepted_and_illegal_edits_rejected(
    cases: dict[str, Case], name: str, parser: str
) -> None:
    check(cases[name], parser)


def check(case: Case, parser: str) -> None:
    export_format, parser_of = PARSERS[parser]
    accepts = parser_of(case.formats[export_format])
    assert [program for program in case.programs if not accepts(program)] == []
    assert len(case.illegal) == ILLEGAL_EDITS
    assert [program for program in case.illegal if accepts(program)] == []


@pytest.mark.corpus
@pytest.mark.parametrize("grammar", [None, "funql"])
@pytest.mark.parametrize("parser", PARSERS)
def test_geoquery_is_exported(
    real_data: Path, grammar: str | None, parser: str
) -> None:
    path = real_data / "geoquery" / "expected_dataset.tsv"
    check(case_of(path, grammar=grammar), parser)


def strict_json(program: str) -> Any:
    def members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        values = dict(pairs)
        if len(values) < len(pairs):
            raise ValueError("a member is there twice")
        return values

    return json.loads(program, object_pairs_hook=members)


def schema_parser(schema: dict[str, Any]) -> Accepts:
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)

    def accepts(program: str) -> bool:
        try:
            return bool(validator.is_valid(strict_json(program)))
        except ValueError:
            return False

    return accepts


def test_json_programs_have_a_schema(cases: dict[str, Case]) -> None:
    case = cases["tools"]
    assert case.schema
    accepts = schema_parser(case.schema)
    assert [program for program in case.programs if not accepts(program)] == []
    assert [program for program in case.illegal if accepts(program)] == []
    # Not all of the edits are rejected because they are not JSON.
    assert sum(is_json(program) for program in case.illegal) > 100


def is_json(program: str) -> bool:
    try:
        json.loads(program)
    except ValueError:
        return False
    return True


def test_the_schema_of_tools_has_their_calls_and_definitions() -> None:
    tools = read_tools(SCHEMAS)
    accepts = schema_parser(tool_call_schema(tools))
    weather = {"name": "get_forecast", "arguments": {"location": "Oslo", "days": 3}}
    assert accepts(json.dumps(weather))
    assert accepts(json.dumps([weather, weather]))
    moment = {"date": "2026-11-16"}
    event = {"summary": "tea", "start": moment}
    assert accepts(json.dumps({"name": "create_event", "arguments": event}))
    for wrong in (
        {"name": "get_forecast", "arguments": {"days": 3}},
        {"name": "get_forecast", "arguments": {"location": "Oslo", "days": 11}},
        {"name": "get_forecast", "arguments": {"location": "Oslo", "city": "Oslo"}},
        {"name": "forecast", "arguments": {"location": "Oslo"}},
        {"name": "create_event", "arguments": {"summary": "tea", "start": {}}},
        {"name": "get_forecast"},
    ):
        assert not accepts(json.dumps(wrong)), wrong


SLOTTED = """\
<program> ::= wake ( " @time " ) | go ( @place , <#> ) | say ( ' <...> ' ) | note ( <...> )
<program> ::= new ( <?> )
"""


def test_slots_and_wildcards_become_values_and_patterns() -> None:
    slots = [
        nqg_slot("time", "time", ("{h24:02}:{m:02}",)),
        nqg_slot(
            "place", "gazetteer", ("{value}",), ("new york", "NYC"), ("oslo", "OSL")
        ),
    ]
    programs = fit_programs(
        ['wake("06:30")', "go(NYC, 3)", "say('a b')", "note([1, 2])", "new(x)"]
    )
    grammar = string_grammar(TargetGrammar.parse(SLOTTED), programs, slots)
    legal = [
        'wake("23:59")',
        "go(OSL, -1.5)",
        "say('what, not? yes!')",
        'note([1, "a b", {x}])',
        "new(something)",
    ]
    illegal = [
        'wake("24:00")',
        'wake("6:30")',
        "go(LHR, 3)",
        "go(OSL,3)",
        "say('a' b')",
        "note([1)",
        "new(wake)",
        "new(a b)",
    ]
    text = write_lark(grammar)
    for accepts in (
        lark_parser(text),
        llguidance_parser(text),
        gbnf_parser(write_gbnf(grammar)),
    ):
        assert [program for program in legal if not accepts(program)] == []
        assert [program for program in illegal if accepts(program)] == []


def nqg_slot(
    name: str, kind: Any, forms: tuple[str, ...], *names: tuple[str, str]
) -> Any:
    from nqg.slots.slot import Gazetteer, Slot

    return Slot(name, kind, forms, names=Gazetteer.of(names) if names else None)


# Models, in Python and on the command line

PAIRS = [
    (f"set the {name} to {level}", f"set({name}, {level})")
    for name in ("lamp", "radio", "fan")
    for level in (10, 25, 70)
]
BRIEF = TrainSettings(
    model=ModelSettings(
        dimension=16, embedded=EncoderSettings(hidden_size=16, layers=1, heads=2)
    ),
    training=TrainingSettings(steps=2, batch_size=4),
    confidence=ConfidenceSettings(folds=0),
)
TYPES = """\
<program> ::= set ( <name> , @number )
<name> ::= lamp | radio | fan
"""
LARK = """\
start: program
program: "set(" name ", " SLOT_NUMBER ")"
name: "lamp" | "radio" | "fan"
SLOT_NUMBER: /-?[0-9]+(?:\\.[0-9]+)?/
"""
GBNF = """\
root ::= program
program ::= "set(" name ", " slot-number ")"
name ::= "lamp" | "radio" | "fan"
slot-number ::= "-"? [0-9]+ ("." [0-9]+)?
"""


@pytest.fixture(scope="module")
def parser(tmp_path_factory: pytest.TempPathFactory) -> Parser:
    types = tmp_path_factory.mktemp("types") / "mine.grammar"
    types.write_text(TYPES)
    settings = replace(BRIEF, types=TypeSettings(str(types)))
    trained = nqg.train(PAIRS, settings=settings)
    assert isinstance(trained, Parser)
    return trained


def test_a_model_is_exported_from_python_and_from_the_command(
    parser: Parser, tmp_path: Path
) -> None:
    assert parser.export("lark") == LARK
    assert parser.export("gbnf") == GBNF
    parser.save(tmp_path / "model")
    folder = str(tmp_path / "model")
    assert typed("export", folder, "--format", "lark").stdout == LARK
    file = tmp_path / "mine.gbnf"
    result = typed("export", folder, "--format", "gbnf", "-o", str(file))
    assert (result.stdout, file.read_text()) == ("", GBNF)


def test_a_model_of_tools_has_the_schema_of_their_calls() -> None:
    level = {"type": "integer", "maximum": 100}
    parameters = {"properties": {"name": {"type": "string"}, "level": level}}
    tools = [{"name": "set", "parameters": parameters}]
    pairs = [
        (f"set the {name} to {level}", f'set(name="{name}", level={level})')
        for name in ("lamp", "radio", "fan")
        for level in (10, 25, 70)
    ]
    parser = nqg.train(pairs, tools=tools, settings=BRIEF)
    assert isinstance(parser, Parser)
    accepts = schema_parser(json.loads(parser.export("json-schema")))
    assert accepts('{"name": "set", "arguments": {"name": "fan", "level": 30}}')
    assert not accepts('{"name": "set", "arguments": {"name": "fan", "level": 101}}')


def test_what_cannot_be_exported_is_refused_with_the_reason(parser: Parser) -> None:
    with pytest.raises(NqgError, match=r"programs are not JSON.* export them as lark"):
        parser.export("json-schema")
    with pytest.raises(UnknownName, match="no format 'larkk'; did you mean 'lark'"):
        parser.export("larkk")
    untyped = nqg.train(PAIRS, settings=replace(BRIEF, types=TypeSettings("none")))
    assert isinstance(untyped, Parser)
    with pytest.raises(NqgError, match="the model has no types"):
        untyped.export("gbnf")
