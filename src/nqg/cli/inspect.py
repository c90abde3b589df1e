"""`nqg inspect`: a grammar in figures, what it does on a dataset, and how its search went."""

from __future__ import annotations

from pathlib import Path

import typer

from nqg.cli.terminal import out, report_written
from nqg.data.example_files import read_examples
from nqg.grammar.grammar import Grammar
from nqg.induction.settings import InductionSettings

ANY_ARITY = 9999  # as many non-terminals as the text form of a rule can number

GRAMMAR = typer.Argument(metavar="GRAMMAR", help="A file of rules, plain or .gz.", show_default=False)
DATA = typer.Option(None, "--data", metavar="FILE", help="Examples to derive: .tsv or .jsonl, plain or .gz.")
TRACE = typer.Option(None, "--trace", metavar="FILE", help="The trace of the search: summed up, and drawn by --plot.")
PLOT = typer.Option(None, "--plot", metavar="FILE", help="Draw description length over steps, .png or .svg.")
TOP = typer.Option(5, "--top", metavar="N", min=0, help="How many of the longest and most used rules to list.")
TERMINAL_BITS = typer.Option(
    None, "--terminal-bits", metavar="BITS", help="What a word in a rule costs. Default: as in the search, or 8."
)
NON_TERMINAL_BITS = typer.Option(
    None, "--non-terminal-bits", metavar="BITS", help="What a non-terminal costs. Default: as in the search, or 1."
)
JSON = typer.Option(False, "--json", help="Print JSON.")


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

    Example: nqg inspect grammar.txt --data test.tsv --trace steps.jsonl --plot steps.png
    """
    from nqg.induction.inspection import coverage
    from nqg.induction.plot import write_plot
    from nqg.induction.report import Report
    from nqg.induction.trace import read_trace

    if plot and not trace:
        raise typer.BadParameter("a plot shows the steps of a search; give its --trace", param_hint="--plot")
    grammar = Grammar.read(file, ANY_ARITY)
    settings = _settings(file, terminal_bits, non_terminal_bits)
    covered = coverage(grammar, read_examples(data)) if data else None
    steps = read_trace(trace) if trace else None
    report = Report(grammar, settings, top, covered, steps)
    if as_json:
        out.print_json(data=report.as_json())
    else:
        out.print(str(report))
    if plot and steps:
        write_plot(plot, steps)
        report_written(plot)


def _settings(file: Path, terminal_bits: float | None, non_terminal_bits: float | None) -> InductionSettings:
    """What symbols cost: as given, else as recorded on top of the grammar file, else the default."""
    from nqg.induction.origin import recorded_settings

    recorded = recorded_settings(file)
    given = {"terminal_bits": terminal_bits, "non_terminal_bits": non_terminal_bits}
    values = {name: recorded.get(name) if value is None else value for name, value in given.items()}
    return InductionSettings().changed(**{name: bits for name, bits in values.items() if isinstance(bits, float)})
