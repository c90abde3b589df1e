"""`nqg reproduce` and `nqg report`: recipes from data to their rows of the paper's tables, and the
tables.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from itertools import chain
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from nqg.cli.options import (
    Device,
    Mirror,
    ParallelEngine,
    WorkerCount,
    changes_option,
    command,
)
from nqg.cli.terminal import (
    Workers,
    err,
    interruptible,
    out,
    output,
    progress_bar,
    report_written,
)
from nqg.errors import NqgError, UnknownName, counted
from nqg.files import write_text
from nqg.paper.recipe import (
    SYSTEMS,
    Recipe,
    SystemName,
    UsedWeights,
    read_recipe,
    recipe_names,
    used_weights,
)
from nqg.paper.records import RESULTS_FILE, Record, Results, records


@dataclass(frozen=True, kw_only=True)
class ReproduceOptions:
    """Which recipes are run, with which systems, how often and where."""

    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="NAME...",
            help="Recipes, or paths of your own.",
            show_default="a list of all",
        ),
    ] = None
    seeds: Annotated[
        int,
        typer.Option(
            "--seeds", metavar="N", min=1, help="Run with the seeds 0 to N-1."
        ),
    ] = 1
    systems: Annotated[
        str | None,
        typer.Option(
            "--systems",
            metavar="A,B",
            help=f"Any of {', '.join(SYSTEMS)}.",
            show_default="the recipe's",
        ),
    ] = None
    encoder: Annotated[
        str | None,
        typer.Option(
            "--encoder", metavar="NAME|FOLDER", help="Replace the recipe's encoder."
        ),
    ] = None
    seq2seq: Annotated[
        str | None,
        typer.Option(
            "--seq2seq",
            metavar="NAME|FOLDER",
            help="Replace the sequence-to-sequence model.",
        ),
    ] = None
    changes: Annotated[list[str], changes_option("teaching.rounds=1")] = field(
        default_factory=list
    )
    results: Annotated[
        Path,
        typer.Option(
            "--results", metavar="FOLDER", help="Where records are read and written."
        ),
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
        if output.as_json:
            out.print_json(data=recipe_names())
        else:
            out.print("\n".join(recipe_names()))
        return
    work = Workers.chosen(options.engine, options.workers, options.device)
    chosen = [_chosen(name, options) for name in options.names]
    # Loads torch and transformers, for which mistakes in options need not wait.
    from nqg.paper.runner import Plan, run_plans

    results_folder = options.results.absolute()
    mirror = options.mirror.absolute() if options.mirror else None
    plans = [Plan(*choice, results_folder, work.device, mirror) for choice in chosen]
    stored = stored_records(options.results)
    seeds = range(options.seeds)
    with interruptible("run the same command again to continue"):
        if work.engine.is_serial:
            results = []
            with progress_bar() as progress:
                for plan in plans:
                    records = plan.runner(progress).records(plan.systems, seeds)
                    results.append(list(records))
        else:
            results = run_plans(plans, seeds, work.engine)
    for of_plan in results:
        for line in notices(of_plan, stored, options.results):
            err.print(line)
    if output.as_json:
        out.print_json(data=[asdict(record) for record in chain(*results)])
    else:
        for plan, of_plan in zip(plans, results):
            out.print(_row(plan.recipe, of_plan))


def stored_records(folder: Path) -> list[Record]:
    """The records of a folder of results, if it has any."""
    if not (folder / RESULTS_FILE).exists():
        return []
    return list(records(folder))


def notices(
    of_recipe: Sequence[Record], before: Sequence[Record], folder: Path
) -> Iterator[str]:
    """What to know of the records of a recipe: which were stored before, and whether others of the
    recipe are of other examples.
    """
    stored = [record for record in of_recipe if record in before]
    if stored:
        commits = ", ".join(sorted({record.commit[:12] for record in stored}))
        runs = counted(len(stored), "run")
        yield (
            f"{stored[0].cell.recipe}: {runs} stored in {folder}, of commit {commits}: "
            "not run again"
        )
    others: dict[str, None] = {}
    for record in before:
        for new in of_recipe:
            if record.cell.recipe == new.cell.recipe and record.data != new.data:
                others[record.cell.system] = None
    made_now = {record.cell.system for record in of_recipe}
    left = [system for system in others if system not in made_now]
    if left:
        yield (
            f"warning: {folder} has runs of {of_recipe[0].cell.recipe} on other examples "
            f"({', '.join(left)}), which do not compare with these: "
            "choose another folder or another name for the recipe"
        )


def _chosen(
    name: str, options: ReproduceOptions
) -> tuple[Recipe, UsedWeights, tuple[SystemName, ...]]:
    """A recipe, its weights and its systems; weights that stand in for others are printed."""
    wanted = [
        system.strip()
        for system in (options.systems or "").split(",")
        if system.strip()
    ]
    for system in wanted:
        if system not in SYSTEMS:
            raise UnknownName("system", system, SYSTEMS)
    recipe = read_recipe(name, options.changes)
    systems = tuple(system for system in SYSTEMS if system in wanted) or recipe.systems
    weights = used_weights(recipe, options.encoder, options.seq2seq, systems=systems)
    for system in systems:
        # Of hybrids, the parts are told apart.
        label, named = weights.label(system), weights.asked(system)
        if label != named and "+" not in label:
            err.print(f"{system}: {label} stands in for {named}")
    return recipe, weights, systems


def _row(recipe: Recipe, of_recipe: list[Record]) -> Table:
    """Our figures over all seeds that were run now, and the paper's."""
    results = Results.collected(of_recipe)
    table = Table(
        title=f"{recipe.title}: per cent",
        title_justify="left",
        box=None,
        pad_edge=False,
    )
    for column in ("system", "accuracy", "coverage", "precision", "seeds"):
        table.add_column(column, justify="left" if column == "system" else "right")
    for series in results.series([recipe.name]):
        cells = [series.title]
        for name in ("accuracy", "coverage", "precision"):
            figure = results.figure(recipe.name, series, name)
            cells.append("undefined" if figure is None else figure.in_percent)
        table.add_row(*cells, str(len(results.of(recipe.name, series))))
    # The paper's figures come behind ours.
    for system, accuracy in recipe.paper.accuracy.items():
        cells = [f"paper: {system}", f"{accuracy:.1f}"]
        for name in ("coverage", "precision"):
            papers = recipe.paper.nqg.get(name) if system == "NQG" else None
            cells.append("" if papers is None else f"{papers:.1f}")
        table.add_row(*cells, "", style="dim")
    return table


