"""`nqg data`: list the datasets that are known by name, and write them as files."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any

import typer
from rich.table import Table

from nqg.cli.terminal import JSON, MIRROR, err, make_folder, out, progress_bar, report_written
from nqg.data.catalogue import CATALOGUE, Entry, entry_named
from nqg.data.dataset import write_split
from nqg.data.download import file_store
from nqg.data.examples import Example, write_examples
from nqg.files import write_text

HELP = """List and prepare the datasets that nqg knows by name.

Example: nqg data list
"""
data = typer.Typer(no_args_is_help=True, add_completion=False, rich_markup_mode="rich", help=HELP)


class FileFormat(StrEnum):
    tsv = "tsv"
    jsonl = "jsonl"


@data.command("list")
def list_datasets(mirror: Path | None = MIRROR, as_json: bool = JSON) -> None:
    """Show every dataset: size, splits, licence, whether its files are available.

    Example: nqg data list
    """
    store = file_store(mirror)
    missing = {name: entry.missing(store) for name, entry in CATALOGUE.items()}
    if as_json:
        files = {
            name: [{"path": file.path, "address": file.address, "bytes": file.size} for file in lacking]
            for name, lacking in missing.items()
        }
        out.print_json(data=[_summary(entry) | {"missing": files[entry.name]} for entry in CATALOGUE.values()])
        return
    table = Table("name", "examples", "splits", "licence", "ready", box=None, pad_edge=False)
    table.columns[1].justify = "right"
    for name, entry in CATALOGUE.items():
        lacking = [split for split, needed in entry.splits.items() if set(missing[name]) & set(needed.files)]
        ready = f"yes, but {', '.join(lacking)}" if lacking else "yes"
        ready = "no" if set(missing[name]) & set(entry.files) else ready
        table.add_row(name, f"{entry.size:,}", ", ".join(entry.splits), entry.licence, ready)
    out.print(table)
    if any(missing.values()):
        err.print("`nqg data prepare NAME` downloads what is missing, or says what to put where.")


@data.command()
def prepare(
    name: str = typer.Argument(metavar="NAME", help=f"One of: {', '.join(CATALOGUE)}."),
    mirror: Path | None = MIRROR,
    folder: Path | None = typer.Option(
        None, "-o", "--output", metavar="FOLDER", help="Where to write.", show_default="here; for a split, NAME-SPLIT"
    ),
    split: str | None = typer.Option(
        None, "--split", metavar="SPLIT", help="Write the parts of this split, not the whole dataset."
    ),
    form: FileFormat = typer.Option(
        FileFormat.tsv, "--format", metavar="tsv|jsonl", help="How to write examples; jsonl keeps ids."
    ),
    as_json: bool = JSON,
) -> None:
    """Download a dataset, verify it, convert it, and write it as files.

    Example: nqg data prepare geoquery --split tmcd -o geoquery
    """
    entry = entry_named(name)
    with progress_bar() as progress:
        store = file_store(mirror, progress)
        dataset, beside = entry.load(store), entry.files_beside(store)
        chosen = dataset.parts(split) if split else None
    parts: dict[str, Sequence[Example]] = {name: dataset.examples}
    if chosen:
        named = {"train": chosen.train, "dev": chosen.dev, "test": chosen.test}
        parts = {part: examples for part, examples in named.items() if examples}
    folder = folder or Path(f"{name}-{split}" if split else ".")
    make_folder(folder)
    written = [folder / f"{part}.{form.value}" for part in parts]
    for path, examples in zip(written, parts.values(), strict=True):
        write_examples(path, examples)
    if split:
        write_split(folder / "split.json", dataset.positions(split))
        written.append(folder / "split.json")
    for file, text in beside.items():
        write_text(folder / file, text)
        written.append(folder / file)
    is_published = dataset.fingerprint == entry.fingerprint
    sizes = {part: len(examples) for part, examples in parts.items()}
    addresses = list(entry.addresses(split))
    if as_json:
        made = {"addresses": addresses, "as_published": is_published, "parts": sizes, "files": list(map(str, written))}
        out.print_json(data=_summary(entry) | made)
    else:
        shown = ", ".join(f"{size:,} {part}" for part, size in sizes.items()) if split else ""
        out.print(f"{name}: {entry.about}")
        out.print(f"examples  {entry.size:,}" + (f": {shown}" if shown else ""))
        out.print("contents  " + ("as published" if is_published else "not as published: another release of the files"))
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
