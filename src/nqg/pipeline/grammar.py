"""The grammar stage: trial searches choose the settings of induction, and a search finds rules."""

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
from nqg.induction.extraction import closed_under_extraction, with_whole_terms
from nqg.induction.induce import Induction
from nqg.induction.obligatory import with_obligatory_words
from nqg.induction.search_log import StepRecord, grammar_comments, induction_config
from nqg.induction.settings import InductionSettings
from nqg.induction.tuning import BUDGET, trials
from nqg.model.checkpoint import MOST_NON_TERMINALS
from nqg.pipeline.run import Run
from nqg.pipeline.settings import in_words
from nqg.pipeline.task import ParserTask
from nqg.run_config import RunConfig
from nqg.slots.delexicalize import relexicalize_rules
from nqg.types.target_grammar import TargetGrammar

# A bound of work: the evaluations that trials may spend on each example to choose the settings of
# induction.
EVALUATIONS_AN_EXAMPLE = 100
# Fewer examples need not have anything in common.
FEWEST_TO_COMPRESS = 10
NOTHING_SHARED = (
    "these examples share so little that there are no fewer rules: few new sentences will be "
    "answered. Give two or three sentences for each construction, with different words; make "
    "values such as numbers and names slots; read the rules. docs/your-data.md tells more"
)
FIRST_PHASE = "looking at the examples (the very first run takes longer: it compiles)"
LEFT_BY_BUDGET = (
    ": the grammar is valid, but may not be as small as it can be; "
    "`--set induction.budget=4` allows four times the work, `none` any"
)
OnStep = Callable[[StepRecord], None]


def never_stopped() -> bool:
    return False


@dataclass(frozen=True)
class InducedGrammar:
    """The result of a search, perhaps of one that was stopped; `length` is that of all examples."""

    grammar: Grammar
    length: DescriptionLength
    config: RunConfig
    steps: int
    seconds: float
    is_finished: bool

    def write(self, path: Path) -> None:
        """Write the rules under comments that say how they were found: same input, same bytes."""
        stopped = "" if self.is_finished else ", where the search was stopped"
        grammar_bits = f"{self.length.grammar_bits:,.2f} for the grammar"
        data_bits = f"{self.length.data_bits:,.2f} for the data"
        lines = [
            *grammar_comments(self.config),
            f"# {len(self.grammar):,} rules after {self.steps:,} steps{stopped}",
            f"# description length on the examples: {grammar_bits}, {data_bits}",
            f"{self.grammar}\n",
        ]
        write_text(path, "\n".join(lines))

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
    """Search until nothing saves bits or `is_stopped`; every step has a grammar of all examples."""
    run = run or Run()
    seeds = list(seed_rules)
    # The configuration is written beside the rules.
    config = induction_config(examples, settings, seeds, target_grammar)
    started = time.monotonic()
    run.progress(FIRST_PHASE, 0, None)
    what, steps, is_finished = FIRST_PHASE, 0, True

    def watch() -> bool:
        """Say that a step is being looked for, and whether to stop."""
        run.progress(what, steps, None)
        return is_stopped()

    induction = Induction(examples, settings, seeds, target_grammar, watch)
    if on_step:
        on_step(StepRecord.of_beginning(induction))
    for step in induction.steps():
        steps += 1
        what = f"{step.phase} · {step.rules:,} rules · {step.length.total:,.0f} bits"
        run.progress(what, steps, None)
        if on_step:
            on_step(StepRecord.of_step(steps, step, time.monotonic() - started))
        if is_stopped():
            is_finished = False
            break
    if induction.work.is_interrupted:
        is_finished = False
    elif induction.is_truncated and not run.label:
        run.note(f"the search stopped at its budget{LEFT_BY_BUDGET}")
    # The length of the result is that of all examples, also where a sample was searched.
    grammar = induction.grammar
    length = description_length(grammar, examples, settings)
    return InducedGrammar(
        grammar, length, config, steps, time.monotonic() - started, is_finished
    )


