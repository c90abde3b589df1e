"""Searches on a part of the examples: which part, what is added for the rest, and stages that widen it."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nqg.data.example import Example
from nqg.data.scan import scan_examples
from nqg.errors import NqgError, SettingsError
from nqg.induction import induce as module
from nqg.induction.corpus import shortest_first, underivable
from nqg.induction.induce import Induction, InductionStep, induce
from nqg.induction.search import Phase
from nqg.induction.settings import InductionSettings
from nqg.paper.datasets import load_dataset
from strategies import corpora, induction_settings

SCAN = InductionSettings.named("scan")
CORPUS = [
    Example(*pair.split(" = "))
    for pair in ("jump = J", "jump twice = J J", "hop twice = H H", "walk = W")
]


@cache
def jump_examples() -> list[Example]:
    jumps = [example for example in scan_examples() if "jump" in example.source_tokens]
    return [
        example
        for example in jumps
        if example.source == "jump" or "turn" not in example.source_tokens
    ][::7]


@given(corpora(), st.none() | st.integers(1, 9))
def test_the_shortest_are_the_first_of_all_in_order_each_once(
    corpus: list[Example], count: int | None
) -> None:
    doubled = [*corpus, *reversed(corpus)]
    distinct: dict[object, Example] = {}
    for example in doubled:
        distinct.setdefault((example.source_tokens, example.target_tokens), example)
    in_order = sorted(distinct.values(), key=lambda example: len(example.source_tokens))
    assert shortest_first(doubled, count) == in_order[:count]


@pytest.mark.parametrize("pair", [("", "J"), ("jump", " ")])
def test_a_pair_with_an_empty_side_is_refused_however_long_the_others_are(
    pair: tuple[str, str],
) -> None:
    with pytest.raises(NqgError, match="has an empty side; a rule needs words on both"):
        shortest_first([Example("jump", "J"), Example(*pair)], 1)


def test_examples_are_checked_part_by_part(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = SCAN.changed(shortest=2)
    expected = induce(CORPUS * 3, settings)
    monkeypatch.setattr(module, "CHECKED_AT_ONCE", 3)
    assert induce(CORPUS * 3, settings) == expected


@given(corpora(), induction_settings())
def test_whatever_the_stages_everything_can_be_derived(
    corpus: list[Example], settings: InductionSettings
) -> None:
    assert not underivable(induce(corpus, settings), corpus)


@given(corpora(), induction_settings())
def test_every_stage_takes_what_is_missing_shortest_first_as_much_again(
    corpus: list[Example], settings: InductionSettings
) -> None:
    induction = Induction(corpus, settings)
    steps, before = list[InductionStep](), induction.length
    for step in induction.steps():
        if step.phase is Phase.SAMPLING:
            assert step.saved.total == pytest.approx(
                before.total - step.length.total, abs=1e-6
            )
        steps, before = [*steps, step], step.length
    widenings = [step for step in steps if step.phase is Phase.SAMPLING]
    assert len(widenings) <= (0 if settings.shortest is None else settings.stages)
    assert all(step.added and not step.removed for step in widenings)


def test_stages_learn_from_few_examples_what_is_in_many() -> None:
    corpus = jump_examples()
    few = SCAN.changed(shortest=20)
    without, staged = induce(corpus, few), induce(corpus, few.changed(stages=8))
    assert not underivable(staged, corpus)
    assert len(staged) < len(without) / 4


def test_without_a_bound_on_the_sample_there_are_no_stages() -> None:
    settings = SCAN.changed(shortest=None)
    assert list(Induction(CORPUS, settings.changed(stages=3)).steps()) == list(
        Induction(CORPUS, settings).steps()
    )


def test_a_negative_number_of_stages_is_refused() -> None:
    with pytest.raises(SettingsError, match="stages is -1; expected 0 or more"):
        InductionSettings(stages=-1)


@pytest.mark.parametrize("split", ["jump", "length"])
@pytest.mark.parametrize("shortest", [50, 100])
def test_stages_find_a_small_grammar_of_scan_from_the_hundred_shortest_or_fewer(
    real_data: Path, split: str, shortest: int
) -> None:
    train, test = load_dataset("scan", real_data).split(split)
    grammar = induce(train, SCAN.changed(shortest=shortest, stages=8))
    assert len(grammar) <= 22
    assert not underivable(grammar, test)
