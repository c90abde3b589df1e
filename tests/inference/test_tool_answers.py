"""A second reader's programs that do not fit the tools are not answers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from nqg.answers import Answer
from nqg.inference.hybrid import TokenSystem
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
