"""The breakdown of errors: each wrong or missing prediction has one cause, and the counts add up."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nqg.answers import Answer
from nqg.data.example import Example
from nqg.evaluation.error_analysis import Breakdown, Cause, Finding, breakdown
from nqg.evaluation.evaluation import ExactJudge, Judge
from nqg.grammar.chart import charts
from nqg.grammar.grammar import Grammar
from nqg.grammar.semirings import best_derivations
from nqg.inference.gaps import gaps
from nqg.inference.hybrid import grammar_first
from nqg.paper.datasets import load_dataset
from nqg.paper.funql import funql_target_grammar
from oracles import all_derivations
from strategies import grammars, sentences

SCAN = Grammar.parse("""
jump ### I_JUMP
run ### I_JUMP
walk ### I_WALK
NT_1 twice ### NT_1 NT_1
NT_1 and walk ### NT_1 I_WALK
NT_1 and walk ### I_WALK NT_1
""")
TRAIN = [
    Example("jump twice", "I_JUMP I_JUMP"),
    Example("walk", "I_WALK"),
    Example("walk walk", "I_WALK I_WALK"),
]


Row = tuple[Example, Answer]


def by_grammar(target: str | None, reason: str = "") -> Answer:
    return Answer("x", target, system="grammar", reason=reason)


def by_fallback(target: str | None) -> Answer:
    return Answer("x", target, system="t5")


def row(example: Example, own: Answer, other: Answer | None = None) -> Row:
    return example, grammar_first(own, other) if other else own


def explained(
    rows: Sequence[Row],
    train: Sequence[Example],
    grammar: Grammar | None = None,
    judge: Judge = ExactJudge(),  # noqa: B008 (has no state)
) -> Breakdown:
    examples, answers = [example for example, _ in rows], [answer for _, answer in rows]
    return breakdown(examples, answers, train=train, grammar=grammar, judge=judge)


def finding(source: str, gold: str, answer: Answer) -> Finding:
    """The one finding about an example that SCAN's grammar was asked."""
    (found,) = explained(
        [row(Example(source, gold), answer)], train=TRAIN, grammar=SCAN
    ).findings
    return found


def sequence_finding(gold: str, prediction: str | None) -> Finding:
    (found,) = explained(
        [row(Example("x", gold), by_fallback(prediction))], train=TRAIN
    ).findings
    return found


@pytest.mark.parametrize(
    ("source", "gold", "answer", "cause", "detail"),
    [
        (
            "swim",
            "I_SWIM",
            by_grammar(None, "no derivation"),
            Cause.UNKNOWN_WORD,
            "no rule knows 'swim'",
        ),
        (
            "jump walk",
            "I_JUMP I_WALK",
            by_grammar(None),
            Cause.UNKNOWN_CONSTRUCTION,
            "'jump' and 'walk' are known, but not how to join them",
        ),
        (
            "jump",
            "I_JUMP",
            by_grammar(None, "no valid program"),
            Cause.ILLEGAL_TARGET,
            "no valid program; the grammar can derive the right program",
        ),
        (
            "run",
            "I_RUN",
            by_grammar(None, "too long"),
            Cause.TOO_LONG,
            "too long; the grammar cannot derive the right program",
        ),
        (
            "jump",
            "I_JUMP",
            by_grammar(None, "probability 0.4 is below 0.5"),
            Cause.WITHHELD,
            "probability 0.4 is below 0.5; the grammar can derive the right program",
        ),
        (
            "jump and walk",
            "I_JUMP I_WALK",
            by_grammar("I_WALK I_JUMP"),
            Cause.WRONG_DERIVATION,
            "symbol 1 is 'I_WALK', expected 'I_JUMP'",
        ),
        (
            "run",
            "I_RUN",
            by_grammar("I_JUMP"),
            Cause.GOLD_NOT_DERIVABLE,
            "symbol 1 is 'I_JUMP', expected 'I_RUN'",
        ),
    ],
)
def test_an_error_of_the_grammar_has_its_cause(
    source: str, gold: str, answer: Answer, cause: Cause, detail: str
) -> None:
    found = finding(source, gold, answer)
    assert (found.cause, found.detail) == (cause, detail)


def test_an_abstention_also_tells_whether_the_right_program_was_among_the_derivations() -> (
    None
):
    there, not_there = (
        finding("jump", gold, by_grammar(None, "no valid program"))
        for gold in ("I_JUMP", "I_RUN")
    )
    assert there.causes == (Cause.ILLEGAL_TARGET, Cause.WRONG_DERIVATION)
    assert not_there.causes == (Cause.ILLEGAL_TARGET, Cause.GOLD_NOT_DERIVABLE)


