"""Stopping and taking up again, and the same bytes every time."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings

from nqg.data.catalogue import load_dataset
from nqg.data.examples import Example
from nqg.errors import NqgError
from nqg.grammar.grammar import Rule
from nqg.induction.induce import Induction, InductionStep
from nqg.induction.search import Phase
from nqg.induction.settings import InductionSettings
from strategies import corpora, induction_settings

SCAN = InductionSettings.named("scan")
CORPUS = [Example("jump", "J"), Example("jump twice", "J J"), Example("walk twice", "W W")]


def resumed(
    corpus: list[Example], settings: InductionSettings, done: list[InductionStep]
) -> tuple[list[InductionStep], str]:
    induction = Induction(corpus, settings)
    induction.replay(done)
    return list(induction.steps()), str(induction.grammar)


@given(corpora(), induction_settings())
@hypothesis_settings(max_examples=80)
def test_a_search_taken_up_after_any_step_goes_on_as_if_it_had_not_been_stopped(
    corpus: list[Example], settings: InductionSettings
) -> None:
    induction = Induction(corpus, settings)
    steps = list(induction.steps())
    for stop in range(len(steps) + 1):
        assert resumed(corpus, settings, steps[:stop]) == (steps[stop:], str(induction.grammar))


@pytest.mark.parametrize(
    ("corpus", "settings", "phases"),
    [
        (
            [Example("m0 twice", "m0 m0"), Example("largest jump twice", "largest ( J J )")],
            InductionSettings(factoring=True),
            [Phase.SPLITTING, Phase.FACTORING, Phase.PRUNING],
        ),
        (
            [
                Example("largest the m0 twice", "largest ( ( m0 ) ( m0 ) )"),
                *(Example("m0", y) for y in ("J", "(", "J J")),
            ],
            InductionSettings(2.0, 0.25, repeated_targets=True, balanced=False, max_non_terminals=1, minimum_gain=5.0),
            [Phase.PRUNING, Phase.SPLITTING],
        ),
    ],
    ids=["all phases", "splitting after pruning"],
)
def test_so_does_one_in_any_phase(corpus: list[Example], settings: InductionSettings, phases: list[Phase]) -> None:
    induction = Induction(corpus, settings)
    steps = list(induction.steps())
    assert [step.phase for step in steps] == phases
    for stop in range(len(steps) + 1):
        assert resumed(corpus, settings, steps[:stop]) == (steps[stop:], str(induction.grammar))


@pytest.mark.parametrize("sample", [None, 2])
def test_so_does_one_on_real_examples(real_data: Path, sample: int | None) -> None:
    corpus = load_dataset("geoquery", real_data).split("length")[0][:150]
    settings = InductionSettings.named("geoquery").changed(sample=sample, data_weight=4.0)
    induction = Induction(corpus, settings)
    steps = list(induction.steps())
    for stop in (10, len(steps) // 2, len(steps) - 1):
        assert resumed(corpus, settings, steps[:stop]) == (steps[stop:], str(induction.grammar))


def test_replaying_makes_the_steps_and_says_where_they_led() -> None:
    steps = list(Induction(CORPUS, SCAN).steps())
    induction = Induction(CORPUS, SCAN)
    induction.replay(steps[:1])
    assert (induction.searched_rules, induction.length) == (steps[0].rules, steps[0].length)


def test_steps_from_other_examples_are_refused() -> None:
    steps = list(Induction(CORPUS, SCAN).steps())
    induction = Induction([Example("fly", "F"), Example("jump", "J")], SCAN)
    with pytest.raises(NqgError, match="not from these examples and settings: no example has the word 'twice'"):
        induction.replay(steps)


def test_steps_that_were_made_already_are_refused() -> None:
    steps = list(Induction(CORPUS, SCAN).steps())
    with pytest.raises(NqgError, match="rule 'jump twice ### J J' is removed but not there"):
        Induction(CORPUS, SCAN).replay([*steps, *steps])


def test_steps_with_words_from_elsewhere_are_refused() -> None:
    step = next(Induction(CORPUS, SCAN).steps())
    foreign = replace(step, added=(*step.added, Rule.parse("NT_1 thrice ### NT_1 NT_1 NT_1")))
    with pytest.raises(NqgError, match="no example has the word 'thrice'"):
        Induction(CORPUS, SCAN).replay([foreign])


PROGRAM = """
from pathlib import Path
from nqg.data.catalogue import load_dataset
from nqg.induction.choice import trials
from nqg.induction.induce import Induction, induce
from nqg.induction.settings import InductionSettings
examples = load_dataset("geoquery", Path({mirror!r})).split("standard")[0][:{count}]
for sample in (None, 10):
    induction = Induction(examples, InductionSettings.named("geoquery").changed(sample=sample, seed=5))
    for step in induction.steps():
        print(step)
    print(induction.grammar)
for trial in trials(examples):
    print(trial, trial.rules, trial.length)
print(induce(examples, trial.best))
"""


def test_the_hash_seed_changes_no_byte_of_trials_steps_and_grammars(real_data: Path) -> None:
    command = [sys.executable, "-c", PROGRAM.format(mirror=str(real_data), count=150)]
    environments = [{**os.environ, "PYTHONHASHSEED": hash_seed} for hash_seed in ("0", "1", "12345")]
    shown = [subprocess.run(command, capture_output=True, check=True, env=env).stdout for env in environments]
    assert len(shown[0].splitlines()) > 200
    assert len({*shown}) == 1