@dataclass(frozen=True, kw_only=True)
class ReportOptions:
    """Which records are shown, and in which forms."""

    folder: Annotated[
        Path,
        typer.Argument(
            metavar="RESULTS", help="A folder that `nqg reproduce` wrote records to."
        ),
    ] = Path("results")
    files: Annotated[
        list[Path],
        typer.Option(
            "-o",
            "--output",
            metavar="FILE",
            help="Write the tables (.md) or the plot (.png, .svg); may be repeated.",
            show_default="print the tables",
        ),
    ] = field(default_factory=list)


@command(ReportOptions)
def report(options: ReportOptions) -> None:
    """Print the paper's tables with our results beside the paper's.

    Example: nqg report results -o tables.md
    """
    from nqg.paper.plots import drawing, write_picture
    from nqg.paper.tables import is_papers, markdown, tables

    of_paper = tables(Results.collected(records(options.folder)))
    if not of_paper:
        raise NqgError(
            f"{options.folder}: no records of the paper's tables; `nqg reproduce NAME` writes some"
        )
    for path in options.files:
        if path.suffix == ".md":
            write_text(path, markdown(of_paper))
        else:
            write_picture(path, drawing(options.folder))
    report_written(*options.files)
    if output.as_json:
        out.print_json(data=[asdict(table) for table in of_paper])
    elif not options.files:
        for table in of_paper:
            printed = Table(
                *table.header, title=table.heading, title_justify="left", box=None
            )
            for row in table.rows:
                printed.add_row(*row, style="dim" if is_papers(row) else None)
            out.print(printed, *table.notes, "", sep="\n")