def test_an_error_of_another_system_has_every_cause_that_holds() -> None:
    found = sequence_finding("I_JUMP I_WALK", "I_JUMP I_JUMP")
    assert found.causes == (Cause.UNSEEN_TRIGRAM, Cause.RARE_ATOM)
    assert found.detail == (
        "symbol 2 is 'I_JUMP', expected 'I_WALK'; training never has 'I_WALK' there; one training example has I_JUMP"
    )


def test_the_gravest_cause_comes_first() -> None:
    found = sequence_finding("I_WALK I_WALK I_RUN", "I_WALK I_WALK")
    assert found.causes == (
        Cause.LONGER_TARGET,
        Cause.UNSEEN_ATOM,
        Cause.UNSEEN_TRIGRAM,
    )
    assert "training has at most 2 symbols; training lacks I_RUN" in found.detail


def test_an_error_that_training_does_not_explain_is_other() -> None:
    found = sequence_finding("I_WALK I_WALK", "I_WALK I_JUMP")
    assert (found.causes, found.detail) == (
        (Cause.OTHER,),
        "symbol 2 is 'I_JUMP', expected 'I_WALK'",
    )


def test_a_system_without_an_answer_has_none() -> None:
    assert sequence_finding("I_WALK", None).cause == Cause.NO_ANSWER


def test_right_predictions_are_no_findings_whatever_their_white_space() -> None:
    rows = [
        row(Example("walk", "I_WALK"), by_grammar(" I_WALK ")),
        row(Example("x", "f(y)"), by_grammar("f ( y )")),
    ]
    assert explained(rows, train=TRAIN, grammar=SCAN) == Breakdown({"grammar": 2}, ())


def test_a_judge_of_ones_own_decides_what_is_right() -> None:
    wrong = row(Example("jump and walk", "I_JUMP I_WALK"), by_grammar("I_WALK I_JUMP"))

    class AnyOrder:
        def is_right(self, prediction: str, example: Example) -> bool:
            return sorted(prediction.split()) == sorted(example.target.split())

    found = explained([wrong], train=[], grammar=SCAN, judge=AnyOrder())
    assert not found.findings


def test_the_fallback_answers_for_what_the_grammar_left_and_only_for_that() -> None:
    walk, swim, fly = (
        Example("walk", "I_WALK"),
        Example("swim", "I_SWIM"),
        Example("fly", "I_FLY"),
    )
    rows = [
        row(walk, by_grammar("I_WALK"), by_fallback("I_SWIM")),
        row(swim, by_grammar(None), by_fallback("I_SWIM")),
        row(fly, by_grammar(None), by_fallback("I_SWIM")),
    ]
    found = explained(rows, train=TRAIN, grammar=SCAN)
    assert found.asked == {"grammar": 3, "t5": 2}
    assert [each.answer.system for each in found.findings] == [
        "grammar",
        "grammar",
        "t5",
    ]
    assert [each.example for each in found.findings if each.answer.system == "t5"] == [
        fly
    ]


def test_the_table_counts_causes_and_shows_the_shortest_sentence() -> None:
    rows = [
        row(Example("please swim", "I_SWIM"), by_grammar(None)),
        row(Example("swim", "I_SWIM"), by_grammar(None)),
        row(Example("run", "I_RUN"), by_grammar("I_JUMP")),
        row(Example("walk", "I_WALK"), by_grammar("I_WALK")),
    ]
    table = explained(rows, train=TRAIN, grammar=SCAN).table()
    assert [(line.cause, line.errors, line.share) for line in table] == [
        (Cause.UNKNOWN_WORD, 2, 2 / 3),
        (Cause.GOLD_NOT_DERIVABLE, 1, 1 / 3),
    ]
    assert table[0].example.example.source == "swim"


def test_a_cause_that_never_comes_first_is_in_the_table_with_no_errors_of_its_own() -> (
    None
):
    rows = [row(Example("x", "I_JUMP I_WALK"), by_fallback("I_JUMP I_JUMP"))]
    table = explained(rows, train=TRAIN).table()
    assert [(line.cause, line.errors, line.holds) for line in table] == [
        (Cause.UNSEEN_TRIGRAM, 1, 1),
        (Cause.RARE_ATOM, 0, 1),
    ]


