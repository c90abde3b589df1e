"""`nqg demo`: the shortest way to see what this is about; nothing to download."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from nqg.cli.drawing import drawn
from nqg.cli.search_line import StopRequest, Stopwatch, search_line
from nqg.cli.terminal import out

if TYPE_CHECKING:
    from nqg.data.example import Example
    from nqg.forests.forest import Forests
    from nqg.grammar.grammar import Grammar
    from nqg.grammar.rule import Rule
    from nqg.induction.induce import Induction, Step

SENTENCE = "walk twice after jump around left thrice"


def demo() -> None:
    """Learn SCAN from its short commands, and derive its long ones. Needs no network.

    Example: nqg demo
    """
    from nqg import Induction, InductionSettings, load_dataset
    from nqg.forests.build import build_forests

    train, test = load_dataset("scan").split("length")
    _say(f"SCAN, length split: {len(train):,} commands to learn from, {len(test):,} longer ones to test on.\n")
    induction = Induction(train, InductionSettings.named("scan"))
    out.print(_steps_table(induction))
    grammar = induction.grammar
    _say(f"\n{len(grammar)} rules are left:\n")
    for rule in grammar:
        _say(f"  {_arrowed(rule)}")
    forests = build_forests(grammar, test)
    derived = len(test) - len(forests.underivable())
    _say(f"\nThey derive {derived:,} of the {len(test):,} longer commands, such as this one:\n")
    _show_derivation(grammar, forests, test)


def _steps_table(induction: Induction) -> Table:
    """Run the search; the steps whose number is a power of two, and the last."""
    table = Table("step", "rules", "bits", "new rule", box=None, pad_edge=False)
    for column in table.columns[:3]:
        column.justify = "right"
    table.add_row("0", f"{induction.searched_rules:,}", f"{induction.length.total:,.0f}", "(every command is a rule)")
    steps = _watched(induction)
    for number, step in enumerate(steps, start=1):
        if number & (number - 1) == 0 or number == len(steps):
            table.add_row(str(number), f"{step.rules:,}", f"{step.length.total:,.0f}", _added(step))
    return table


def _watched(induction: Induction) -> list[Step]:
    steps, watch = [], Stopwatch()
    with search_line(StopRequest()) as line:
        for step in induction.steps():
            line.show(step.phase, step.rules, step.length.total, watch.seconds)
            steps.append(step)
    return steps


def _say(text: str, *, crop: bool = False) -> None:
    """Print whole words a line or, cropped, what fits of each line; where there is no terminal, lines as they are."""
    if not out.is_terminal:
        out.print(text)
    else:
        out.print(text, soft_wrap=False, no_wrap=crop, overflow="ellipsis" if crop else "fold")


def _added(step: Step) -> Text:
    return Text(", ".join(map(_arrowed, step.added)) or "(one less)", no_wrap=True, overflow="ellipsis")


def _arrowed(rule: Rule) -> str:
    return str(rule).replace(" ### ", " → ")


def _show_derivation(grammar: Grammar, forests: Forests, test: Sequence[Example]) -> None:
    import numpy as np

    from nqg.grammar.algebras import derivation_counts
    from nqg.grammar.best import best_derivations

    chosen = next(at for at, example in enumerate(test) if example.source == SENTENCE)
    goal = forests.goal[chosen]
    best = best_derivations(grammar, goal, np.zeros(goal.applications))[0]
    assert best is not None, "the demo's sentence has a derivation"
    readings = derivation_counts(forests.full[chosen])[0]
    _say(drawn(best.derivation), crop=True)
    _say(f"\n= {' '.join(best.derivation.target)}\n")
    _say(f"It has {readings} readings under this grammar; to choose among them is the parsing model's task.")
