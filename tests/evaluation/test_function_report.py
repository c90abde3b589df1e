"""The report of each function, and that of sentences out of scope."""

from __future__ import annotations

import pytest

from nqg.answers import Answer
from nqg.data.example import Example
from nqg.evaluation.evaluation import Evaluation, ExactJudge, ScopeEvaluation
from nqg.evaluation.function_report import function_of


@pytest.mark.parametrize(
    ("program", "function"),
    [
        ('alarm(time="7:00")', "alarm"),
        ("schedule ( 7 , off ( lamp ) )", "schedule"),
        ('{"name": "move", "arguments": {"to": "dock"}}', "move"),
        ("play(song=1); stop()", "play"),
        ("SELECT name FROM rivers", "SELECT"),
        ("", ""),
    ],
)
def test_a_program_belongs_to_the_function_that_it_calls_first(
    program: str, function: str
) -> None:
    assert function_of(program) == function


def test_functions_are_reported_the_worst_first_with_their_sentences() -> None:
    examples = [
        Example("go on", "go()"),
        Example("stop", "stop()"),
        Example("halt", "stop()"),
        Example("play it", "play()"),
    ]
    answers = [
        Answer("go on", "go()"),
        Answer("stop", "go()"),
        Answer("halt", reason="no derivation"),
        Answer("play it", "play()"),
    ]
    evaluation = Evaluation(ExactJudge(), examples, answers)
    worst, *others = evaluation.to_dict()["functions"]
    assert worst == {
        "function": "stop",
        "right": 0,
        "wrong": ("stop",),
        "abstained": ("halt",),
    }
    assert [each["function"] for each in others] == ["go", "play"]


def test_answers_to_sentences_out_of_scope_are_counted() -> None:
    scope = ScopeEvaluation([Answer("sing"), Answer("dance", "play()", confidence=0.7)])
    assert str(scope) == "2 sentences out of scope, 1 of them answered"
    assert scope.to_dict() == {
        "sentences": 2,
        "answered": [{"source": "dance", "prediction": "play()", "confidence": 0.7}],
    }
