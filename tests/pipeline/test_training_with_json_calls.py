"""JSON that is learned as calls, at every door: people see and write JSON, only models have calls."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import lark
import pytest

import nqg
from nqg import Example, Parser, TargetGrammar, TrainingSettings
from nqg.errors import FormatError, NqgError
from nqg.evaluation.active_learning import add_example, check_example
from nqg.evaluation.legality import ModelTypes
from nqg.model.export import export_types
from nqg.pipeline.program_types import training_types
from nqg.pipeline.settings import ConfidenceSettings, TrainSettings, TypeSettings
from nqg.types.rule_groups import function_names, rule_groups
from nqg.web.messages import ReadingFound

ROOMS = ("attic", "hall", "office", "garage")
SETTINGS = TrainSettings(
    training=TrainingSettings(steps=60), confidence=ConfidenceSettings(folds=0)
)
TOOLS = [
    {
        "name": "dim",
        "parameters": {
            "type": "object",
            "properties": {
                "room": {"type": "string", "enum": [*ROOMS, "cellar"]},
                "percent": {"type": "integer", "maximum": 100},
            },
            "required": ["room"],
        },
    },
    {"name": "stop", "parameters": {"type": "object", "properties": {}}},
]


def call(name: str, **arguments: Any) -> str:
    return json.dumps({"name": name, "arguments": arguments})


def pairs() -> list[Example]:
    examples = [Example("stop", call("stop")), Example("stop it now", call("stop"))]
    for number, room in enumerate(ROOMS):
        percent = 10 * number + 15
        examples += [
            Example(f"dim the {room}", call("dim", room=room)),
            Example(
                f"dim the {room} to {percent} percent",
                call("dim", room=room, percent=percent),
            ),
            Example(
                f"set the {room} to {percent + 5}",
                call("dim", room=room, percent=percent + 5),
            ),
        ]
    return examples


@pytest.fixture(scope="module")
def parser() -> Parser:
    system = nqg.train(pairs(), settings=SETTINGS)
    assert isinstance(system, Parser)
    return system


def test_rules_are_calls_and_answers_json(parser: Parser) -> None:
    assert parser.model.text.programs.calls is not None
    written = " ".join(map(str, parser.model.grammar))
    assert "arguments" not in written
    assert ":" not in written
    answer = parser.parse("dim the hall to 45 percent", readings=2)
    assert answer.target == call("dim", room="hall", percent=45)
    assert answer.calls[0].arguments == {"room": "hall", "percent": 45}
    for reading in answer.readings:
        if reading.is_legal:
            json.loads(reading.target)
    assert parser.parse("stop").target == call("stop")


def test_a_model_keeps_its_calls(parser: Parser, tmp_path: Path) -> None:
    parser.save(tmp_path / "model")
    loaded = Parser.load(tmp_path / "model")
    assert loaded.model.text == parser.model.text
    answer = loaded.parse("set the attic to 60")
    assert answer.target == call("dim", room="attic", percent=60)


def test_the_picture_of_an_answer_has_its_json_in_the_colours_of_its_words(
    parser: Parser,
) -> None:
    answer = parser.parse("dim the hall to 45 percent")
    reading = answer.reading
    assert reading is not None
    symbols = [token.symbol for token in reading.written]
    assert "".join(symbols) == (answer.target or "").replace(" ", "")
    message = ReadingFound.of(reading, explain=False, draw=True)
    assert message.drawing
    assert "arguments" in message.drawing
    # What the rules wrote is in their colours: the value where the sentence has it.
    for token in reading.written:
        if token.symbol in ("hall", "45"):
            assert reading.tokens[token.origin] == token.symbol


@pytest.mark.parametrize(
    "rule",
    [
        'halfway to NT_1 ### {"name": "dim", "arguments": {"room": "hall", "percent": NT_1}}',
        'halfway to NT_1 ### { " name " : " dim " , " arguments " : { " room " : " hall " , " percent " : NT_1 } }',
        'halfway to NT_1 ### dim(room="hall", percent=NT_1)',
    ],
    ids=["JSON", "tokens of JSON", "a call"],
)
def test_rules_by_hand_are_written_in_json_or_as_calls(
    parser: Parser, rule: str
) -> None:
    extended = parser.with_rules([rule])
    expected = 'halfway to NT_1 ### dim ( room = " hall " , percent = NT_1 )'
    assert list(map(str, extended.model.by_hand)) == [expected]
    answer = extended.parse("halfway to 35")
    assert answer.target == call("dim", room="hall", percent=35)
    assert extended.without_rules([rule]).model.by_hand == ()


def test_templates_are_written_in_json(parser: Parser) -> None:
    program = '{"name": "dim", "arguments": {"room": "attic", "percent": {percent}}}'
    template = f"[please] brighten the attic [by {{number:percent}}] ### {program}"
    extended = parser.with_rules([template])
    answer = extended.parse("please brighten the attic by 35")
    assert answer.target == call("dim", room="attic", percent=35)
    # What the sentence leaves out, the program lacks.
    assert extended.parse("brighten the attic").target == call("dim", room="attic")


@pytest.mark.parametrize(
    "target",
    [
        '{"name": "dim", "arguments": {"room": "NT_1", "colour": "red"}}',
        '{"name": "paint", "arguments": {"room": "NT_1"}}',
        '{"name": "dim", "arguments": {"room": "NT_1"}',
        '{"name": "dim", "room": "NT_1"}',
    ],
    ids=[
        "another key",
        "another function",
        "a lost brace",
        "arguments beside the name",
    ],
)
def test_rules_by_hand_that_no_program_can_use_are_refused(
    parser: Parser, target: str
) -> None:
    with pytest.raises(FormatError, match="rule 'NT_1 lights"):
        parser.with_rules([f"NT_1 lights ### {target}"])


@pytest.mark.parametrize(
    ("program", "problem", "new"),
    [
        (call("dim", room="hall", percent=7), "", ""),
        (call("stop"), "", ""),
        (call("paint", room="hall"), "", "paint"),
        (call("dim", room="hall", colour="red"), "", "colour"),
        ('dim(room="hall")', "expected JSON as in training", ""),
        ('{"name": "dim", "arguments": {"room": "hall"}', "'{'", ""),
        (
            '{"name": "dim", "arguments": {"room": "hall", "room": "attic"}}',
            "'room' is there twice",
            "",
        ),
    ],
)
def test_programs_are_checked_as_people_write_them(
    parser: Parser, program: str, problem: str, new: str
) -> None:
    check = ModelTypes.of(parser.model).check(program)
    assert problem in check.problem
    assert bool(problem) == bool(check.problem)
    assert new in check.new
    assert bool(new) == bool(check.new)


def test_only_json_is_added_to_the_training_file(
    parser: Parser, tmp_path: Path
) -> None:
    train = tmp_path / "train.tsv"
    train.write_text("".join(f"{pair.source}\t{pair.target}\n" for pair in pairs()))
    types = ModelTypes.of(parser.model)
    with pytest.raises(NqgError, match="expected JSON as in training"):
        add_example(train, Example("lower the hall", 'dim(room="hall")'), types)
    good = Example("lower the hall", call("dim", room="hall"))
    assert check_example(train, good, types).is_legal
    add_example(train, good, types)
    assert train.read_text().endswith(f"{good.source}\t{good.target}\n")


def test_types_are_shown_as_calls_and_exported_as_json(parser: Parser) -> None:
    found = training_types(pairs())
    assert "dim ( " in str(found.grammar)
    assert found.grammar == parser.model.target_grammar
    validator = jsonschema.Draft202012Validator(
        json.loads(export_types(parser.model, "json-schema"))
    )
    accepts = lark.Lark(export_types(parser.model, "lark")).parse
    for program in {pair.target for pair in pairs()}:
        assert validator.is_valid(json.loads(program))
        accepts(program)
    for wrong in (call("dim", colour="red"), call("paint"), 'dim(room="hall")'):
        with pytest.raises(lark.exceptions.LarkError):
            accepts(wrong)


JSON_TYPES = """\
<program> ::= { " name " : " dim " , " arguments " : { <list> } } | { " name " : " stop " , " arguments " : { } }
<list> ::= " room " : " <room> " | " percent " : <#> | <list> , <list>
<room> ::= attic | hall | office | garage | cellar
"""


def test_given_types_may_be_those_of_json_or_of_calls() -> None:
    found = training_types(pairs())
    for text in (JSON_TYPES, str(found.grammar)):
        check = found.check(TargetGrammar.parse(text))
        assert str(check.rejections) == "no program is rejected"
    wrong = TargetGrammar.parse(JSON_TYPES.replace("percent", "level"))
    assert len(found.check(wrong).rejections.numbers) == 8


def trained_with(types: str, folder: Path) -> Parser:
    path = folder / "mine.grammar"
    path.write_text(types)
    settings = TrainSettings(
        training=SETTINGS.training,
        confidence=SETTINGS.confidence,
        types=TypeSettings(str(path)),
    )
    system = nqg.train(pairs(), settings=settings)
    assert isinstance(system, Parser)
    return system


def test_training_takes_types_of_json(tmp_path: Path) -> None:
    parser = trained_with(JSON_TYPES, tmp_path)
    assert parser.model.text.programs.calls is not None
    assert parser.parse("dim the hall").target == call("dim", room="hall")
    check = ModelTypes.of(parser.model).check
    assert check(call("dim", room="cellar")).is_legal
    assert not check(call("dim", room="moon")).is_legal


def test_types_that_are_no_types_of_calls_keep_the_json(tmp_path: Path) -> None:
    # The name is a category of its own, with its quotes.
    types = JSON_TYPES.replace('" dim "', "<dim>") + '<dim> ::= " dim "\n'
    parser = trained_with(types, tmp_path)
    assert parser.model.text.programs.calls is None
    assert parser.parse("dim the hall").target == call("dim", room="hall")


def test_tools_are_types_of_json_that_is_learned_as_calls() -> None:
    system = nqg.train(pairs(), settings=SETTINGS, tools=TOOLS)
    assert isinstance(system, Parser)
    assert system.model.text.programs.calls is not None
    assert "percent = " in str(system.model.target_grammar)
    answer = system.parse("dim the cellar to 40 percent")
    assert answer.target == call("dim", room="cellar", percent=40)
    check = ModelTypes.of(system.model).check
    assert check(call("dim", room="cellar")).is_legal
    assert not check(call("dim", room="moon")).is_legal
    assert "at most 100" in check(call("dim", room="hall", percent=400)).problem


def test_a_model_that_learned_json_goes_on_with_it(tmp_path: Path) -> None:
    plain = TrainSettings(
        text=nqg.TextSettings(calls="none"),
        training=SETTINGS.training,
        confidence=SETTINGS.confidence,
    )
    earlier = nqg.train(pairs(), settings=plain)
    assert isinstance(earlier, Parser)
    assert earlier.model.text.programs.calls is None
    earlier.save(tmp_path / "model")
    later = nqg.train(
        [*pairs(), Example("halt", call("stop"))],
        settings=SETTINGS,
        start_from=tmp_path / "model",
        tools=TOOLS,
    )
    assert isinstance(later, Parser)
    assert later.model.text.programs.calls is None
    assert later.parse("halt").target == call("stop")


def test_rules_are_grouped_by_their_functions(parser: Parser) -> None:
    names = function_names(parser.model.target_grammar)
    titles = [group.title for group in rule_groups(parser.model.grammar, names)]
    assert {"dim", "stop"} <= set(titles)
