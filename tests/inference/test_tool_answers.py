"""Programs that do not fit the tools, or lack an argument, are not answers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from nqg.answers import Answer
from nqg.data.example import Example
from nqg.grammar.grammar import Grammar, Rule
from nqg.inference.hybrid import TokenSystem
from nqg.inference.parser import Parser
from nqg.model.settings import EncoderSettings, ModelSettings, TrainingSettings
from nqg.pipeline.parser import fit_parser
from nqg.preprocessing.preprocessor import Preprocessor
from nqg.types.tools import read_tools

DIM = {
    "name": "dim",
    "parameters": {"properties": {"percent": {"type": "integer", "maximum": 100}}},
}


class Reader:
    """Answers every sentence with its programs, given as tokens."""

    def __init__(self, *programs: str) -> None:
        self.programs = programs

    def answers(self, sentences: Iterable[str]) -> Iterator[Answer]:
        for sentence in sentences:
            yield Answer(sentence, self.programs[0])

    def candidates(self, sentences: Sequence[str], count: int) -> list[list[Answer]]:
        return [
            [Answer(sentence, program) for program in self.programs[:count]]
            for sentence in sentences
        ]


def test_a_program_outside_of_the_bounds_is_an_abstention_with_the_reason() -> None:
    reader = Reader("dim ( percent = 120 )", "dim ( percent = 12 )")
    system = TokenSystem(reader, Preprocessor(), tools=read_tools([DIM]))
    answer = system.parse("dim to 120")
    assert answer.target is None
    assert "expected at most 100, found 120" in answer.reason
    ((candidate,),) = system.candidates(["dim to 120"], 2)
    assert candidate.target == "dim ( percent = 12 )"


def test_without_tools_every_program_is_an_answer() -> None:
    system = TokenSystem(Reader("dim ( percent = 120 )"), Preprocessor())
    assert system.parse("dim to 120").target == "dim ( percent = 120 )"


REQUIRED = {"dim": ("percent",)}
LACKING = "dim NT_1 ### dim ( room = NT_1 )"
WHOLE = "dim NT_1 ### dim ( room = NT_1 , percent = 50 )"


def parser_of(*rules: str) -> Parser:
    """A parser that was hardly trained and has required arguments."""
    encoder = EncoderSettings(hidden_size=16, layers=1, heads=2)
    parser = fit_parser(
        Grammar.parse("\n".join(["attic ### attic", *rules])),
        [Example("dim attic", "dim ( room = attic )")],
        model=ModelSettings(dimension=8, embedded=encoder),
        training=TrainingSettings(steps=1, batch_size=1),
        device="cpu",
    )
    return Parser(replace(parser.model, required=REQUIRED))


def test_a_reading_that_lacks_an_argument_gives_way_to_one_that_has_it() -> None:
    answer = parser_of(LACKING, WHOLE).parse("dim attic")
    assert answer.target == "dim ( room = attic , percent = 50 )"


def test_without_another_reading_the_lack_is_the_reason_of_an_abstention(
    tmp_path: Path,
) -> None:
    parser = parser_of(LACKING)
    parser.save(tmp_path / "model")
    for system in (parser, Parser.load(tmp_path / "model", "cpu")):
        answer = system.parse("dim attic")
        assert answer.target is None
        assert "dim: argument 'percent' is missing" in answer.reason


def test_a_rule_by_hand_may_call_without_an_argument_that_training_always_has() -> None:
    model = parser_of(LACKING).model
    rule = Rule.parse("darken ### dim ( room = attic )")
    parser = Parser(model.with_rules_by_hand([rule]))
    assert parser.parse("darken").target == "dim ( room = attic )"


def test_a_second_reader_needs_the_arguments_too() -> None:
    reader = Reader("dim ( room = attic )", "dim ( percent = 12 )")
    system = TokenSystem(reader, Preprocessor(), required=REQUIRED)
    assert "'percent' is missing" in system.parse("dim the attic").reason
    ((candidate,),) = system.candidates(["dim the attic"], 2)
    assert candidate.target == "dim ( percent = 12 )"