def test_what_the_grammar_lacks_is_counted_by_word_and_by_construction() -> None:
    sources = ["swim", "swim twice", "jump walk", "walk jump", "fly swim"]
    rows = [row(Example(source, "x"), by_grammar(None)) for source in sources]
    assert explained(rows, train=[], grammar=SCAN).lacks() == {
        "swim": 3,
        "NT_1 NT_2": 2,
        "fly": 1,
    }


def test_records_are_lines_of_json() -> None:
    rows = [
        row(
            Example("swim twice", "I_SWIM I_SWIM", "7"),
            by_grammar(None),
            by_fallback("I_SWIM"),
        ),
    ]
    records = [
        finding.to_dict()
        for finding in explained(rows, train=TRAIN, grammar=SCAN).findings
    ]
    lines = [json.loads(json.dumps(record)) for record in records]
    assert lines[0] == {
        "id": "7",
        "source": "swim twice",
        "reference": "I_SWIM I_SWIM",
        "prediction": None,
        "by": "grammar",
        "cause": "unknown_word",
        "traits": ["unknown_word"],
        "detail": "no rule knows 'swim'",
        "unknown": ["swim"],
        "pattern": "swim twice",
        "first_wrong": None,
    }
    assert lines[1]["cause"] == "unseen_atom"
    assert lines[1]["first_wrong"] == {
        "place": 1,
        "found": "<end>",
        "expected": "I_SWIM",
    }


def test_no_rows_are_no_findings() -> None:
    assert explained([], train=[], grammar=SCAN) == Breakdown({}, ())


targets = st.lists(st.sampled_from(["x", "y"]), min_size=1, max_size=4).map(" ".join)


@given(grammars(), sentences, targets, st.none() | targets)
def test_causes_agree_with_the_list_of_all_derivations(
    grammar: Grammar, source: tuple[str, ...], gold: str, prediction: str | None
) -> None:
    example = Example(" ".join(source), gold)
    found = explained(
        [row(example, by_grammar(prediction))], train=[], grammar=grammar
    ).findings
    derived = {
        " ".join(derivation.target) for derivation in all_derivations(grammar, source)
    }
    if prediction == gold:
        assert not found
    elif prediction is None and not derived:
        assert found[0].gaps == gaps(grammar, source)
    elif prediction is None:
        assert found[0].cause == Cause.WITHHELD
    else:
        assert found[0].cause == (
            Cause.WRONG_DERIVATION if gold in derived else Cause.GOLD_NOT_DERIVABLE
        )


def guesses(grammar: Grammar, examples: Sequence[Example]) -> list[Answer]:
    """What a parser without a scorer says: any derivation is as good as another."""
    graph = charts(grammar, [example.source_tokens for example in examples])
    legal = funql_target_grammar()
    answers = []
    for best in best_derivations(grammar, graph, np.zeros(graph.hyperedges)):
        if best is None:
            answers.append(by_grammar(None, "no derivation"))
        elif legal.accepts(best.derivation.target):
            answers.append(by_grammar(" ".join(best.derivation.target)))
        else:
            answers.append(by_grammar(None, "no valid program"))
    return answers


def test_every_error_of_a_guessing_parser_on_geoquery_has_a_cause(
    real_data: Path, reference_grammars: Path
) -> None:
    grammar = Grammar.read(reference_grammars / "geoquery-tmcd.rules.txt")
    train, test = load_dataset("geoquery", real_data).split("tmcd")
    answers = guesses(grammar, test)
    fallback = [by_fallback("answer ( state )")] * len(test)
    rows = [row(*each) for each in zip(test, answers, fallback, strict=True)]
    found = explained(rows, train=train, grammar=grammar)
    wrong = sum(
        answer.target != example.target
        for answer, example in zip(answers, test, strict=True)
    )
    assert sum(each.answer.system == "grammar" for each in found.findings) == wrong
    assert sum(line.errors for line in found.table() if line.by == "grammar") == wrong
    counts = {line.cause: line.errors for line in found.table() if line.by == "grammar"}
    underivable = counts[Cause.UNKNOWN_WORD] + counts[Cause.UNKNOWN_CONSTRUCTION]
    assert underivable == sum(answer.reason == "no derivation" for answer in answers)
    assert counts[Cause.ILLEGAL_TARGET] == sum(
        answer.reason == "no valid program" for answer in answers
    )
    assert next(iter(found.lacks().values())) > 1
    assert all(each.detail for each in found.findings)
