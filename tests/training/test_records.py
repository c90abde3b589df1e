"""Records of training, as objects and as lines of JSON."""

from __future__ import annotations

import json
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from nqg.errors import Place
from nqg.training.records import DevScores, TrainingStep, step_in

FINITE = st.floats(allow_nan=False, allow_infinity=False)
SCORES = st.none() | st.builds(DevScores, st.floats(0, 1), st.none() | FINITE)


@given(st.builds(TrainingStep, st.integers(1), FINITE, FINITE, SCORES))
def test_a_line_leads_back_to_the_same_record(step: TrainingStep) -> None:
    assert (
        step_in(
            json.loads(json.dumps(step.to_dict())), Place(Path("training.jsonl"), 1)
        )
        == step
    )


def test_a_line_names_dev_scores_only_where_they_were_taken() -> None:
    plain, tried = (
        TrainingStep(1, 2.0, 0.1),
        TrainingStep(2, 1.0, 0.1, DevScores(0.5, None)),
    )
    assert (
        json.dumps(plain.to_dict()) == '{"step": 1, "loss": 2.0, "learning_rate": 0.1}'
    )
    assert json.loads(json.dumps(tried.to_dict()))["dev_loss"] is None
    assert tried.to_dict()["dev_exact_match"] == 0.5


@given(SCORES.filter(bool), SCORES.filter(bool))
def test_of_two_scores_at_most_one_is_better(one: DevScores, other: DevScores) -> None:
    assert not (one.is_better_than(other) and other.is_better_than(one))
    assert not one.is_better_than(one)


def test_right_answers_come_before_the_loss() -> None:
    assert DevScores(0.6, 9.0).is_better_than(DevScores(0.5, 0.1))
    assert DevScores(0.5, 0.1).is_better_than(DevScores(0.5, 0.2))
    assert not DevScores(0.5, None).is_better_than(DevScores(0.5, 0.2))
    assert not DevScores(0.5, 0.2).is_better_than(DevScores(0.5, None))
