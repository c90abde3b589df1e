"""Which settings a dataset wants: ways of searching are tried one after the other, and the shortest description wins.

The settings say how to search; the objective, with fitted probabilities, says what was found: how long the rules are,
and how well what half of the examples shows tells the targets of the other half. So a trial is a search on examples of
the training data, and settings are kept where they lead to fewer bits. Nothing else is looked at. Lexical rules that no
example needs are not charged for: they are there for sentences that the trial does not see.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from nqg.data.example import Example
from nqg.induction.corpus import CommonAffix, shortest_first
from nqg.induction.description_length import DescriptionLength, description_length
from nqg.induction.induce import Induction
from nqg.induction.settings import InductionSettings
from nqg.types.target_grammar import TargetGrammar

TRIAL_EXAMPLES = 1000  # as many distinct examples, drawn at random, are searched in a trial
MOST_READ = 50_000  # examples of which those are drawn: a corpus may be larger than memory
FEW_RULES = 50  # with more, returning, which takes a search for every rule, is left out
BUDGET = 80_000  # most evaluations of grammars in all trials, a millisecond or two each: no clock, so no chance


@dataclass(frozen=True, slots=True)
class Trial:
    """What was changed, what a search with it found, and the best settings so far."""

    changed: Mapping[str, Any]
    rules: int
    length: DescriptionLength
    is_best: bool
    best: InductionSettings

    def __str__(self) -> str:
        return (
            ", ".join(f"{name} = {value}" for name, value in self.changed.items()) or "as it begins"
        )


def chosen_settings(
    examples: Sequence[Example], target_grammar: TargetGrammar | None = None
) -> InductionSettings:
    """The settings of the last of all `trials` that the budget allows."""
    best = InductionSettings.automatic()
    for trial in trials(
        examples, target_grammar=target_grammar, is_over=lambda spent: spent > BUDGET
    ):
        best = trial.best
    return best


def trials(
    examples: Sequence[Example],
    given: Mapping[str, Any] | None = None,
    target_grammar: TargetGrammar | None = None,
    is_over: Callable[[int], bool] = lambda _: False,
) -> Iterator[Trial]:
    """Try one change after the other, from `InductionSettings.automatic()`; what is `given` is never changed.

    The last trial has the settings to use. Once `is_over` says so, of all evaluations of grammars so far, the trial
    under way does not count.
    """
    fixed = dict(given or {})
    if len(examples) > MOST_READ:
        examples = [
            examples[number]
            for number in sorted(random.Random(0).sample(range(len(examples)), MOST_READ))
        ]
    distinct = shortest_first(examples)
    picked = random.Random(0).sample(range(len(distinct)), min(len(distinct), TRIAL_EXAMPLES))
    part = [distinct[number] for number in sorted(picked)]
    best = found = InductionSettings.automatic().changed(**fixed)
    least, spent = float("inf"), 0
    has_frame = CommonAffix.of(part) is not None
    for changes in ({}, *(each for each in ALTERNATIVES if has_frame or "frame" not in each)):
        changed = {name: value for name, value in changes.items() if name not in fixed}
        settings = best.changed(**changed)
        if changes and settings == best:
            continue
        for returning in (False, True):
            induction = Induction(
                part, settings.changed(returning=returning), target_grammar=target_grammar
            )
            for _ in induction.steps():
                if is_over(spent + induction.evaluations):
                    return
            spent += induction.evaluations
            if induction.searched_rules > FEW_RULES or not settings.returning:
                break
        grammar = induction.grammar
        length = description_length(grammar, part, settings)
        length = replace(length, grammar_bits=length.grammar_bits - induction.spared_bits)
        is_best = length.total < least
        if is_best:
            best, least, found = (
                settings,
                length.total,
                settings.changed(**{"returning": returning} | fixed),
            )
        yield Trial(changed, len(grammar), length, is_best, found)


ALTERNATIVES: tuple[Mapping[str, Any], ...] = (
    {"frame": False},
    {"max_non_terminals": 3},  # first, since what else is good depends on it most
    {"max_non_terminals": 4},
    {"lexical": False},
    {"repeated_targets": False},
    {"data_weight": 1 / 16},
    {"data_weight": 1 / 64},
    {"factoring": True},
)
