"""`nqg data`: list the datasets that are known by name, and write them as files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from nqg.cli.options import Mirror, command
from nqg.cli.terminal import err, make_folder, out, output, progress_bar, report_written
from nqg.data.dataset import write_split
from nqg.data.example import Example
from nqg.data.example_files import write_examples
from nqg.files import write_text
from nqg.paper.datasets import CATALOGUE, Entry, entry_named
from nqg.paper.download import file_store

HELP = """List and prepare the datasets that nqg knows by name.

Example: nqg data list
"""
data = typer.Typer(
    no_args_is_help=True, add_completion=False, rich_markup_mode="rich", help=HELP
)


class FileFormat(StrEnum):
    tsv = "tsv"
    jsonl = "jsonl"


@dataclass(frozen=True, kw_only=True)
class ListOptions:
    """Where files of datasets are looked for."""

    mirror: Mirror = None


@dataclass(frozen=True, kw_only=True)
class PrepareOptions:
    """Which dataset, and how it is written."""

    name: Annotated[
        str, typer.Argument(metavar="NAME", help=f"One of: {', '.join(CATALOGUE)}.")
    ]
    mirror: Mirror = None
    folder: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            metavar="FOLDER",
            help="Where to write.",
            show_default="here; for a split, NAME-SPLIT",
        ),
    ] = None
    split: Annotated[
        str | None,
        typer.Option(
            "--split",
            metavar="SPLIT",
            help="Write the parts of this split, not the whole dataset.",
        ),
    ] = None
    form: Annotated[
        FileFormat,
        typer.Option(
            "--format",
            metavar="tsv|jsonl",
            help="How to write examples; jsonl keeps ids.",
        ),
    ] = FileFormat.tsv


@data.command("list")
@command(ListOptions)
def list_datasets(options: ListOptions) -> None:
    """Show every dataset: size, splits, licence, whether its files are available.

    Example: nqg data list
    """
    store = file_store(options.mirror)
    if output.as_json:
        # For programs, every missing file with its address.
        lines = []
        for entry in CATALOGUE.values():
            files = [
                {"path": file.path, "address": file.address, "bytes": file.size}
                for file in entry.missing(store)
            ]
            lines.append(_summary(entry) | {"missing": files})
        out.print_json(data=lines)
        return
    table = Table(
        "name", "examples", "splits", "licence", "ready", box=None, pad_edge=False
    )
    table.columns[1].justify = "right"
    # A split may need more files than the examples do.
    is_complete = True
    for name, entry in CATALOGUE.items():
        missing = entry.missing(store)
        lacking = [
            split
            for split, needed in entry.splits.items()
            if {*missing} & {*needed.files}
        ]
        ready = "yes"
        if {*missing} & {*entry.files}:
            ready = "no"
        elif lacking:
            ready = f"yes, but {', '.join(lacking)}"
        is_complete = is_complete and not missing
        table.add_row(
            name, f"{entry.size:,}", ", ".join(entry.splits), entry.licence, ready
        )
    out.print(table)
    if not is_complete:
        err.print(
            "`nqg data prepare NAME` downloads what is missing, or says what to put where."
        )


@data.command()
@command(PrepareOptions)
def prepare(options: PrepareOptions) -> None:
    """Download a dataset, verify it, convert it, and write it as files.

    Example: nqg data prepare geoquery --split tmcd -o geoquery
    """
    name, split = options.name, options.split
    entry = entry_named(name)
    with progress_bar() as progress:
        store = file_store(options.mirror, progress)
        dataset, beside = entry.load(store), entry.files_beside(store)
        parts: dict[str, Sequence[Example]] = {name: dataset.examples}
        if split:
            named = dataset.parts(split)._asdict()
            parts = {part: examples for part, examples in named.items() if examples}
    folder = options.folder or Path(f"{name}-{split}" if split else ".")
    make_folder(folder)
    written = []
    for part, examples in parts.items():
        written.append(folder / f"{part}.{options.form.value}")
        write_examples(written[-1], examples)
    if split:
        written.append(folder / "split.json")
        write_split(written[-1], dataset.positions(split))
    for file, text in beside.items():
        written.append(folder / file)
        write_text(written[-1], text)
    is_published = dataset.fingerprint == entry.fingerprint
    sizes = {part: len(examples) for part, examples in parts.items()}
    addresses = list(entry.addresses(split))
    if output.as_json:
        facts = {
            "addresses": addresses,
            "as_published": is_published,
            "parts": sizes,
            "files": list(map(str, written)),
        }
        out.print_json(data=_summary(entry) | facts)
    else:
        counts = f"{entry.size:,}"
        if split:
            counts += ": " + ", ".join(
                f"{size:,} {part}" for part, size in sizes.items()
            )
        contents = (
            "as published"
            if is_published
            else "not as published: another release of the files"
        )
        out.print(f"{name}: {entry.about}")
        out.print(f"examples  {counts}")
        out.print(f"contents  {contents}")
        out.print(f"licence   {entry.licence}")
        out.print(f"cite      {entry.citation}")
        out.print("from      " + ("\n          ".join(addresses) or "generated"))
    report_written(*written)


def _summary(entry: Entry) -> dict[str, Any]:
    """What is known of a dataset without its files."""
    return {
        "name": entry.name,
        "about": entry.about,
        "examples": entry.size,
        "splits": list(entry.splits),
        "licence": entry.licence,
        "citation": entry.citation,
    }
