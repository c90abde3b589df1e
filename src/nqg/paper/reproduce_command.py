"""`nqg reproduce` and `nqg report`: recipes from data to their rows of the paper's tables, and the tables."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from nqg.cli.options import Device, Mirror, ParallelEngine, WorkerCount, changes_option, command
from nqg.cli.terminal import (
    Workforce,
    err,
    interruptible,
    out,
    output,
    progress_bar,
    report_written,
)
from nqg.errors import NqgError, UnknownName
from nqg.files import write_text
from nqg.paper import plots
from nqg.paper import tables as rendering
from nqg.paper.recipe import SYSTEMS as KNOWN_SYSTEMS
from nqg.paper.recipe import Recipe, read_recipe, recipe_names, used_weights
from nqg.paper.records import Record, Results, records
from nqg.paper.runner import Plan, run_plans


@dataclass(frozen=True, kw_only=True)
class ReproduceOptions:
    """Which recipes are run, with which systems, how often and where."""

    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="NAME...", help="Recipes, or paths of your own.", show_default="a list of all"
        ),
    ] = None
    seeds: Annotated[
        int, typer.Option("--seeds", metavar="N", min=1, help="Run with the seeds 0 to N-1.")
    ] = 1
    systems: Annotated[
        str | None,
        typer.Option(
            "--systems",
            metavar="A,B",
            help=f"Any of {', '.join(KNOWN_SYSTEMS)}.",
            show_default="the recipe's",
        ),
    ] = None
    encoder: Annotated[
        str | None,
        typer.Option("--encoder", metavar="NAME|FOLDER", help="Replace the recipe's encoder."),
    ] = None
    seq2seq: Annotated[
        str | None,
        typer.Option(
            "--seq2seq", metavar="NAME|FOLDER", help="Replace the sequence-to-sequence model."
        ),
    ] = None
    changes: Annotated[list[str], changes_option("teaching.rounds=1")] = field(default_factory=list)
    results: Annotated[
        Path,
        typer.Option("--results", metavar="FOLDER", help="Where records are read and written."),
    ] = Path("results")
    mirror: Mirror = None
    engine: ParallelEngine = "local"
    workers: WorkerCount = None
    device: Device = None


@command(ReproduceOptions)
def reproduce(options: ReproduceOptions) -> None:
    """Run recipes and compare the results with the paper's.

    Example: nqg reproduce scan-length

    A recipe of your own, a TOML file, may name your own files as dataset and
    split: docs/reproduce.md. Finished runs are not repeated; interrupted ones are
    resumed. If the weights of a recipe cannot be downloaded, a stand-in is used
    and labelled as such. With workers, every recipe, system and seed runs as a
    task of its own; hybrids wait for their parts.
    """
    if not options.names:
        known = list(recipe_names())
        if output.as_json:
            out.print_json(data=known)
        else:
            out.print("\n".join(known))
        return
    work = Workforce.chosen(options.engine, options.workers, options.device)
    plans = [_plan(name, options, work.device) for name in options.names]
    seeds = range(options.seeds)
    with interruptible("run the same command again to continue"):
        if work.engine.is_serial:
            with progress_bar() as progress:
                results = [
                    list(plan.runner(progress).records(plan.systems, seeds)) for plan in plans
                ]
        else:
            results = run_plans(plans, seeds, work.engine)
    if output.as_json:
        out.print_json(data=[asdict(record) for found in results for record in found])
    else:
        for plan, found in zip(plans, results, strict=True):
            out.print(_row(plan.recipe, found))


def _plan(name: str, options: ReproduceOptions, device: str | None) -> Plan:
    """What is to be run of a recipe, and with which weights; those that stand in for others are named."""
    wanted = [system.strip() for system in (options.systems or "").split(",") if system.strip()]
    for system in wanted:
        if system not in KNOWN_SYSTEMS:
            raise UnknownName("system", system, KNOWN_SYSTEMS)
    recipe = read_recipe(name, options.changes)
    systems = tuple(system for system in KNOWN_SYSTEMS if system in wanted) or recipe.systems
    weights = used_weights(recipe, options.encoder, options.seq2seq, systems=systems)
    for system in systems:
        label, asked = weights.label(system), weights.asked(system)
        if label != asked and "+" not in label:
            err.print(f"{system}: {label} stands in for {asked}")
    mirror = options.mirror.absolute() if options.mirror else None
    return Plan(recipe, weights, systems, options.results.absolute(), device, mirror)


def _row(recipe: Recipe, found: list[Record]) -> Table:
    """Our figures over all seeds that were run now, and the paper's."""
    results = Results.collected(found)
    table = Table(title=f"{recipe.title}: per cent", title_justify="left", box=None, pad_edge=False)
    for column in ("system", "accuracy", "coverage", "precision", "seeds"):
        table.add_column(column, justify="left" if column == "system" else "right")
    for series in results.series([recipe.name]):
        spreads = [
            results.figure(recipe.name, series, name)
            for name in ("accuracy", "coverage", "precision")
        ]
        shown = ["undefined" if each is None else each.in_percent for each in spreads]
        table.add_row(series.title, *shown, str(len(results.of(recipe.name, series))))
    for system, accuracy in recipe.paper.accuracy.items():
        figures = recipe.paper.nqg if system == "NQG" else {}
        shown = [
            f"{figures[name]:.1f}" if name in figures else "" for name in ("coverage", "precision")
        ]
        table.add_row(f"paper: {system}", f"{accuracy:.1f}", *shown, "", style="dim")
    return table


@dataclass(frozen=True, kw_only=True)
class ReportOptions:
    """Which records are shown, and in which forms."""

    folder: Annotated[
        Path,
        typer.Argument(metavar="RESULTS", help="A folder that `nqg reproduce` wrote records to."),
    ] = Path("results")
    files: Annotated[
        list[Path],
        typer.Option(
            "-o",
            "--output",
            metavar="FILE",
            help="Write the tables (.md), a page (.html) or the plot (.png, .svg); may be repeated.",
            show_default="print the tables",
        ),
    ] = field(default_factory=list)


@command(ReportOptions)
def report(options: ReportOptions) -> None:
    """Print the paper's tables with our results beside the paper's.

    Example: nqg report results -o tables.md
    """
    results = Results.collected(records(options.folder))
    found = rendering.tables(results)
    if not found:
        raise NqgError(
            f"{options.folder}: no records of the paper's tables; `nqg reproduce NAME` writes some"
        )
    for path in options.files:
        if path.suffix == ".md":
            write_text(path, rendering.markdown(found))
        elif path.suffix == ".html":
            write_text(path, rendering.page(found, [plots.svg(plots.drawing(options.folder))]))
        else:
            plots.write_picture(path, plots.drawing(options.folder))
    report_written(*options.files)
    if output.as_json:
        out.print_json(data=[asdict(table) for table in found])
    elif not options.files:
        for table in found:
            shown = Table(*table.header, title=table.heading, title_justify="left", box=None)
            for row in table.rows:
                shown.add_row(*row, style="dim" if row[0].startswith("paper") else None)
            out.print(shown)
            for note in table.notes:
                out.print(note)
            out.print()
