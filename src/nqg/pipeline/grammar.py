"""The grammar stage: trial searches choose the settings of induction, and a search with them finds the rules."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from nqg.data.example import Example, distinct_pairs
from nqg.errors import counted
from nqg.files import write_text
from nqg.grammar.grammar import Grammar, Rule
from nqg.induction.description_length import DescriptionLength, description_length
from nqg.induction.induce import Induction
from nqg.induction.search_log import StepRecord, grammar_comments, induction_config
from nqg.induction.settings import InductionSettings
from nqg.induction.tuning import BUDGET, trials
from nqg.model.checkpoint import MOST_NON_TERMINALS
from nqg.pipeline.events import SearchProgress
from nqg.pipeline.run import Run
from nqg.pipeline.settings import in_words
from nqg.pipeline.task import ParserTask
from nqg.run_config import RunConfig, sha256
from nqg.slots.delexicalize import relexicalize_rules
from nqg.types.target_grammar import TargetGrammar

EVALUATIONS_AN_EXAMPLE = 100  # in trials that choose the settings of induction
FEWEST_TO_COMPRESS = 10  # examples; fewer need not have anything in common
NOTHING_SHARED = (
    "these examples share so little that there are no fewer rules: few new sentences will be answered. Give two or "
    "three sentences for each construction, with different words; make values such as numbers and names slots; read "
    "the rules. docs/your-data.md tells more"
)
OnStep = Callable[[StepRecord], None]


def never_stopped() -> bool:
    return False


@dataclass(frozen=True, slots=True)
class InducedGrammar:
    """What a search found; `is_finished` is false where it was stopped before its end."""

    grammar: Grammar
    length: DescriptionLength  # of all examples
    config: RunConfig
    steps: int
    seconds: float
    is_finished: bool

    def write(self, path: Path) -> None:
        """Write the rules, under comments that say how they were found: same input, same bytes."""
        stopped = "" if self.is_finished else ", where the search was stopped"
        comments = [
            *grammar_comments(self.config),
            f"# {len(self.grammar):,} rules after {self.steps:,} steps{stopped}",
            f"# description length on the examples: {self.length.grammar_bits:,.2f} for the grammar, "
            f"{self.length.data_bits:,.2f} for the data",
        ]
        write_text(path, "\n".join([*comments, f"{self.grammar}\n"]))

    def to_dict(self) -> dict[str, Any]:
        return {
            "rules": len(self.grammar),
            "examples": self.config.data.examples,
            "steps": self.steps,
            "finished": self.is_finished,
            **asdict(self.length),
            "seconds": round(self.seconds, 3),
            "settings": dict(self.config.settings),
            "data_sha256": self.config.data.fingerprint,
        }


def search_grammar(
    examples: Sequence[Example],
    settings: InductionSettings,
    seed_rules: Iterable[Rule] = (),
    target_grammar: TargetGrammar | None = None,
    *,
    run: Run | None = None,
    on_step: OnStep | None = None,
    is_stopped: Callable[[], bool] = never_stopped,
) -> InducedGrammar:
    """Search until nothing saves bits or `is_stopped` says so; the grammar of every step derives all examples."""
    run = run or Run()
    seeds = list(seed_rules)
    config = induction_config(examples, settings, seeds, target_grammar)
    started = time.monotonic()
    induction = Induction(examples, settings, seeds, target_grammar)
    if on_step is not None:
        on_step(StepRecord.of_beginning(induction))
    steps, is_finished = 0, True
    for step in induction.steps():
        steps += 1
        seconds = time.monotonic() - started
        run.listener(SearchProgress(step.phase, step.rules, step.length.total, seconds))
        if on_step is not None:
            on_step(StepRecord.of_step(steps, step, seconds))
        if is_stopped():
            is_finished = False
            break
    grammar = induction.grammar
    length = description_length(grammar, examples, settings)
    return InducedGrammar(grammar, length, config, steps, time.monotonic() - started, is_finished)


@dataclass(frozen=True, slots=True)
class ChosenSettings:
    """The settings that trials chose, and whether the budget ended them early."""

    settings: InductionSettings
    is_truncated: bool = False


def choose_settings(
    examples: Sequence[Example],
    fixed: dict[str, Any],
    legal: TargetGrammar | None,
    budget: int,
    run: Run,
    is_stopped: Callable[[], bool] = never_stopped,
) -> ChosenSettings:
    """The settings that lead to the shortest description in trials; what is `fixed` is never changed."""
    best = InductionSettings.automatic().changed(**fixed)
    started, spent = time.monotonic(), 0

    def is_over(evaluations: int) -> bool:
        nonlocal spent
        spent = evaluations
        return evaluations > budget or is_stopped()

    for trial in trials(examples, fixed, legal, is_over):
        best = trial.best
        seconds = time.monotonic() - started
        run.listener(
            SearchProgress(f"choosing settings: {trial}", trial.rules, trial.length.total, seconds)
        )
        verdict = ", best" if trial.is_best else ""
        run.detail(
            f"[trial] {trial}: {trial.rules:,} rules, {trial.length.total:,.1f} bits{verdict}"
        )
    return ChosenSettings(best, is_truncated=spent > budget)


def learn_grammar(task: ParserTask, run: Run) -> tuple[Grammar, InductionSettings | None]:
    """The grammar of a task, and the settings that it was found with; a given grammar was not searched for."""
    if isinstance(task.rules, Grammar):
        return task.rules, None
    settings = task.rules or _chosen_settings(task, run)
    grammar = _induced(task, settings, run)
    if task.values is not None:
        grammar = Grammar.of(
            relexicalize_rules(grammar, task.text.slots.free_text), MOST_NON_TERMINALS
        )
    return grammar, settings


def _chosen_settings(task: ParserTask, run: Run) -> InductionSettings:
    if task.values is not None:
        return InductionSettings.for_slots()
    examples, _, legal = task.searched()
    fingerprint = RunConfig.of("choice", examples, target_grammar=sha256(str(legal))).fingerprint
    chosen = run.recorded("induction.json", ChosenSettings, fingerprint)
    if chosen is None:
        chosen = choose_settings(
            examples, {}, legal, min(BUDGET, EVALUATIONS_AN_EXAMPLE * len(examples)), run
        )
        run.record("induction.json", chosen, fingerprint)
    run.detail(f"[induction] {in_words(chosen.settings)}")
    return chosen.settings


def _induced(task: ParserTask, settings: InductionSettings, run: Run) -> Grammar:
    """The grammar that a search finds, or that an interrupted run has found."""
    examples, first_rules, types = task.searched()
    if task.values is None and task.rules is not None:
        types = task.rule_types
    if task.earlier_rules:
        settings = continued_settings(settings, first_rules)
    manual_rules = [rule for rule in task.manual_rules if rule.arity <= settings.max_non_terminals]
    seeds = manual_rules + first_rules
    path = run.path("grammar.txt")
    head = "\n".join(grammar_comments(induction_config(examples, settings, seeds, types))) + "\n"
    if path is not None and path.exists() and path.read_text(encoding="utf-8").startswith(head):
        return Grammar.read(path, settings.max_non_terminals)
    induced = search_grammar(examples, settings, seeds, types, run=run)
    if path is not None:
        induced.write(path)
    if not run.label:
        run.note(
            f"{counted(len(induced.grammar), 'rule')} induced from {counted(len(examples), 'example')}"
        )
        if (
            task.values is None
            and len(induced.grammar) >= len(distinct_pairs(examples)) >= FEWEST_TO_COMPRESS
        ):
            run.warn(NOTHING_SHARED)
    return induced.grammar


def continued_settings(settings: InductionSettings, rules: Sequence[Rule]) -> InductionSettings:
    """The settings for a search that goes on from `rules`, which may have more non-terminals and know the frame."""
    bound = max([settings.max_non_terminals, *(rule.arity for rule in rules)])
    return settings.changed(max_non_terminals=bound, frame=False, shortest=None)
