"""The part of `nqg evaluate` that says why predictions are wrong or missing."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.table import Table

from nqg.cli.terminal import out, report_written
from nqg.data.example_files import read_examples
from nqg.files import write_text

if TYPE_CHECKING:
    from nqg.evaluation.breakdown import Breakdown
    from nqg.evaluation.evaluation import Evaluation

LACKS_SHOWN = 10
MOST_NON_TERMINALS = 9  # of a rule in a model folder
OUTCOMES = "Single predictions, and why they are wrong"
BREAKDOWN = typer.Option(
    False, "--breakdown", help="Say why predictions are wrong or missing.", rich_help_panel=OUTCOMES
)
TRAIN = typer.Option(
    None,
    "--train",
    metavar="FILE",
    help="The training examples; they explain errors of systems without a grammar.",
    rich_help_panel=OUTCOMES,
)
ERRORS = typer.Option(
    None,
    "--errors",
    metavar="FILE",
    help="Write every wrong or missing prediction and its cause, a line of JSON each.",
    rich_help_panel=OUTCOMES,
)
PLOT = typer.Option(
    None, "--plot", metavar="FILE", help="Draw the causes as bars, .png or .svg.", rich_help_panel=OUTCOMES
)


@dataclass(frozen=True, slots=True)
class Asked:
    """What the user wants to know about errors, and with what."""

    shown: bool
    train: Path | None
    errors: Path | None
    plot: Path | None

    def __bool__(self) -> bool:
        return self.shown or self.errors is not None or self.plot is not None

    def check(self, *, only_a_grammar: bool) -> None:
        """Refuse questions that cannot be answered, before any work is done."""
        if self and not only_a_grammar and self.train is None:
            raise typer.BadParameter(
                "errors of a system without a grammar are explained by what its training lacked; "
                "name the training examples",
                param_hint="--train",
            )


def broken_down(found: Evaluation, model: Path | None = None, *, asked: Asked) -> Breakdown:
    """The causes of an evaluation's errors, written to the files that were asked for."""
    from nqg.evaluation.breakdown import breakdown, evaluation_rows
    from nqg.evaluation.breakdown_plot import write_plot
    from nqg.grammar.grammar import Grammar

    grammar = Grammar.read(model / "grammar.txt", max_non_terminals=MOST_NON_TERMINALS) if model else None
    train = read_examples(asked.train) if asked.train else []
    causes = breakdown(evaluation_rows(found), train=train, grammar=grammar, is_right=found.judge.is_right)
    if asked.errors:
        write_text(asked.errors, "".join(f"{json.dumps(line, ensure_ascii=False)}\n" for line in causes.records()))
        report_written(asked.errors)
    if asked.plot:
        write_plot(asked.plot, {"": causes})
        report_written(asked.plot)
    return causes


def show_causes(causes: Breakdown) -> None:
    """Print the table of causes, and what the grammar lacks."""
    from nqg.evaluation.metrics import percent

    table = Table("of", "cause", "errors", "share", "holds for", "for example", box=None, pad_edge=False)
    for line in causes.table():
        example = f"{line.example.example.source}: {line.example.detail}"
        table.add_row(line.by, line.cause, f"{line.errors:,}", percent(line.share), f"{line.holds:,}", example)
    out.print()
    out.print(table if causes.findings else "no prediction is wrong or missing")
    lacks = [f"{each.what} ({each.sentences:,})" for each in causes.lacks()[:LACKS_SHOWN]]
    if lacks:
        out.print(f"\nthe grammar lacks, by the sentences that need it: {', '.join(lacks)}")


def causes_facts(causes: Breakdown) -> dict[str, Any]:
    """The table of causes, for JSON."""
    lines = [
        {"by": line.by, "cause": line.cause.name.lower(), "errors": line.errors, "holds_for": line.holds}
        for line in causes.table()
    ]
    return {"causes": lines, "lacks": {each.what: each.sentences for each in causes.lacks()}}
