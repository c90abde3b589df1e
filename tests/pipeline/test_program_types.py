"""Types with slots: what training finds is shown, edited, checked and given back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from importlib import resources
from pathlib import Path

import pytest

import nqg
from nqg import ConfidenceSettings, TargetGrammar, TrainSettings, TypeSettings
from nqg.errors import NqgError
from nqg.inference.parser import Parser
from nqg.model.settings import EncoderSettings, ModelSettings, TrainingSettings
from nqg.pipeline.events import Event, Notice
from nqg.pipeline.program_types import FittedTypes, training_types
from nqg.preprocessing.training_text import fit_training_text
from typed_commands import typed

SMALL = ModelSettings(
    dimension=16, embedded=EncoderSettings(hidden_size=16, layers=1, heads=2)
)
# One fold: confidence comes from a training with types of its own.
BRIEF = TrainSettings(
    model=SMALL,
    training=TrainingSettings(steps=8, batch_size=16),
    confidence=ConfidenceSettings(folds=1),
)
NAMES = ("lamp", "radio", "heater", "fan", "oven")
PAIRS = [
    (f"set the {name} to {level}", f"set({name}, {level})")
    for level in (10, 25, 70)
    for name in NAMES
]


@pytest.fixture(scope="module")
def starter(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The training pairs of `nqg init`, and a model of them."""
    folder = tmp_path_factory.mktemp("starter")
    source = resources.files("nqg.data").joinpath("starter")
    for name in ("train.tsv", "test.tsv"):
        (folder / name).write_text(source.joinpath(name).read_text())
    nqg.train(folder / "train.tsv", settings=BRIEF).save(folder / "model")
    return folder


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def given(grammar: Path, **changes: object) -> TrainSettings:
    return replace(BRIEF, types=TypeSettings(str(grammar), **changes))  # type: ignore[arg-type]


def test_types_that_were_written_and_not_edited_make_the_same_model(
    starter: Path, tmp_path: Path
) -> None:
    types = tmp_path / "mine.grammar"
    typed("types", str(starter / "train.tsv"), "-o", str(types))
    assert "@number" in types.read_text()
    nqg.train(starter / "train.tsv", settings=given(types)).save(tmp_path / "again")
    assert files(tmp_path / "again") == files(starter / "model")


def test_the_types_of_a_model_can_be_given_back(starter: Path, tmp_path: Path) -> None:
    types = starter / "model" / "target.grammar"
    nqg.train(starter / "train.tsv", settings=given(types)).save(tmp_path / "again")
    assert files(tmp_path / "again") == files(starter / "model")


def test_edited_types_are_checked_and_trained_with_as_edited(
    starter: Path, tmp_path: Path
) -> None:
    train = starter / "train.tsv"
    found = training_types(train)
    text = str(found.grammar).replace("set_degrees_argument_1", "room")
    edited = TargetGrammar.parse(f"{text}<room> ::= cellar\n")
    types = tmp_path / "mine.grammar"
    edited.write(types)
    for data in (None, starter / "test.tsv"):
        assert not found.check(edited, data).rejections.numbers
    parser = nqg.train(train, settings=given(types))
    assert isinstance(parser, Parser)
    assert parser.model.target_grammar == edited
    answer = parser.parse("set the attic lamp to 33 percent")
    assert answer.target == "set_level(attic.lamp, 33)"


def test_a_check_names_line_token_and_what_was_expected(
    starter: Path, tmp_path: Path
) -> None:
    train = starter / "train.tsv"
    text = str(training_types(train).grammar).replace("@time | 19:00 | ", "@time | ")
    types = tmp_path / "mine.grammar"
    types.write_text(text)
    result = typed("types", str(train), "--check", str(types))
    assert result.exit_code == 1
    assert "train.tsv:41: the target grammar rejects 'schedule ( 19:00" in result.stdout
    assert "legal up to token 2 '(', expected '8:00' or '@time'" in result.stdout
    # Training refuses it in the same words.
    with pytest.raises(NqgError, match=r"train.tsv:41: .* expected '8:00' or '@time'"):
        nqg.train(train, settings=given(types))
    # Or leaves the pairs out.
    parser = nqg.train(train, settings=given(types, skip_illegal=True))
    assert isinstance(parser, Parser)
    assert parser.model.provenance.data
    assert parser.model.provenance.data.examples < 150


def programs(grammar: str, pairs: Sequence[tuple[str, str]] = PAIRS) -> FittedTypes:
    text = fit_training_text([nqg.Example(*pair) for pair in pairs])
    return FittedTypes.of(TargetGrammar.parse(grammar), text)


def test_numbers_stand_where_a_grammar_without_slots_has_a_number() -> None:
    fitted = programs("<program> ::= set ( <name> , <#> )\n<name> ::= <.>")
    assert "set ( <name> , @number )" in str(fitted.grammar)
    assert fitted.slots_without_place == ()
    assert fitted.text.programs(fitted.text.examples)[0][-2] == "@number"


def test_a_grammar_that_names_a_slot_is_taken_at_its_word() -> None:
    grammar = "<program> ::= set ( <name> , @number ) | wait ( <#> )\n<name> ::= <.>\n"
    assert str(programs(grammar).grammar) == grammar


def test_values_stay_words_where_a_grammar_lists_them(tmp_path: Path) -> None:
    grammar = "<program> ::= set ( <.> , <level> )\n<level> ::= 10 | 25 | 70\n"
    fitted = programs(grammar)
    assert str(fitted.grammar) == grammar
    assert fitted.slots_without_place == ("@number",)
    assert fitted.text.programs(fitted.text.examples)[0][-2] == "10"
    # The parser knows the listed values, and no others.
    types, events = tmp_path / "mine.grammar", list[Event]()
    types.write_text(grammar)
    settings = replace(given(types), confidence=ConfidenceSettings(folds=0))
    parser = nqg.train(PAIRS, settings=settings, listener=events.append)
    notes = [event.text for event in events if isinstance(event, Notice)]
    assert any("has no place for @number: values stay words" in note for note in notes)
    assert parser.parse("set the fan to 25").target == "set(fan, 25)"
    assert parser.parse("set the fan to 26").target is None


def test_a_check_tells_of_slots_without_a_place(tmp_path: Path) -> None:
    (tmp_path / "train.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in PAIRS))
    types = tmp_path / "mine.grammar"
    types.write_text("<program> ::= set ( <.> , <level> )\n<level> ::= 10 | 25 | 70\n")
    result = typed("types", str(tmp_path / "train.tsv"), "--check", str(types))
    assert result.stdout == "15 of 15 programs are legal\n"
    assert "no place for @number" in " ".join(result.stderr.split())


def test_types_of_tools_are_shown_and_given_back(tmp_path: Path) -> None:
    level = {"type": "integer", "minimum": 0}
    parameters = {"properties": {"name": {"enum": list(NAMES)}, "level": level}}
    tools = [{"name": "set", "parameters": parameters}]
    pairs = [
        (f"set the {name} to {level}", f'set(name="{name}", level={level})')
        for name in NAMES
        for level in (10, 25, 70)
    ]
    found = training_types(pairs, tools=tools)
    assert found.inferred is None
    types = tmp_path / "mine.grammar"
    found.grammar.write(types)
    for name, settings in (("first", BRIEF), ("again", given(types))):
        nqg.train(pairs, tools=tools, settings=settings).save(tmp_path / name)
    assert files(tmp_path / "again") == files(tmp_path / "first")
    kept = (tmp_path / "first" / "target.grammar").read_text()
    assert kept == types.read_text()
