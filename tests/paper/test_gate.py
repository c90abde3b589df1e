"""The gate: which threshold, beside trying them all, and what it means for answers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nqg.answers import Answer, exact_match
from nqg.data.example import Example
from nqg.errors import NqgError, SettingsError
from nqg.paper.gate import (
    NEVER,
    Calibration,
    Gate,
    GateTrial,
    calibrated_gate,
    gated,
)
from oracles import best_gate

PROBABILITIES = (
    st.none()
    | st.sampled_from([0.1, 0.25, 0.5, 0.75, 0.9, 1.0])
    | st.floats(0, 1).map(lambda p: round(p, 6))
)


def trials() -> st.SearchStrategy[list[GateTrial]]:
    return st.lists(
        st.builds(GateTrial, PROBABILITIES, st.booleans(), st.booleans()).map(
            abstained
        ),
        min_size=1,
    )


def abstained(trial: GateTrial) -> GateTrial:
    """Who says nothing is not right."""
    return (
        GateTrial(None, False, trial.fallback_is_right)
        if trial.probability is None
        else trial
    )


def right(trials: list[GateTrial], gate: Gate) -> int:
    return sum(trial.is_right(gate) for trial in trials)


@given(trials())
def test_no_gate_gets_more_trials_right_than_the_calibrated_one(
    trials: list[GateTrial],
) -> None:
    assert right(trials, calibrated_gate(trials)) == right(trials, best_gate(trials))


@given(trials())
def test_of_gates_that_do_as_well_the_calibrated_one_lets_most_pass(
    trials: list[GateTrial],
) -> None:
    found, best = calibrated_gate(trials), best_gate(trials)
    asked = [trial.probability for trial in trials if trial.probability is not None]
    assert list(map(found.accepts, asked)) == list(map(best.accepts, asked))


@given(trials())
def test_on_the_trials_the_hybrid_is_at_least_as_good_as_the_better_of_its_parts(
    trials: list[GateTrial],
) -> None:
    figures = calibrated_gate(trials).calibration
    assert figures is not None
    assert figures.gated >= max(
        figures.grammar_alone, figures.fallback_alone, figures.grammar_first
    )


def test_the_figures_count_what_each_way_gets_right() -> None:
    found = calibrated_gate(
        [
            GateTrial(0.3, False, True),
            GateTrial(0.9, True, False),
            GateTrial(None, False, True),
        ]
    )
    assert found.calibration == Calibration(
        3, grammar_alone=1, fallback_alone=2, grammar_first=2, gated=3
    )
    assert str(found) == "the grammar answers where its confidence is at least 0.9"
    assert str(found.calibration) == (
        "right on 3 held-out examples: grammar alone 33.3%, fallback alone 66.7%, grammar first 66.7%, gated 100.0%"
    )


@pytest.mark.parametrize(
    ("trials", "gate", "words"),
    [
        ([GateTrial(0.2, True, True)], Gate(), "the grammar answers whenever it can"),
        ([GateTrial(None, False, True)], Gate(), "the grammar answers whenever it can"),
        (
            [GateTrial(0.2, False, True), GateTrial(1.0, False, True)],
            Gate(NEVER, False),
            "the fallback answers always",
        ),
        (
            [GateTrial(0.2, False, True), GateTrial(1 - 1e-12, True, False)],
            Gate(1.0),
            "where its confidence is at least 1",
        ),
        (
            [GateTrial(0.9, True, False), GateTrial(1.0, False, True)],
            Gate(0.0, False),
            "whenever it can, but not where it is 1",
        ),
    ],
    ids=[
        "a tie",
        "only abstentions",
        "never right",
        "nearly one is one",
        "only readings are no sure ones",
    ],
)
def test_extremes(trials: list[GateTrial], gate: Gate, words: str) -> None:
    found = calibrated_gate(trials)
    assert (found.threshold, found.trusts_only_readings) == (
        gate.threshold,
        gate.trusts_only_readings,
    )
    assert str(found).endswith(words)


def test_rounding_errors_do_not_close_the_gate() -> None:
    assert Gate(1.0).accepts(1 - 1e-12)
    assert not Gate(1.0).accepts(0.999)
    assert not Gate(NEVER).accepts(1.0)
    assert Gate().accepts(0.0)


def test_a_gate_without_trials_is_refused() -> None:
    with pytest.raises(NqgError, match="calibrated on held-out examples, found none"):
        calibrated_gate([])


@pytest.mark.parametrize("threshold", [-0.1, float("nan")])
def test_a_threshold_that_makes_no_sense_is_refused(threshold: float) -> None:
    with pytest.raises(
        SettingsError, match=r"expected 0 \(always the grammar\) or more"
    ):
        Gate(threshold)


def test_a_calibration_that_counts_more_right_answers_than_trials_is_refused() -> None:
    with pytest.raises(SettingsError, match="expected 0 to 2 as 'grammar_alone'"):
        Calibration(2, 3, 0, 0, 0)
    with pytest.raises(SettingsError, match="at least one trial"):
        Calibration(0, 0, 0, 0, 0)


# What the gate means for answers

WALK = Answer("walk", "WALK", 1.0, "grammar")
RUN = Answer("run", "RUN", 0.4, "grammar")
SILENT = Answer("run", system="fallback")
JOG = Answer("run", "JOG", system="fallback")


def test_a_gate_hands_over_where_the_grammar_is_not_sure() -> None:
    answer = gated(RUN, JOG, Gate(0.5))
    assert (answer.target, answer.system) == ("JOG", "fallback")
    assert answer.reason == "probability 0.4 is below 0.5"
    assert [part.target for part in answer.parts] == [None, "JOG"]


def test_where_the_fallback_has_no_answer_the_doubtful_one_of_the_grammar_is_given() -> (
    None
):
    answer = gated(RUN, SILENT, Gate(0.5))
    assert (answer.target, answer.system, answer.reason) == ("RUN", "grammar", "")


def test_a_gate_may_distrust_answers_that_are_the_only_reading() -> None:
    gate = Gate(0.2, trusts_only_readings=False)
    stroll = Answer("walk", "STROLL", system="fallback")
    answer = gated(WALK, stroll, gate)
    assert answer.target == "STROLL"
    assert answer.reason == "the only reading, which the gate does not trust"
    assert gated(RUN, JOG, gate).target == "RUN"


ANSWERS = st.sampled_from(["R", "W", None])


@given(ANSWERS, ANSWERS, st.floats(0, 1), st.floats(0, 2))
def test_every_answer_follows_the_rule_and_its_trial_says_whether_it_is_right(
    by_grammar: str | None,
    by_fallback: str | None,
    probability: float,
    threshold: float,
) -> None:
    gate, example = Gate(threshold), Example("run", "R")
    grammar = Answer("run", by_grammar, probability, "grammar")
    fallback = Answer("run", by_fallback, system="fallback")
    is_sure = by_grammar is not None and gate.accepts(probability)
    expected = by_grammar if is_sure else by_fallback or by_grammar
    assert gated(grammar, fallback, gate).target == expected
    trial = GateTrial.of(
        grammar, fallback, example, lambda program, each: program == each.target
    )
    assert trial.is_right(gate) == exact_match(expected, "R")
