"""`nqg reproduce` and `nqg report`: recipes from data to their rows of the paper's tables, and the tables."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import typer
from rich.table import Table

from nqg.cli.terminal import (
    DEVICE,
    ENGINE,
    JSON,
    MIRROR,
    WORKERS,
    Workforce,
    err,
    interruptible,
    out,
    progress_bar,
    report_written,
)
from nqg.engines import Here
from nqg.errors import NqgError, UnknownName
from nqg.experiments import tables as rendering
from nqg.experiments.recipe import SYSTEMS as KNOWN_SYSTEMS
from nqg.experiments.recipe import Recipe, read_recipe, recipe_names, used_weights
from nqg.experiments.records import Record, Results, records
from nqg.experiments.runner import Plan, run_plans
from nqg.files import write_text

NAMES = typer.Argument(
    None, metavar="NAME...", help="Recipes, or paths of your own; --list shows all.", show_default=False
)
SEEDS = typer.Option(1, "--seeds", metavar="N", min=1, help="Run with the seeds 0 to N-1.")
SYSTEMS = typer.Option(
    None, "--systems", metavar="A,B", help=f"Any of {', '.join(KNOWN_SYSTEMS)}.", show_default="the recipe's"
)
ENCODER = typer.Option(None, "--encoder", metavar="NAME|FOLDER", help="Replace the recipe's encoder.")
SEQ2SEQ = typer.Option(None, "--seq2seq", metavar="NAME|FOLDER", help="Replace the sequence-to-sequence model.")
CHANGES = typer.Option(
    None, "--set", metavar="NAME=VALUE", help="Change a setting of the recipe, as teaching.rounds=1; may be repeated."
)
RESULTS = typer.Option(Path("results"), "--results", metavar="FOLDER", help="Where records are read and written.")
LIST = typer.Option(False, "--list", metavar="", help="List the recipes and exit.")


def reproduce(
    names: list[str] | None = NAMES,
    seeds: int = SEEDS,
    systems: str | None = SYSTEMS,
    encoder: str | None = ENCODER,
    seq2seq: str | None = SEQ2SEQ,
    changes: list[str] | None = CHANGES,
    results: Path = RESULTS,
    mirror: Path | None = MIRROR,
    engine: str = ENGINE,
    workers: int | None = WORKERS,
    device: str | None = DEVICE,
    list_recipes: bool = LIST,
    as_json: bool = JSON,
) -> None:
    """Run recipes and compare the results with the paper's.

    Example: nqg reproduce scan-length

    Finished runs are not repeated; interrupted ones are resumed. If the weights
    of a recipe cannot be downloaded, a stand-in is used and labelled as such.
    With workers, every recipe, system and seed runs as a task of its own; hybrids
    wait for their parts.
    """
    if list_recipes or not names:
        known = list(recipe_names())
        out.print_json(data=known) if as_json else out.print("\n".join(known))
        return
    wanted = [name.strip() for name in (systems or "").split(",") if name.strip()]
    for name in wanted:
        if name not in KNOWN_SYSTEMS:
            raise UnknownName("system", name, KNOWN_SYSTEMS)
    work = Workforce.chosen(engine, workers, device)
    plans = []
    for recipe in (read_recipe(name, changes or ()) for name in names):
        chosen = tuple(system for system in KNOWN_SYSTEMS if system in wanted) or recipe.systems
        weights = used_weights(recipe, encoder, seq2seq, systems=chosen)
        for system in chosen:
            if weights.label(system) != weights.asked(system) and "+" not in weights.label(system):
                err.print(f"{system}: {weights.label(system)} stands in for {weights.asked(system)}")
        plans.append(Plan(recipe, weights, chosen, results.absolute(), work.device, mirror and mirror.absolute()))
    with interruptible("run the same command again to continue"):
        if isinstance(work.engine, Here):
            with progress_bar() as progress:
                found = [list(plan.runner(progress).records(plan.systems, range(seeds))) for plan in plans]
        else:
            found = run_plans(plans, range(seeds), work.engine)
    if as_json:
        out.print_json(data=[asdict(record) for each in found for record in each])
    else:
        for plan, each in zip(plans, found, strict=True):
            out.print(_row(plan.recipe, each))


def _row(recipe: Recipe, found: list[Record]) -> Table:
    """Our figures over all seeds that were run now, and the paper's."""
    results = Results.collected(found)
    table = Table(title=f"{recipe.title}: per cent", title_justify="left", box=None, pad_edge=False)
    for column in ("system", "accuracy", "coverage", "precision", "seeds"):
        table.add_column(column, justify="left" if column == "system" else "right")
    for series in results.series([recipe.name]):
        spreads = [results.figure(recipe.name, series, name) for name in ("accuracy", "coverage", "precision")]
        shown = ["undefined" if each is None else each.in_percent for each in spreads]
        table.add_row(series.title, *shown, str(len(results.of(recipe.name, series))))
    for system, accuracy in recipe.paper.accuracy.items():
        figures = recipe.paper.nqg if system == "NQG" else {}
        shown = [f"{figures[name]:.1f}" if name in figures else "" for name in ("coverage", "precision")]
        table.add_row(f"paper: {system}", f"{accuracy:.1f}", *shown, "", style="dim")
    return table


FOLDER = typer.Argument(Path("results"), metavar="RESULTS", help="A folder that `nqg reproduce` wrote records to.")
MARKDOWN = typer.Option(None, "--markdown", metavar="FILE", help="Write the tables as Markdown.")
PAGE = typer.Option(None, "--html", metavar="FILE", help="Write the tables and a plot as one HTML page.")
PLOT = typer.Option(None, "--plot", metavar="FILE", help="Draw accuracies beside the paper's, .png or .svg.")


def report(
    folder: Path = FOLDER,
    markdown: Path | None = MARKDOWN,
    page: Path | None = PAGE,
    plot: Path | None = PLOT,
    as_json: bool = JSON,
) -> None:
    """Print the paper's tables with our results beside the paper's.

    Example: nqg report results --markdown tables.md
    """
    results = Results.collected(records(folder))
    found = rendering.tables(results)
    if not found:
        raise NqgError(f"{folder}: no records of the paper's tables; `nqg reproduce NAME` writes some")
    if markdown:
        write_text(markdown, rendering.markdown(found))
    if page:
        write_text(page, rendering.page(found, rendering.pictures(results)))
    if plot:
        rendering.write_plot(plot, results)
    report_written(*filter(None, (markdown, page, plot)))
    if as_json:
        out.print_json(data=[asdict(table) for table in found])
    elif not (markdown or page or plot):
        for table in found:
            shown = Table(*table.header, title=table.heading, title_justify="left", box=None)
            for row in table.rows:
                shown.add_row(*row, style="dim" if row[0].startswith("paper") else None)
            out.print(shown)
            for note in table.notes:
                out.print(note)
            out.print()
