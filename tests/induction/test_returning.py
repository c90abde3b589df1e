"""A search that returns: rules that once paid are done without where that leads to a shorter description."""

from __future__ import annotations

import pytest

from nqg.data.example import Example
from nqg.induction.corpus import underivable
from nqg.induction.description_length import description_length
from nqg.induction.induce import Induction
from nqg.induction.search import Phase
from nqg.induction.settings import InductionSettings
from nqg.paper.datasets import load_dataset

SETTINGS = InductionSettings.automatic()


def opposite() -> list[Example]:
    """*Opposite* was only ever heard before *left*."""
    train, _ = load_dataset("scan").split("opposite-right")
    return list(train)


def test_a_rule_that_stands_in_the_way_is_replaced_by_a_shorter_one() -> None:
    induction = Induction(opposite(), SETTINGS)
    steps = [step for step in induction.steps() if step.phase is Phase.RETURNING]
    assert steps
    assert all(step.removed for step in steps)
    assert "opposite ### I_TURN_LEFT" not in str(induction.grammar)


@pytest.mark.parametrize("fitted", [True, False])
def test_every_return_shortens_the_description_that_the_settings_ask_for(
    fitted: bool,
) -> None:
    settings = SETTINGS.changed(fitted=fitted, stages=0, data_weight=1 / 16)
    searched = Induction(opposite(), settings.changed(returning=False))
    for _ in searched.steps():
        pass
    induction = Induction(opposite(), settings)
    before = description_length(searched.grammar, searched.sample, settings).total
    for step in induction.steps():
        if step.phase is Phase.RETURNING:
            after = description_length(
                induction.grammar, induction.sample, settings
            ).total
            assert after < before
            before = after


@pytest.mark.parametrize(
    "split",
    ["jump", "turn-left", "length", "opposite-right", "right", "jump-around-right"],
)
def test_all_examples_of_scan_lead_to_few_rules_that_derive_the_test(
    split: str,
) -> None:
    train, test = load_dataset("scan").split(split)
    induction = Induction(train, SETTINGS)
    for _ in induction.steps():
        pass
    assert len(induction.grammar) <= 20
    assert not underivable(induction.grammar, test[::10])
