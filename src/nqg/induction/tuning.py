"""Which settings a dataset wants: ways of searching are tried one after the other, and the shortest
description wins.

The settings say how to search; the objective, with fitted probabilities, says what was found: how
long the rules are, and how well what half of the examples shows tells the targets of the other
half. So a trial is a search on examples of the training data, and settings are kept where they lead
to fewer bits. Nothing else is looked at. Lexical rules that no example needs are not charged for:
they are there for sentences that the trial does not see.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from nqg.data.example import Example
from nqg.induction.corpus import CommonAffix, shortest_first
from nqg.induction.description_length import DescriptionLength, description_length
from nqg.induction.induce import Induction
from nqg.induction.settings import InductionSettings
from nqg.induction.work import work_units
from nqg.types.target_grammar import TargetGrammar

# A bound of work: so many distinct examples, drawn at random, are searched in a trial.
TRIAL_EXAMPLES = 1000
# They are drawn from so many, which bounds the time for larger files.
MOST_READ = 50_000
# With more rules, returning, which takes a search for every rule, is left out
# (docs/mathematics.md).
FEW_RULES = 50
# Most evaluations of grammars in all trials, a millisecond or two each. Evaluations are counted and
# not seconds, so that results do not depend on the machine.
BUDGET = 80_000
# The first trial and the others may do these shares of the work of a search, and all of them
# together so many times as much as a search. Whenever a trial ends at its share, the next ones get
# half: its rules count. On GeoQuery, whose trials are the longest of those that end, none does.
FIRST_SHARE, TRIAL_SHARE, TRIALS_WORK = 1 / 4, 3 / 4, 3.0
# Trials that do not end tell little. So where the first one does not, it is made again on half of
# the examples, but at least so many, with this share of its work; the others are made on these
# examples, too, with so many times the work of the first. On GeoQuery, where all end, it is five times.
FEWEST_EXAMPLES = 100
NEXT_SHARE, MOST_TIMES = 1 / 2, 2


@dataclass(frozen=True, slots=True)
class Trial:
    """What was changed, what a search with it found, and the best settings so far."""

    changed: Mapping[str, Any]
    rules: int
    length: DescriptionLength
    is_best: bool
    best: InductionSettings

    def __str__(self) -> str:
        changes = [f"{name} = {value}" for name, value in self.changed.items()]
        return ", ".join(changes) or "as it begins"


def chosen_settings(
    examples: Sequence[Example], target_grammar: TargetGrammar | None = None
) -> InductionSettings:
    """The settings of the last of all `trials` that the budget allows."""
    best = InductionSettings.automatic()
    for trial in trials(examples, {}, target_grammar, lambda spent: spent > BUDGET):
        best = trial.best
    return best


def trials(
    examples: Sequence[Example],
    fixed: Mapping[str, Any] = MappingProxyType({}),
    target_grammar: TargetGrammar | None = None,
    is_over: Callable[[int], bool] = lambda _: False,
    watcher: Callable[[], bool] = lambda: False,
) -> Iterator[Trial]:
    """Try one change after the other, from `InductionSettings.automatic()`; what is `fixed` stays.

    The last trial has the settings to use. Once `is_over` says so, of all evaluations of grammars
    so far, the trial under way does not count. Nor does it where the `watcher` of its search wants
    to stop.
    """
    sample = _drawn(shortest_first(_drawn(examples, MOST_READ)), TRIAL_EXAMPLES)
    start = best = InductionSettings.automatic().changed(**fixed)
    least, spent, units = math.inf, 0, work_units(sample)
    share, work_left = FIRST_SHARE, TRIALS_WORK
    has_frame = CommonAffix.of(sample) is not None

    def searched(settings: InductionSettings) -> Induction | None:
        """A search with these settings, or None where trials are over before it ends."""
        nonlocal spent, work_left
        budget = start.budget
        if budget is not None:
            if work_left <= 0:
                return None
            settings = settings.changed(budget=budget * share)
        induction = Induction(
            sample, settings, target_grammar=target_grammar, watcher=watcher
        )
        for _ in induction.steps():
            if is_over(spent + induction.evaluations):
                return None
        if induction.work.is_interrupted:
            return None
        spent += induction.evaluations
        if budget is not None:
            work_left -= induction.work.spent / (budget * units)
        return induction

    for changes in ({}, *ALTERNATIVES):
        changed = {name: value for name, value in changes.items() if name not in fixed}
        settings = start.changed(**changed)
        is_idle = "frame" in changes and not has_frame
        if is_idle or (changes and settings == start):
            continue

        # Search without returning; with it, if there are few rules.
        for returning in (False, True):
            induction = searched(settings.changed(returning=returning))
            while induction and induction.is_truncated and not changes:
                # Where the first trial does not end, all are made on fewer examples.
                if len(sample) < 2 * FEWEST_EXAMPLES:
                    break
                sample, share = _drawn(sample, len(sample) // 2), share * NEXT_SHARE
                induction = searched(settings.changed(returning=returning))
            if induction is None:
                return
            if induction.is_truncated:
                share /= 2
            if induction.searched_rules > FEW_RULES or not settings.returning:
                break
        if not changes:
            share = TRIAL_SHARE if share == FIRST_SHARE else MOST_TIMES * share

        assert induction is not None, "a trial has made a search"

        # Keep the settings if they lead to fewer bits; spared lexical rules cost nothing.
        grammar = induction.grammar
        length = description_length(grammar, sample, settings)
        length = replace(
            length, grammar_bits=length.grammar_bits - induction.spared_bits
        )
        is_best = length.total < least
        if is_best:
            start, least = settings, length.total
            best = settings.changed(**{"returning": returning} | dict(fixed))
        yield Trial(changed, len(grammar), length, is_best, best)


def _drawn(examples: Sequence[Example], most: int) -> Sequence[Example]:
    """At most so many examples, at random, in their order."""
    if len(examples) <= most:
        return examples
    numbers = random.Random(0).sample(range(len(examples)), most)
    return [examples[number] for number in sorted(numbers)]


# The order was chosen with GeoQuery and COGS in view (docs/mathematics.md): what else is good
# depends most on the number of non-terminals.
ALTERNATIVES: tuple[Mapping[str, Any], ...] = (
    {"frame": False},
    {"max_non_terminals": 3},
    {"max_non_terminals": 4},
    {"lexical": False},
    {"repeated_targets": False},
    {"data_weight": 1 / 16},
    {"data_weight": 1 / 64},
    {"factoring": True},
)
