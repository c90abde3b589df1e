"""`nqg report`: the paper's tables, from records of what was run."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.table import Table as RichTable

from nqg.cli.terminal import out, report_written
from nqg.errors import NqgError
from nqg.files import write_text

if TYPE_CHECKING:
    from nqg.experiments.tables import Table

FOLDER = typer.Argument(Path("results"), metavar="RESULTS", help="A folder that `nqg reproduce` wrote records to.")
MARKDOWN = typer.Option(None, "--markdown", metavar="FILE", help="Write the tables as Markdown.")
PAGE = typer.Option(None, "--html", metavar="FILE", help="Write the tables and a picture as one HTML page.")
PLOT = typer.Option(None, "--plot", metavar="FILE", help="Draw accuracies beside the paper's, .png or .svg.")
JSON = typer.Option(False, "--json", help="Print JSON.")


def report(
    folder: Path = FOLDER,
    markdown: Path | None = MARKDOWN,
    page: Path | None = PAGE,
    plot: Path | None = PLOT,
    as_json: bool = JSON,
) -> None:
    """Print the paper's tables with our figures beside the paper's.

    Example: nqg report results --markdown tables.md
    """
    from nqg.experiments import rendering
    from nqg.experiments.plot import pictures, write_plot
    from nqg.experiments.records import records
    from nqg.experiments.summary import Results
    from nqg.experiments.tables import tables

    results = Results.collected(records(folder))
    found = tables(results)
    if not found:
        raise NqgError(f"{folder}: no records of the paper's tables; `nqg reproduce NAME` writes some")
    if markdown:
        write_text(markdown, rendering.markdown(found))
        report_written(markdown)
    if page:
        write_text(page, rendering.page(found, pictures(results)))
        report_written(page)
    if plot:
        write_plot(plot, results)
        report_written(plot)
    if as_json:
        out.print_json(data=[asdict(table) for table in found])
    elif not (markdown or page or plot):
        for table in found:
            _show(table)


def _show(table: Table) -> None:
    shown = RichTable(*table.header, title=table.heading, title_justify="left", box=None)
    for row in table.rows:
        shown.add_row(*row, style="dim" if row[0].startswith("paper") else None)
    out.print(shown)
    for note in table.notes:
        out.print(note)
    out.print()
