"""The choice of settings by trials: the shortest description of the training examples wins, and nothing else counts."""

from __future__ import annotations

import operator
from functools import partial
from typing import Any
from unittest import mock

import pytest

from nqg.data.example import Example
from nqg.errors import NqgError, UnknownName
from nqg.grammar.grammar import Grammar
from nqg.induction import search, tuning
from nqg.induction.candidates import candidates
from nqg.induction.corpus import lexical_rules, underivable
from nqg.induction.description_length import (
    DescriptionLength,
    data_bits,
    description_length,
    grammar_bits,
)
from nqg.induction.induce import Induction, induce
from nqg.induction.settings import InductionSettings
from nqg.induction.tuning import ALTERNATIVES, chosen_settings, trials
from nqg.types.target_grammar import TargetGrammar

VERBS, NAMES = ("gave", "sent", "lent"), ("ann", "bob", "cid")
PAIRS = [Example(word, word) for word in NAMES] + [
    Example(
        f"{giver} {verb} {thing} to {taker}", f"{verb} ( {giver} , {thing} , {taker} )"
    )
    for giver in NAMES
    for verb in VERBS
    for thing in ("tea", "jam")
    for taker in NAMES
]


def test_a_trial_is_a_search_with_one_change_and_the_shortest_description_is_kept() -> (
    None
):
    best, least = InductionSettings.automatic(), float("inf")
    found = list(trials(PAIRS))
    for trial in found:
        settings = best.changed(**trial.changed)
        search = Induction(PAIRS, settings)
        for _ in search.steps():
            pass
        assert (trial.rules, trial.length) == (
            len(search.grammar),
            description_length(search.grammar, PAIRS, settings),
        )
        assert trial.is_best == (trial.length.total < least)
        if trial.is_best:
            best, least = settings, trial.length.total
        assert trial.best == best
    assert len(found) == len(
        ALTERNATIVES
    )  # all but the frame: these programs share no beginning and no end
    assert chosen_settings(PAIRS) == best


def test_lexical_rules_that_no_example_needs_are_not_charged_for() -> None:
    pairs = [
        Example(f"border of {each}", f"border ( {each} )")
        for each in ("ohio", "utah", "iowa")
    ]
    pairs += [
        Example("borders of borders", "border ( border ( all ) )")
    ]  # what repeats in a source is never cut out
    given = {"returning": False}
    first = next(trials(pairs, given))
    settings = InductionSettings.automatic().changed(**given)
    whole = induce(pairs, settings)
    needed = list(whole)
    for rule in sorted(map(str, lexical_rules(pairs))):
        without = [each for each in needed if str(each) != rule]
        if not underivable(Grammar.of(without), pairs):
            needed = without
    charged = grammar_bits(Grammar.of(needed), settings)
    assert charged < grammar_bits(whole, settings)
    assert first.length == DescriptionLength(
        charged, description_length(whole, pairs, settings).data_bits
    )


def test_three_places_in_a_program_ask_for_three_non_terminals() -> None:
    assert chosen_settings(PAIRS).max_non_terminals >= 3
    assert (
        chosen_settings([Example("jump", "J"), Example("walk", "W")]).max_non_terminals
        == 2
    )


@pytest.mark.parametrize(
    "given", [{"max_non_terminals": 1}, {"lexical": False, "data_weight": 1.0}]
)
def test_what_is_given_is_never_changed(given: dict[str, Any]) -> None:
    for trial in trials(PAIRS, given):
        assert not trial.changed.keys() & given.keys()
        assert {name: getattr(trial.best, name) for name in given} == given


def test_where_many_rules_are_left_the_search_does_not_return_unless_that_is_given(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert chosen_settings(PAIRS).returning
    monkeypatch.setattr(tuning, "FEW_RULES", 3)
    assert not chosen_settings(PAIRS).returning
    assert all(trial.best.returning for trial in trials(PAIRS, {"returning": True}))


def test_when_the_budget_is_spent_the_trial_under_way_does_not_count(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert list(trials(PAIRS, is_over=lambda _: True)) == []
    spent: list[int] = []

    def noted(evaluations: int) -> bool:
        spent.append(evaluations)
        return False

    found = list(trials(PAIRS, is_over=noted))
    assert spent == sorted(spent)
    first = next(trials(PAIRS))
    assert str(first) == "as it begins"
    assert first.best == InductionSettings.automatic()
    for budget in (spent[0] - 1, spent[-1] // 2, spent[-1]):
        cut = list(trials(PAIRS, is_over=partial(operator.lt, budget)))
        assert cut == found[: len(cut)]
        assert (len(cut) == len(found)) == (budget == spent[-1])
        monkeypatch.setattr(tuning, "BUDGET", budget)
        assert chosen_settings(PAIRS) == (
            cut[-1].best if cut else InductionSettings.automatic()
        )


def test_evaluations_are_those_of_all_searches_of_an_induction(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Searches that are begun again, and those of returning, count as well."""
    asked = [mock.Mock(wraps=data_bits), mock.Mock(wraps=candidates)]
    monkeypatch.setattr(search, "data_bits", asked[0])
    monkeypatch.setattr(search, "candidates", asked[1])
    induction = Induction(
        PAIRS,
        InductionSettings.automatic().changed(shortest=4, stages=3, factoring=True),
    )
    for _ in induction.steps():
        pass
    assert induction.evaluations == sum(each.call_count for each in asked)


def test_repetitions_change_nothing() -> None:
    assert [trial.length for trial in trials(PAIRS * 3)] == [
        trial.length for trial in trials(PAIRS)
    ]


def test_a_trial_looks_at_a_sample_of_many_examples(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tuning, "TRIAL_EXAMPLES", 12)
    assert next(trials(PAIRS)).rules <= 12 + 8 * len(NAMES)
    monkeypatch.setattr(tuning, "MOST_READ", 10)
    assert chosen_settings(PAIRS) == chosen_settings(PAIRS)


def test_types_hold_in_trials() -> None:
    only_names = TargetGrammar.parse("<program> ::= ann | bob | cid")
    assert {trial.rules for trial in trials(PAIRS, target_grammar=only_names)} == {
        len(PAIRS)
    }


def test_induction_without_settings_takes_the_chosen_ones() -> None:
    assert induce(iter(PAIRS)) == induce(PAIRS, chosen_settings(PAIRS))


def test_no_examples_and_unknown_settings_are_refused() -> None:
    with pytest.raises(NqgError, match="no examples to learn from"):
        chosen_settings([])
    with pytest.raises(UnknownName, match="colour"):
        next(trials(PAIRS, {"colour": 1}))