def choose_settings(
    examples: Sequence[Example],
    fixed: dict[str, Any],
    legal: TargetGrammar | None,
    budget: int,
    run: Run,
    is_stopped: Callable[[], bool] = never_stopped,
) -> tuple[InductionSettings, bool]:
    """The settings with the shortest description in trials, and whether the budget ended these.

    What is `fixed` is never changed.
    """
    # Trials count evaluations, not seconds, so that results do not depend on the machine.
    best = InductionSettings.automatic().changed(**fixed)
    spent = 0

    def is_over(evaluations: int) -> bool:
        nonlocal spent
        spent = evaluations
        return evaluations > budget or is_stopped()

    what, done = FIRST_PHASE, 0

    def watch() -> bool:
        run.progress(what, done, None)
        return is_stopped()

    for trial in trials(examples, fixed, legal, is_over, watch):
        best, done = trial.best, done + 1
        what = f"choosing settings: {trial} · {trial.rules:,} rules"
        run.progress(what, done, None)
        verdict = ", best" if trial.is_best else ""
        length = f"{trial.rules:,} rules, {trial.length.total:,.1f} bits"
        run.detail(f"[trial] {trial}: {length}{verdict}")
    return best, spent > budget


@dataclass(frozen=True)
class GrammarRecord:
    """The result of the stage, for a training that continues this one."""

    rules: str
    max_non_terminals: int
    settings: InductionSettings


def learn_grammar(
    task: ParserTask, run: Run
) -> tuple[Grammar, InductionSettings | None]:
    """The grammar of a task, and the settings that it was found with, unless it was given."""
    if isinstance(task.rules, Grammar):
        return task.rules, None
    examples, seeds, types = task.searched()

    # An interrupted training may have finished this stage.
    beginning = RunConfig.of(
        "grammar",
        examples,
        rules=list(map(str, [task.rules, *task.manual_rules, *seeds])),
        target_grammar=str(types),
    )
    record = run.recorded("grammar.json", GrammarRecord, beginning.fingerprint)
    if record is None:
        record = _search(task, task.rules, examples, seeds, types, run)
        run.record("grammar.json", record, beginning.fingerprint)
    grammar = Grammar.parse(record.rules, record.max_non_terminals)
    if task.values:
        rules_with_slots = relexicalize_rules(grammar, task.text.slots.free_text)
        grammar = Grammar.of(rules_with_slots, MOST_NON_TERMINALS)
    return grammar, record.settings


def _search(
    task: ParserTask,
    settings: InductionSettings | None,
    examples: Sequence[Example],
    seeds: list[Rule],
    types: TargetGrammar | None,
    run: Run,
) -> GrammarRecord:
    # Choose the settings.
    if settings is None:
        settings = InductionSettings.for_slots()
        if not task.values:
            budget = min(BUDGET, EVALUATIONS_AN_EXAMPLE * len(examples))
            settings, _ = choose_settings(examples, {}, types, budget, run)
            run.detail(f"[induction] {in_words(settings)}")
    elif not task.values:
        types = task.rule_types
    chosen = settings
    if task.earlier_rules:
        # Earlier rules may have more non-terminals, and they have the common affixes already.
        arity = max([settings.max_non_terminals, *(rule.arity for rule in seeds)])
        settings = settings.changed(max_non_terminals=arity, frame=False, shortest=None)

    # Search.
    manual = [
        rule for rule in task.manual_rules if rule.arity <= settings.max_non_terminals
    ]
    grammar = search_grammar(examples, settings, manual + seeds, types, run=run).grammar
    traces = task.text.programs.traces
    if traces:
        induced = len(grammar)
        grammar = with_whole_terms(grammar, examples)
        grammar = with_obligatory_words(grammar, examples)
        grammar = closed_under_extraction(grammar, examples, traces, types, settings)
        run.detail(f"[traces] {induced:,} rules, {len(grammar):,} with all gaps")
    # Folds are silent; the training itself tells what was induced.
    if not run.label:
        rules = counted(len(grammar), "rule")
        run.note(f"{rules} induced from {counted(len(examples), 'example')}")
        distinct = len(distinct_pairs(examples))
        if task.values is None and len(grammar) >= distinct >= FEWEST_TO_COMPRESS:
            run.warn(NOTHING_SHARED)
    return GrammarRecord(str(grammar), grammar.max_non_terminals, chosen)
