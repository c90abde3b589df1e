"""Several commands in one sentence, from training without an example of one to the command line and
the server.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import nqg
from nqg.data.example import Example
from nqg.data.example_files import write_examples
from nqg.inference.parser import Parser
from typed_commands import one_thread, typed
from web_service import served

DEVICES = ("lamp", "heater", "radio", "fan")
EXAMPLES = [
    *(Example(f"Turn on the {name}.", f"turn_on({name})") for name in DEVICES),
    *(Example(f"switch the {name} off", f"turn_off({name})") for name in DEVICES),
    *(Example(f"Is the {name} on?", f"is_on({name})") for name in DEVICES),
]
BRIEF = "--steps 8 --set training.batch_size=8 --set confidence.folds=0 --device cpu"
SENTENCE = "please turn on the lamp and then switch the fan off"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A model whose training data has one command in each sentence."""
    folder = tmp_path_factory.mktemp("sequences")
    write_examples(folder / "train.tsv", EXAMPLES)
    allow = ("--set", "text.sequence=allow")
    with one_thread():
        typed(
            "train",
            str(folder / "train.tsv"),
            "-o",
            str(folder / "model"),
            *allow,
            *BRIEF.split(),
        )
    return str(folder / "model")


def parsed(*words: str) -> str:
    return typed("parse", *words, "--device", "cpu").stdout


def test_a_sentence_with_two_commands_gives_their_sequence(model: str) -> None:
    assert parsed(model, SENTENCE).splitlines() == ["turn_on(lamp); turn_off(fan)"]


def test_the_explanation_draws_each_command(model: str) -> None:
    lines = parsed(model, SENTENCE, "--explain").splitlines()
    assert lines[:2] == [
        "2 commands: 'please turn on the lamp', 'switch the fan off'",
        "turn_on(lamp); turn_off(fan)",
    ]
    assert "1. 'please turn on the lamp'" in lines
    assert "turn_off(fan)" in lines
    assert any(line.startswith("╰") for line in lines)


def test_json_has_each_command(model: str) -> None:
    values = json.loads(parsed(model, SENTENCE, "--json", "--explain"))
    assert values["target"] == "turn_on(lamp); turn_off(fan)"
    targets = [command["target"] for command in values["commands"]]
    assert targets == ["turn_on(lamp)", "turn_off(fan)"]
    assert all(command["derivation"] for command in values["commands"])


def test_a_line_of_a_file_has_one_program_and_one_figure(
    model: str, tmp_path: Path
) -> None:
    path = tmp_path / "sentences.txt"
    path.write_text(f"{SENTENCE}\nturn on the lamp and sing\n")
    answered, abstained = parsed(model, str(path)).splitlines()
    sentence, program, probability = answered.split("\t")
    assert (sentence, program) == (SENTENCE, "turn_on(lamp); turn_off(fan)")
    assert 0 < float(probability) <= 1
    assert abstained.split("\t")[2].startswith("abstained: 'sing' has no answer: ")


def test_other_readings_are_those_of_each_command(model: str) -> None:
    lines = parsed(model, SENTENCE, "--readings", "1").splitlines()
    assert lines[0] == "turn_on(lamp); turn_off(fan)"
    assert lines[2] == "1. 'please turn on the lamp'"
    assert lines[4].endswith("\tturn_on(lamp)")


def test_the_page_gets_each_command_with_its_drawing(model: str) -> None:
    parser = Parser.load(model, "cpu")
    with served(parser) as client:
        request = {"sentence": SENTENCE, "drawings": True, "explain": True}
        answer = client.post("/api/parse", json=request).json()
        request["sentence"] = "turn on the lamp and sing"
        abstention = client.post("/api/parse", json=request).json()
        (row,) = client.post("/api/batch", json={"text": SENTENCE}).json()["rows"]
    assert answer["target"] == row["target"] == "turn_on(lamp); turn_off(fan)"
    assert answer["best"] is None
    first, second = answer["commands"]
    assert (first["target"], second["target"]) == ("turn_on(lamp)", "turn_off(fan)")
    assert "<svg" in second["best"]["drawing"]
    assert abstention["target"] is None
    assert abstention["commands"][1]["gaps"]["unknown"] == [0]


def test_a_notebook_shows_each_command(model: str) -> None:
    html = Parser.load(model, "cpu").parse(SENTENCE)._repr_html_()
    assert html.count("<li>") == 2
    assert "switch the fan off" in html


def test_a_saved_model_still_reads_sequences(model: str, tmp_path: Path) -> None:
    Parser.load(model, "cpu").save(tmp_path / "copy")
    answer = nqg.load(tmp_path / "copy", "cpu").parse(SENTENCE)
    assert len(answer.commands) == 2


def test_without_the_setting_a_sentence_is_one_command(tmp_path: Path) -> None:
    write_examples(tmp_path / "train.tsv", EXAMPLES)
    folder = str(tmp_path / "model")
    with one_thread():
        typed("train", str(tmp_path / "train.tsv"), "-o", folder, *BRIEF.split())
    assert parsed(folder, SENTENCE).startswith("abstained: no derivation")
