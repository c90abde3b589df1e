"""A search at its budget: it ends, its grammar is valid, and it says that something is left."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from nqg.data.example import Example
from nqg.errors import SettingsError
from nqg.induction import tuning, work
from nqg.induction.induce import Induction, InductionStep, induce
from nqg.induction.settings import InductionSettings
from nqg.induction.tuning import chosen_settings, trials
from nqg.induction.work import UNITS_A_PULSE, SearchStopped, WorkMeter
from nqg.model.forests import build_forests
from nqg.pipeline.events import Event, Notice, WorkDone
from nqg.pipeline.grammar import search_grammar
from nqg.pipeline.run import Run
from nqg.types.inference import infer_target_grammar
from strategies import corpora, induction_settings

NAMES = ["ann", "bob", "cid", "dan", "eve", "fay"]


def family() -> list[Example]:
    """Sentences about two people each, framed by `answer ( … )`."""
    rng = random.Random(0)
    pairs: list[Example] = []
    for _ in range(60):
        left, right = rng.sample(NAMES, 2)
        verb = rng.choice(["sees", "calls", "greets"])
        target = f"answer ( {verb.upper()} ( {left} , {right} ) )"
        pairs.append(Example(f"{left} {verb} {right}", target))
    return pairs


@pytest.fixture
def small_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    """A budget of 1 is some 300,000 units, where the search of `family` takes more."""
    monkeypatch.setattr(work, "BASE_UNITS", 20_000)
    monkeypatch.setattr(work, "UNITS_A_TOKEN", 10)


@given(
    corpora(),
    induction_settings(),
    st.sampled_from([1e-9, 1e-6, 1e-5, 3e-5, 1e-4, 3e-4]),
)
@hypothesis_settings(max_examples=100)
def test_every_example_is_derivable_wherever_the_budget_ends(
    corpus: list[Example], settings: InductionSettings, budget: float
) -> None:
    induction = Induction(corpus, settings.changed(budget=budget))
    for step in induction.steps():
        assert step.rules == induction.searched_rules
    assert not build_forests(induction.grammar, corpus).underivable()


@given(corpora(), induction_settings())
@hypothesis_settings(max_examples=30)
def test_a_budget_that_is_not_reached_changes_nothing(
    corpus: list[Example], settings: InductionSettings
) -> None:
    induction = Induction(corpus, settings.changed(budget=1.0))
    steps = list(induction.steps())
    assert steps == list(Induction(corpus, settings).steps())
    assert not induction.is_truncated


def test_a_larger_budget_finds_a_shorter_description(small_budget: None) -> None:
    rules: list[int] = []
    for budget in (0.01, 1.0, 100.0):
        settings = InductionSettings.automatic().changed(budget=budget)
        rules.append(len(induce(family(), settings)))
    assert rules == sorted(rules, reverse=True)
    assert rules[0] > rules[-1]


def test_the_same_budget_gives_the_same_rules_in_the_same_process(
    small_budget: None,
) -> None:
    """Types are cached across searches, so work that the cache spares counts all the same."""
    types = infer_target_grammar(example.target_tokens for example in family())
    settings = InductionSettings.automatic()
    spent: list[float] = []
    grammars: list[str] = []
    for _ in range(2):
        induction = Induction(family(), settings, target_grammar=types)
        list(induction.steps())
        spent.append(induction.work.spent)
        grammars.append(str(induction.grammar))
    assert spent[0] == spent[1]
    assert grammars[0] == grammars[1]


def test_trials_end_at_their_budget_and_truncated_ones_count(
    small_budget: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tuning, "TRIALS_WORK", 1.0)
    few = list(trials(family()))
    assert few
    monkeypatch.setattr(tuning, "TRIALS_WORK", 1000.0)
    assert len(few) < len(list(trials(family())))
    assert chosen_settings(family()).budget == 1.0


def test_where_the_first_trial_does_not_end_all_are_made_on_fewer_examples(
    small_budget: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    searched: list[tuple[int, bool]] = []

    class Recorded(Induction):
        def steps(self) -> Iterator[InductionStep]:
            yield from super().steps()
            searched.append((len(self.sample), self.is_truncated))

    monkeypatch.setattr(tuning, "Induction", Recorded)
    monkeypatch.setattr(tuning, "TRIALS_WORK", 1000.0)
    monkeypatch.setattr(tuning, "FEWEST_EXAMPLES", 5)
    distinct = len(set(family()))
    monkeypatch.setattr(tuning, "FIRST_SHARE", 1000.0)
    first = next(trials(family()))
    assert searched[0] == (distinct, False)
    assert not first.changed

    searched.clear()
    monkeypatch.setattr(tuning, "FIRST_SHARE", 0.5)
    assert not next(trials(family())).changed
    sizes = [size for size, _ in searched]
    assert sizes[0] == distinct
    assert sizes[1] == distinct // 2
    assert all(is_truncated for size, is_truncated in searched if size > sizes[-1])
    list(trials(family()))
    assert {size for size, _ in searched[2 * len(sizes) :]} == {sizes[-1]}


def test_a_search_at_its_budget_tells_what_to_set(small_budget: None) -> None:
    events: list[Event] = []
    settings = InductionSettings.automatic().changed(budget=0.1)
    induced = search_grammar(family(), settings, run=Run(listener=events.append))
    assert induced.is_finished
    notes = [event.text for event in events if isinstance(event, Notice)]
    assert any("--set induction.budget=" in note for note in notes)


def test_progress_comes_while_a_step_is_looked_for_and_a_stop_is_heard_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(work, "UNITS_A_PULSE", 1000)
    events: list[Event] = []
    asked = 0

    def is_stopped() -> bool:
        nonlocal asked
        asked += 1
        return asked > 5

    settings = InductionSettings.automatic()
    induced = search_grammar(
        family(), settings, run=Run(listener=events.append), is_stopped=is_stopped
    )
    assert not induced.is_finished
    assert asked <= 8
    assert sum(isinstance(event, WorkDone) for event in events) > 5
    assert not build_forests(induced.grammar, family()).underivable()


def test_a_meter_calls_its_watcher_and_stops_at_its_limit() -> None:
    calls: list[int] = []

    def watch() -> bool:
        calls.append(1)
        return False

    meter = WorkMeter(watch)
    meter.add(UNITS_A_PULSE - 1)
    assert not calls
    meter.add(2)
    assert len(calls) == 1
    meter.limit = meter.spent
    meter.check()
    with pytest.raises(SearchStopped, match="units is done"):
        meter.spend(1)


def test_a_budget_must_be_above_zero() -> None:
    with pytest.raises(SettingsError, match="budget"):
        InductionSettings(budget=0.0)
