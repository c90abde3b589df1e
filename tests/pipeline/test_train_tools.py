"""Training with tools: what they add, what they forbid, and that a model keeps them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import nqg
from nqg import ConfidenceSettings, TrainSettings
from nqg.errors import FormatError, NqgError
from nqg.inference.parser import Parser
from nqg.model.checkpoint import load_model
from nqg.model.settings import EncoderSettings, ModelSettings, TrainingSettings
from nqg.pipeline.events import Event, Level, Notice
from nqg.settings_reader import changed_settings
from nqg.types.tools import read_tools
from typed_commands import typed

ROOMS = ["kitchen", "bedroom", "living_room", "office", "attic", "cellar"]
TOOLS: list[dict[str, Any]] = [
    {
        "name": "light",
        "description": "Switch a light.",
        "parameters": {
            "type": "object",
            "properties": {
                "room": {"type": "string", "enum": ROOMS},
                "state": {"type": "string", "enum": ["on", "off"]},
            },
            "required": ["room", "state"],
        },
    },
    {
        "name": "dim",
        "parameters": {
            "type": "object",
            "properties": {
                "room": {"type": "string", "enum": ROOMS},
                "percent": {"type": "integer", "minimum": 0, "maximum": 100},
            },
            "required": ["percent"],
        },
    },
]
BRIEF = TrainSettings(
    model=ModelSettings(
        dimension=16, embedded=EncoderSettings(hidden_size=16, layers=1, heads=2)
    ),
    training=TrainingSettings(steps=8, batch_size=8),
    confidence=ConfidenceSettings(folds=0),
)


def written(name: str, arguments: dict[str, Any], is_json: bool) -> str:
    if is_json:
        return json.dumps({"name": name, "arguments": arguments})
    values = [f"{key}={json.dumps(value)}" for key, value in arguments.items()]
    return f"{name}({', '.join(values)})"


def pairs(is_json: bool = False) -> list[tuple[str, str]]:
    """Sentences with the first four rooms."""
    made = []
    for number, room in enumerate(ROOMS[:4]):
        name = room.replace("_", " ")
        for state in ("on", "off"):
            program = written("light", {"room": room, "state": state}, is_json)
            made.append((f"turn {state} the light in the {name}", program))
        percent = 20 + 15 * number
        program = written("dim", {"room": room, "percent": percent}, is_json)
        made.append((f"dim the {name} to {percent} percent", program))
    return made


class Listener:
    def __init__(self) -> None:
        self.warnings: list[str] = []
        self.notes: list[str] = []

    def __call__(self, event: Event) -> None:
        if isinstance(event, Notice) and event.level is Level.WARNING:
            self.warnings.append(event.text)
        elif isinstance(event, Notice) and event.level is Level.NOTE:
            self.notes.append(event.text)


def trained(tools: Any = TOOLS, is_json: bool = False, **more: Any) -> Parser:
    parser = nqg.train(pairs(is_json), settings=BRIEF, tools=tools, **more)
    assert isinstance(parser, Parser)
    return parser


@pytest.mark.parametrize("is_json", [False, True], ids=["keywords", "JSON"])
def test_a_value_that_only_the_schema_has_is_answered(is_json: bool) -> None:
    parser = trained(is_json=is_json)
    answer = parser.parse("turn off the light in the attic")
    assert answer.target == written("light", {"room": "attic", "state": "off"}, is_json)
    answer = parser.parse("dim the cellar to 100 percent")
    assert answer.target == written("dim", {"room": "cellar", "percent": 100}, is_json)


def test_an_answer_outside_of_the_bounds_is_an_abstention() -> None:
    answer = trained().parse("dim the cellar to 120 percent")
    assert answer.target is None
    assert "dim: argument 'percent': expected at most 100, found 120" in answer.reason


def test_types_have_the_arguments_of_each_tool_and_no_others() -> None:
    types = trained().model.target_grammar
    assert types is not None
    assert types.accepts(
        [
            "light",
            "(",
            "room",
            "=",
            '"',
            "cellar",
            '"',
            ",",
            "state",
            "=",
            '"',
            "off",
            '"',
            ")",
        ]
    )
    assert types.accepts(["dim", "(", "percent", "=", "@number", ")"])
    assert not types.accepts(["dim", "(", "state", "=", '"', "off", '"', ")"])
    assert not types.accepts(["light", "(", "room", "=", '"', "hall", '"', ")"])


def test_a_model_folder_keeps_the_tools(tmp_path: Path) -> None:
    parser = trained()
    parser.save(tmp_path / "model")
    assert read_tools(tmp_path / "model" / "tools.json") == read_tools(TOOLS)
    again = Parser.load(tmp_path / "model")
    assert again.model.tools == parser.model.tools
    again.save(tmp_path / "again")
    first = (tmp_path / "model" / "tools.json").read_bytes()
    assert (tmp_path / "again" / "tools.json").read_bytes() == first


def test_a_training_that_goes_on_from_a_model_has_its_tools(tmp_path: Path) -> None:
    trained().save(tmp_path / "model")
    more = [*pairs(), ("dim the attic to 5 percent", 'dim(room="attic", percent=5)')]
    parser = nqg.train(more, start_from=tmp_path / "model")
    assert isinstance(parser, Parser)
    assert parser.model.tools == read_tools(TOOLS)
    assert parser.model.text == load_model(tmp_path / "model", "cpu").text
    wrong = [*pairs(), ("dim the den to 5 percent", 'dim(room="den", percent=5)')]
    with pytest.raises(FormatError, match=r"data:13: dim: argument 'room': expected"):
        nqg.train(wrong, start_from=tmp_path / "model")
    # Other tools replace them.
    tools = json.loads(json.dumps(TOOLS).replace('"cellar"', '"den"'))
    parser = nqg.train(wrong, tools=tools, start_from=tmp_path / "model")
    assert isinstance(parser, Parser)
    assert parser.model.tools == read_tools(tools)


@pytest.mark.parametrize(
    ("program", "message"),
    [
        ("dimm(percent=3)", r"data:13: no tool 'dimm'; did you mean 'dim'\?"),
        (
            "dim(percnt=3)",
            r"data:13: dim: no argument 'percnt'; did you mean 'percent'",
        ),
        ('dim(room="attic")', r"data:13: dim: argument 'percent' is required"),
        ("dim(percent=300)", r"data:13: dim: argument 'percent': expected at most 100"),
        ("lights", r"data:13: character 7 of 'lights': expected '\('"),
    ],
)
def test_a_program_that_does_not_fit_is_refused_by_line_function_and_argument(
    program: str, message: str
) -> None:
    data = [*pairs(), ("do it", program)]
    with pytest.raises(FormatError, match=message) as error:
        nqg.train(data, settings=BRIEF, tools=TOOLS)
    assert "found 1 of 13 programs with calls that do not fit" in str(error.value)
    listener = Listener()
    settings = changed_settings(BRIEF, ["types.skip_illegal=true"])
    nqg.train(data, settings=settings, tools=TOOLS, listener=listener)
    assert any(note.endswith("are left out") for note in listener.notes)


def test_a_tool_without_examples_is_told_to_be_unlearned() -> None:
    listener = Listener()
    tools = [*TOOLS, {"name": "open_door"}, {"name": "close_door"}]
    trained(tools, listener=listener)
    assert listener.warnings == [
        "warning: data has no example of open_door, close_door: 2 tools unlearned, no "
        "sentence will call them"
    ]


def test_declared_slots_come_first() -> None:
    settings = replace(BRIEF, slots={"room": {"text": 3}})
    parser = nqg.train(pairs(), settings=settings, tools=TOOLS)
    assert isinstance(parser, Parser)
    kinds = {slot.name: slot.kind for slot in parser.model.text.slots.slots}
    assert kinds["room"] == "text"
    assert kinds["state"] == "gazetteer"


def dim(percent: int, room: str = "kitchen") -> None:
    """Dim a light."""


def light(room: str, state: str) -> None:
    """Switch a light."""


def test_annotated_functions_are_tools() -> None:
    parser = trained([dim, light])
    assert [tool.name for tool in parser.model.tools] == ["dim", "light"]
    assert parser.parse("dim the office to 33 percent").target is not None


def test_tools_and_a_database_do_not_go_together() -> None:
    with pytest.raises(NqgError, match="omit 'tools' or 'database'"):
        nqg.train(pairs(), tools=TOOLS, database="shop.sqlite")


def test_the_command_takes_a_file_of_tools(tmp_path: Path) -> None:
    (tmp_path / "tools.json").write_text(json.dumps(TOOLS))
    lines = [f"{source}\t{target}\n" for source, target in pairs()]
    (tmp_path / "train.tsv").write_text("".join(lines))
    command = ["train", str(tmp_path / "train.tsv"), "-o", str(tmp_path / "model")]
    command += ["--tools", str(tmp_path / "tools.json"), "--set", "confidence.folds=0"]
    done = typed(*command, "--steps", "2")
    assert done.exit_code == 0, done.output
    assert (tmp_path / "model" / "tools.json").exists()
