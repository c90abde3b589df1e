"""`nqg reproduce`: a recipe from data to its row of the paper's tables."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.table import Table

from nqg.cli.terminal import (
    DEVICE,
    ENGINE,
    MIRROR,
    STOPPED,
    WORKERS,
    Workforce,
    complain,
    err,
    out,
    progress_bar,
    report_written,
)
from nqg.engines import Engine, Here
from nqg.errors import NqgError, UnknownName
from nqg.files import write_text

if TYPE_CHECKING:
    from nqg.experiments.recipe import Recipe, SystemName, UsedWeights
    from nqg.experiments.records import Record
    from nqg.experiments.runner import Plan
    from nqg.experiments.tables import ResultTable


NAMES = typer.Argument(
    None, metavar="[NAME]...", help="Recipes, or paths of your own ones; --list shows all.", show_default=False
)
SEEDS = typer.Option(1, "--seeds", metavar="N", min=1, help="Run with the seeds 0 to N-1.")
SYSTEMS = typer.Option(None, "--systems", metavar="A,B", help="nqg, seq2seq, hybrid, gated. Default: the recipe's.")
ENCODER = typer.Option(None, "--encoder", metavar="NAME|FOLDER", help="Another encoder than the recipe's.")
SEQ2SEQ = typer.Option(None, "--seq2seq", metavar="NAME|FOLDER", help="Another sequence-to-sequence model.")
RESULTS = typer.Option(Path("results"), "--results", metavar="FOLDER", help="Where records are read and written.")
LIST = typer.Option(False, "--list", help="List the recipes and stop.")
JSON = typer.Option(False, "--json", metavar="", help="Print JSON.")


def reproduce(
    names: list[str] | None = NAMES,
    seeds: int = SEEDS,
    systems: str | None = SYSTEMS,
    encoder: str | None = ENCODER,
    seq2seq: str | None = SEQ2SEQ,
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

    Finished runs are not repeated; interrupted ones are resumed. If the weights of
    a recipe cannot be downloaded, a stand-in is used and labelled as such. With
    workers, every recipe, system and seed runs as a task of its own; hybrids wait
    for their parts.
    """
    from nqg.experiments.recipe import read_recipe, recipe_names

    if list_recipes or not names:
        known = list(recipe_names())
        out.print_json(data=known) if as_json else out.print("\n".join(known))
        return
    asked, work = _systems(systems), Workforce.chosen(engine, workers, device)
    plans = [_plan(read_recipe(name), asked, encoder, seq2seq, results, mirror, work.device) for name in names]
    records = _run(plans, range(seeds), work.engine)
    if as_json:
        from dataclasses import asdict

        out.print_json(data=[asdict(record) for found in records for record in found])
    else:
        for plan, found in zip(plans, records, strict=True):
            out.print(_row(plan.recipe, found))


def _systems(text: str | None) -> tuple[SystemName, ...]:
    from nqg.experiments.recipe import SYSTEMS

    asked = [name.strip() for name in (text or "").split(",") if name.strip()]
    for name in asked:
        if name not in SYSTEMS:
            raise UnknownName("system", name, SYSTEMS)
    return tuple(system for system in SYSTEMS if system in asked)


def _plan(
    recipe: Recipe,
    asked: tuple[SystemName, ...],
    encoder: str | None,
    seq2seq: str | None,
    results: Path,
    mirror: Path | None,
    device: str | None,
) -> Plan:
    from nqg.experiments.recipe import used_weights
    from nqg.experiments.runner import Plan

    systems = asked or recipe.systems
    weights = used_weights(recipe, encoder, seq2seq, systems=systems)
    _label_stand_ins(weights, systems)
    return Plan(recipe, weights, systems, results.absolute(), device, mirror and mirror.absolute())


def _run(plans: list[Plan], seeds: range, engine: Engine) -> list[list[Record]]:
    from nqg.experiments.runner import run_plans

    try:
        if not isinstance(engine, Here):
            return run_plans(plans, seeds, engine)
        with progress_bar() as progress:
            return [list(plan.runner(progress).records(plan.systems, seeds)) for plan in plans]
    except KeyboardInterrupt:
        complain("interrupted; the same command goes on where it stopped")
        raise typer.Exit(STOPPED) from None


def _label_stand_ins(weights: UsedWeights, systems: tuple[SystemName, ...]) -> None:
    for system in systems:
        if weights.label(system) != weights.asked(system) and system in ("nqg", "seq2seq"):
            err.print(f"{system}: {weights.label(system)} stands in for {weights.asked(system)}")


def _row(recipe: Recipe, records: list[Record]) -> Table:
    """Our figures over all seeds that were run now, and the paper's."""
    from nqg.experiments.records import Results

    results = Results.collected(records)
    table = Table(title=f"{recipe.title}: per cent", title_justify="left", box=None, pad_edge=False)
    for column in ("system", "accuracy", "coverage", "precision", "seeds"):
        table.add_column(column, justify="left" if column == "system" else "right")
    for series in results.series([recipe.name]):
        spreads = [results.figure(recipe.name, series, name) for name in ("accuracy", "coverage", "precision")]
        shown = ["undefined" if each is None else each.in_percent for each in spreads]
        table.add_row(series.title, *shown, str(len(results.of(recipe.name, series))))
    for system, accuracy in recipe.paper.accuracy.items():
        facts = recipe.paper.nqg if system == "NQG" else {}
        shown = [f"{facts[name]:.1f}" if name in facts else "" for name in ("coverage", "precision")]
        table.add_row(f"paper: {system}", f"{accuracy:.1f}", *shown, "", style="dim")
    return table


FOLDER = typer.Argument(Path("results"), metavar="RESULTS", help="A folder that `nqg reproduce` wrote records to.")
MARKDOWN = typer.Option(None, "--markdown", metavar="FILE", help="Write the tables as Markdown.")
PAGE = typer.Option(None, "--html", metavar="FILE", help="Write the tables and a picture as one HTML page.")
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
    from nqg.experiments import tables as rendering
    from nqg.experiments.records import Results, records
    from nqg.experiments.tables import pictures, tables, write_plot

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


def _show(table: ResultTable) -> None:
    shown = Table(*table.header, title=table.heading, title_justify="left", box=None)
    for row in table.rows:
        shown.add_row(*row, style="dim" if row[0].startswith("paper") else None)
    out.print(shown)
    for note in table.notes:
        out.print(note)
    out.print()
