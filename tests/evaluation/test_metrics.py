"""Coverage, precision and accuracy: identities, abstentions, and the words of errors."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nqg.answers import Answer, exact_match, program_tokens
from nqg.errors import NqgError
from nqg.evaluation.metrics import (
    Scores,
    expected_calibration_error,
    gain,
    reliability,
    score,
)
from nqg.inference.hybrid import grammar_first
from oracles import calibration_error_by_definition

VERDICTS = st.lists(st.sampled_from([True, False, None]), min_size=1, max_size=40)
PAIRS = st.lists(
    st.tuples(*[st.sampled_from(["right", "wrong", None])] * 2), min_size=1, max_size=40
)


@given(VERDICTS)
def test_accuracy_is_coverage_times_precision(found: list[bool | None]) -> None:
    scores = Scores.of(found)
    assert scores.accuracy == pytest.approx(scores.coverage * (scores.precision or 0.0))
    assert scores.accuracy <= scores.coverage
    assert (scores.precision is None) == (scores.answered == 0)


@given(VERDICTS)
def test_every_figure_lies_in_its_interval(found: list[bool | None]) -> None:
    scores = Scores.of(found)
    for name, interval in scores.intervals().items():
        figure = getattr(scores, name)
        assert (figure is None and interval is None) or (
            interval is not None and figure in interval
        )


@given(VERDICTS)
def test_the_order_of_examples_does_not_matter(found: list[bool | None]) -> None:
    assert Scores.of(found) == Scores.of(sorted(found, key=str))


@given(PAIRS)
def test_a_hybrid_is_right_where_the_grammar_is_or_abstains_and_the_fallback_is(
    pairs: list[tuple[str | None, str | None]],
) -> None:
    answers = [
        grammar_first(Answer("x", own, 0.5), Answer("x", other)) for own, other in pairs
    ]
    grammar, fallback = ([pair[side] for pair in pairs] for side in (0, 1))
    wanted = ["right"] * len(pairs)
    scores = [
        score(each, wanted)
        for each in (grammar, fallback, [answer.target for answer in answers])
    ]
    assert scores[2].right == sum(
        own == "right" or (own is None and other == "right") for own, other in pairs
    )
    assert scores[2].answered == sum(
        own is not None or other is not None for own, other in pairs
    )
    assert scores[2].accuracy >= scores[0].accuracy
    assert scores[2].accuracy - scores[1].accuracy == pytest.approx(
        scores[0].accuracy
        - sum(own is not None and other == "right" for own, other in pairs) / len(pairs)
    )


def test_the_gain_is_that_over_another_system_on_the_same_examples() -> None:
    always, never = gain([True] * 30, [False] * 30), gain([None] * 30, [True] * 30)
    mixed = gain([True, True, False, None] * 25, [False, True, True, False] * 25)
    assert (always.low, always.high) == (1.0, 1.0)
    assert (never.low, never.high) == (-1.0, -1.0)
    assert mixed.low < 0 < mixed.high


def test_a_parser_that_always_abstains_has_an_undefined_precision() -> None:
    scores = score([None, None], ["a", "b"])
    assert scores.precision is None
    assert str(scores) == "accuracy 0.0 %, coverage 0.0 %, precision undefined"
    assert scores.to_dict()["precision"] is None
    assert scores.to_dict()["precision_95"] is None


def test_predictions_are_compared_with_their_own_reference() -> None:
    assert score(["a", None, "a"], ["a", "a", "b"]) == Scores(
        examples=3, answered=2, right=1
    )


def test_what_counts_as_right_can_be_chosen() -> None:
    scores = score(
        ["A", "b"], ["a", "c"], match=lambda found, wanted: found.lower() == wanted
    )
    assert scores.right == 1


@pytest.mark.parametrize(
    ("prediction", "same"),
    [
        ("answer ( count ( m0 ) )", True),
        ("answer(count(m0))", True),
        ("  answer (count( m0 ) )\n", True),
        ("answer ( count ( m1 ) )", False),
        ("Answer ( count ( m0 ) )", False),
        ("answer ( count m0 )", False),
        ("answer ( co unt ( m0 ) )", False),
        ("", False),
    ],
)
def test_exact_match_sees_tokens_and_not_the_space_between_them(
    prediction: str, same: bool
) -> None:
    assert exact_match(prediction, "answer ( count ( m0 ) )") is same


@given(st.text())
def test_normalising_loses_white_space_alone(text: str) -> None:
    tokens = program_tokens(text)
    assert "".join(tokens) == "".join(text.split())
    assert program_tokens(" ".join(tokens)) == tokens


def test_lengths_that_differ_are_an_error() -> None:
    with pytest.raises(
        NqgError, match="expected 2 predictions, one for each example, found 1"
    ):
        score(["a"], ["a", "b"])


@pytest.mark.parametrize("counts", [(0, 0, 0), (2, 3, 1), (3, 1, 2), (3, 1, -1)])
def test_counts_that_make_no_sense_are_refused(counts: tuple[int, int, int]) -> None:
    examples, answered, right = counts
    with pytest.raises(
        NqgError,
        match=f"found {right} right among {answered} answered among {examples}",
    ):
        Scores(*counts)


def test_facts_are_complete() -> None:
    facts = Scores(examples=4, answered=2, right=1).to_dict()
    assert facts["accuracy"] == 0.25
    assert facts["coverage_95"] == pytest.approx([0.15003899, 0.84996101])
    assert list(facts) == [
        "examples",
        "answered",
        "right",
        "accuracy",
        "coverage",
        "precision",
        "accuracy_95",
        "coverage_95",
        "precision_95",
    ]


def test_metrics_do_not_need_torch() -> None:
    modules = (
        "nqg.evaluation.metrics, nqg.evaluation.evaluation, nqg.paper.spider_match"
    )
    program = f"import sys, {modules}; print('torch' in sys.modules)"
    shown = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout
    assert shown.strip() == "False"


CONFIDENCES = st.lists(
    st.tuples(st.floats(0, 1), st.booleans()), min_size=1, max_size=40
)


@given(CONFIDENCES, st.integers(1, 12))
def test_the_calibration_error_is_that_of_its_definition(
    pairs: list[tuple[float, bool]], bins: int
) -> None:
    confidences, verdicts = [level for level, _ in pairs], [right for _, right in pairs]
    found = expected_calibration_error(reliability(confidences, verdicts, bins=bins))
    assert found == pytest.approx(
        calibration_error_by_definition(confidences, verdicts, bins), abs=1e-9
    )


@given(CONFIDENCES, st.integers(1, 12))
def test_adaptive_bins_are_equally_full_and_hold_every_answer_once(
    pairs: list[tuple[float, bool]], bins: int
) -> None:
    found = reliability(
        [level for level, _ in pairs],
        [right for _, right in pairs],
        bins=bins,
        adaptive=True,
    )
    sizes = [each.answers for each in found]
    assert sum(sizes) == len(pairs)
    assert max(sizes) - min(sizes) <= 1
    assert [each.confidence for each in found] == pytest.approx(
        sorted(each.confidence for each in found)
    )


def test_confidence_without_answers_has_no_error_and_without_verdicts_no_meaning() -> (
    None
):
    assert expected_calibration_error(reliability([], [])) == 0
    with pytest.raises(NqgError, match="found 1 confidences, 2 verdicts and 10 bins"):
        reliability([0.5], [True, False])
