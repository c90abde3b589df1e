"""Judges by name, and an evaluation with everything that is told about it."""

from __future__ import annotations

from pathlib import Path

import pytest

from nqg.answers import Answer
from nqg.data.example import Example
from nqg.errors import NqgError, UnknownName
from nqg.evaluation.evaluation import Evaluation, ExactJudge, judge_named
from nqg.evaluation.metrics import Scores
from nqg.inference.hybrid import grammar_first
from nqg.paper.datasets import load_dataset
from nqg.paper.judges import SpiderJudge
from nqg.paper.spider_match import SpiderReport
from strategies import PET_SCHEMA

EXAMPLES = [
    Example("walk", "W", "a"),
    Example("jump", "J"),
    Example("hop", "H"),
    Example("walk twice", "W W"),
]
OWN = [
    Answer("walk", "W", 0.5, "grammar"),
    Answer("jump", system="grammar", reason="no derivation"),
    Answer("hop", "J", 0.25, "grammar"),
    Answer("walk twice", system="grammar", reason="no valid program"),
]
OTHERS = [
    Answer(example.source, target, system="t5")
    for example, target in zip(EXAMPLES, "JJH", strict=False)
]
BOTH = [
    grammar_first(*pair)
    for pair in zip(OWN, [*OTHERS, Answer("walk twice", system="t5")], strict=True)
]
SQL = [
    Example("pets_1: who?", "select name from student where age > 3"),
    Example("pets_1 : x", "select age from student"),
]
SPIDER = SpiderJudge({"pets_1": PET_SCHEMA})


def test_a_system_alone_has_one_row() -> None:
    found = Evaluation(ExactJudge(), EXAMPLES, OWN)
    assert found.systems == {"grammar": Scores(examples=4, answered=2, right=1)}
    assert (found.gain, found.report) == (None, None)
    assert list(found.to_dict()) == ["systems", "gain_95", "functions"]


def test_with_a_fallback_there_are_three_rows_and_a_gain() -> None:
    found = Evaluation(ExactJudge(), EXAMPLES, BOTH)
    assert found.systems == {
        "grammar": Scores(4, 2, 1),
        "t5": Scores(4, 3, 2),
        "grammar, else t5": Scores(4, 3, 2),
    }
    assert found.gain is not None
    assert 0.0 in found.gain
    assert found.to_dict()["gain_95"] == [found.gain.low, found.gain.high]


def test_lines_tell_who_said_what_and_whether_it_is_right() -> None:
    lines = list(Evaluation(ExactJudge(), EXAMPLES, BOTH).lines())
    assert [(line["by"], line["prediction"], line["right"]) for line in lines] == [
        ("grammar", "W", True),
        ("t5", "J", True),
        ("grammar", "J", False),
        ("grammar", None, None),
    ]
    assert lines[0]["id"] == "a"
    assert "id" not in lines[1]
    assert (lines[0]["source"], lines[0]["reference"], lines[0]["probability"]) == (
        "walk",
        "W",
        0.5,
    )


def test_where_the_fallback_was_not_asked_about_all_only_the_hybrid_is_scored() -> None:
    found = Evaluation(ExactJudge(), EXAMPLES, [OWN[0], *BOTH[1:]])
    assert found.systems == {"grammar or t5": Scores(4, 3, 2)}
    assert found.gain is None


def test_every_example_needs_an_answer() -> None:
    with pytest.raises(
        NqgError, match="expected an answer to each of 4 examples, found 3"
    ):
        Evaluation(ExactJudge(), EXAMPLES, OWN[:3])


def test_spiders_judge_reads_sql_and_the_tokens_of_a_grammar() -> None:
    assert SPIDER.is_right(
        "select student . name from student where student . age > ' a b '", SQL[0]
    )
    assert SPIDER.is_right(
        "SELECT T1.name FROM student AS T1 WHERE T1.age > 10", SQL[0]
    )
    assert not SPIDER.is_right("select age from student", SQL[0])
    assert not SPIDER.is_right("select name from student where age > '", SQL[0])


def test_spiders_tables_come_with_its_judge() -> None:
    answers = [
        Answer("x", "select age from student where age > 7"),
        Answer("y", "nonsense"),
    ]
    report = Evaluation(SPIDER, SQL, answers).report
    assert isinstance(report, SpiderReport)
    assert {str(level): scores for level, scores in report.levels.items()} == {
        "easy": Scores(2, 1, 0)
    }
    assert set(report.to_dict()) == {"hardness"}


def test_a_report_on_nothing_is_empty() -> None:
    report = SpiderReport.of([])
    assert report.levels == {}


def test_spiders_judge_needs_a_database_that_it_knows_and_a_reference_that_it_can_read() -> (
    None
):
    with pytest.raises(UnknownName, match="no database 'pets'; did you mean 'pets_1'"):
        SPIDER.is_right(
            "select age from student", Example("pets: who?", "select age from student")
        )
    with pytest.raises(
        NqgError,
        match="the reference 'select x from student' cannot be read: expected a column",
    ):
        SPIDER.is_right(
            "select age from student", Example("pets_1: who?", "select x from student")
        )


def test_a_metric_is_chosen_by_name(real_data: Path) -> None:
    assert isinstance(judge_named("exact"), ExactJudge)
    assert isinstance(judge_named("spider", real_data), SpiderJudge)
    with pytest.raises(UnknownName, match="no metric 'spyder'; did you mean 'spider'"):
        judge_named("spyder")


def test_the_same_answers_are_right_by_denotation(real_data: Path) -> None:
    judge = judge_named("denotation", real_data)
    examples = load_dataset("geoquery", real_data).examples
    example = next(
        each
        for each in examples
        if each.target == "answer ( intersection ( city , loc_2 ( m0 ) ) )"
    )
    same, other = (
        "answer ( intersection ( loc_2 ( m0 ) , city ) )",
        "answer ( intersection ( river , loc_2 ( m0 ) ) )",
    )
    assert judge.is_right(same, example)
    assert judge.is_right(same, Example(example.source, example.target))
    assert not judge.is_right(other, example)
    assert not judge.is_right("answer (", example)
    assert not ExactJudge().is_right(same, example)
    with pytest.raises(
        NqgError,
        match="'walk' with 'W' is not an example of GeoQuery; use --metric exact",
    ):
        judge.is_right("W", EXAMPLES[0])
