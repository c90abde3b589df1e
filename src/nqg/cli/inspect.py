"""`nqg inspect`: a grammar in figures, what it derives of a dataset, how its search or its training went."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import typer

from nqg.cli.terminal import JSON, out, report_written
from nqg.data.examples import Example, Values, fit_text, required_examples, tokenized
from nqg.grammar.grammar import SLOT, Grammar
from nqg.induction.inspection import Report, coverage, write_plot
from nqg.induction.settings import InductionSettings
from nqg.induction.trace import read_trace, recorded_settings
from nqg.plotting import check_picture
from nqg.text.preprocessing import FILE as TEXT
from nqg.text.preprocessing import Preprocessor
from nqg.training import records as training

ANY_ARITY = 9999  # as many non-terminals as the text form of a rule can number

GRAMMAR = typer.Argument(
    metavar="GRAMMAR|MODEL",
    help="A file of rules, plain or .gz, or a folder that `nqg train` wrote.",
    show_default=False,
)
DATA = typer.Option(None, "--data", metavar="FILE", help="Examples to derive: .tsv or .jsonl, plain or .gz.")
TRACE = typer.Option(None, "--trace", metavar="FILE", help="A trace of `nqg induce` to summarise; --plot draws it.")
PLOT = typer.Option(
    None, "--plot", metavar="FILE", help="Draw the steps of --trace, or of MODEL's training, .png or .svg."
)
TOP = typer.Option(5, "--top", metavar="N", min=0, help="How many of the longest and most used rules to list.")
TERMINAL_BITS = typer.Option(
    None, "--terminal-bits", metavar="BITS", help="Cost of a terminal in a rule.", show_default="as in the search, or 8"
)
NON_TERMINAL_BITS = typer.Option(
    None, "--non-terminal-bits", metavar="BITS", help="Cost of a non-terminal.", show_default="as in the search, or 1"
)


def inspect(
    file: Path = GRAMMAR,
    data: Path | None = DATA,
    trace: Path | None = TRACE,
    plot: Path | None = PLOT,
    top: int = TOP,
    terminal_bits: float | None = TERMINAL_BITS,
    non_terminal_bits: float | None = NON_TERMINAL_BITS,
    as_json: bool = JSON,
) -> None:
    """Show what a grammar is made of and how well it fits a dataset.

    Example: nqg inspect grammar.txt --data test.tsv --trace steps.jsonl

    Prints the bits per rule and the longest and the most used rules; with --data,
    also how many examples the grammar derives. Given a model folder, it shows the
    model's grammar, and --plot draws loss and dev accuracy over its training.
    """
    if plot and not trace and not file.is_dir():
        raise typer.BadParameter("a plot shows the steps of a search; give its --trace", param_hint="--plot")
    check_picture(plot)
    rules = file / "grammar.txt" if file.is_dir() else file
    grammar = Grammar.read(rules, ANY_ARITY)
    given = {"terminal_bits": terminal_bits, "non_terminal_bits": non_terminal_bits}
    recorded = recorded_settings(rules)
    costs = {name: recorded.get(name) if bits is None else bits for name, bits in given.items()}
    settings = InductionSettings().changed(**{name: bits for name, bits in costs.items() if isinstance(bits, float)})
    covered = None
    if data:
        raw = required_examples(data)
        text = _text_for(file, raw)
        values = Values.of(raw, text) if any(str(rule.source[0]).startswith(SLOT) for rule in grammar) else None
        grammar = replace(grammar, slots=values.mentions) if values else grammar
        covered = coverage(grammar, tokenized(raw, text))
    steps = read_trace(trace) if trace else None
    report = Report(grammar, settings, top, covered, steps)
    if as_json:
        out.print_json(data=report.to_dict())
    else:
        out.print(str(report))
    if plot:
        if steps:
            write_plot(plot, steps)
        else:
            training.write_plot(plot, training.read_steps(file / "training.jsonl"))
        report_written(plot)


def _text_for(grammar: Path, examples: Sequence[Example]) -> Preprocessor:
    """How a model with this grammar reads text or, where it is just a file, one that is fitted to the examples."""
    text = grammar / TEXT
    return Preprocessor.read(text) if text.exists() else fit_text(examples)


def tokenized_for(grammar: Path, path: Path) -> Sequence[Example]:
    """The examples in a file, as the model with this grammar, or one that is fitted to them, sees them."""
    raw = required_examples(path)
    return tokenized(raw, _text_for(grammar, raw))
