"""`nqg data`: list the datasets that are known by name, and write them as files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Any

import typer
from rich.progress import TaskID
from rich.table import Table

from nqg.cli.help_pages import Verb, Verbs
from nqg.cli.terminal import err, out, progress_bar, report_written
from nqg.data.catalogue import CATALOGUE, Entry, entry_named
from nqg.data.dataset import Dataset, write_split
from nqg.data.download import FileStore, file_store
from nqg.data.examples import Example, write_examples
from nqg.errors import NqgError
from nqg.progress import Progress

ABOUT = """List and prepare the datasets that nqg knows by name.

Example: nqg data list
"""
app = typer.Typer(cls=Verbs, no_args_is_help=True, subcommand_metavar="VERB ...", help=ABOUT)

MIRROR = typer.Option(
    None, "--mirror", metavar="FOLDER", envvar="NQG_DATA_MIRROR", help="Take files from this folder, download nothing."
)
JSON = typer.Option(False, "--json", help="Print JSON.")


class FileFormat(StrEnum):
    """How examples are written."""

    tsv = "tsv"
    jsonl = "jsonl"


@app.command("list", cls=Verb)
def list_datasets(mirror: Path | None = MIRROR, as_json: bool = JSON) -> None:
    """Show every dataset: size, splits, licence, whether its files are at hand.

    Example: nqg data list
    """
    store = file_store(mirror)
    if as_json:
        out.print_json(data=[_facts(entry) | {"missing": _missing(entry, store)} for entry in CATALOGUE.values()])
        return
    table = Table("name", "examples", "splits", "licence", "ready", box=None, pad_edge=False)
    table.columns[1].justify = "right"
    for entry in CATALOGUE.values():
        splits, ready = ", ".join(entry.splits), _readiness(entry, store)
        table.add_row(entry.name, f"{entry.size:,}", splits, entry.licence, ready)
    out.print(table)
    if any(entry.missing(store) for entry in CATALOGUE.values()):
        err.print("`nqg data prepare NAME` downloads what is missing, or says what to put where.")


@app.command(cls=Verb)
def prepare(
    name: str = typer.Argument(metavar="NAME", help=f"One of: {', '.join(CATALOGUE)}."),
    mirror: Path | None = MIRROR,
    folder: Path | None = typer.Option(
        None, "-o", "--output", metavar="FOLDER", help="Where to write. Default: here; for a split, NAME-SPLIT."
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
    with drawn_downloads() as progress:
        dataset = entry.load(file_store(mirror, progress))
        parts = _parts(dataset, split)
    folder = _made(folder or Path(f"{name}-{split}" if split else "."))
    written = _write(parts, folder, form)
    if split:
        write_split(folder / "split.json", dataset.positions(split))
        written.append(folder / "split.json")
    facts = _facts(entry) | {
        "addresses": list(entry.addresses(split)),
        "as_published": dataset.fingerprint == entry.fingerprint,
        "parts": {part: len(examples) for part, examples in parts.items()},
        "files": [str(path) for path in written],
    }
    if as_json:
        out.print_json(data=facts)
    else:
        out.print(_in_words(facts))
    report_written(*written)


def _parts(dataset: Dataset, split: str | None) -> dict[str, Sequence[Example]]:
    """The examples of each file to write, by its name."""
    if split is None:
        return {dataset.name: dataset.examples}
    parts = dataset.parts(split)
    named = {"train": parts.train, "dev": parts.dev, "test": parts.test}
    return {part: examples for part, examples in named.items() if examples}


def _write(parts: Mapping[str, Sequence[Example]], folder: Path, form: FileFormat) -> list[Path]:
    files = {folder / f"{part}.{form.value}": examples for part, examples in parts.items()}
    for path, examples in files.items():
        write_examples(path, examples)
    return list(files)


def _made(folder: Path) -> Path:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise NqgError(f"{folder}: cannot be made a folder ({error.strerror}); choose another with -o") from error
    return folder


def _facts(entry: Entry) -> dict[str, Any]:
    return {
        "name": entry.name,
        "about": entry.about,
        "examples": entry.size,
        "splits": list(entry.splits),
        "licence": entry.licence,
        "citation": entry.citation,
    }


def _in_words(facts: Mapping[str, Any]) -> str:
    parts = ", ".join(f"{count:,} {part}" for part, count in facts["parts"].items() if part != facts["name"])
    contents = "as published" if facts["as_published"] else "not as published: another release of the files"
    lines = {
        "examples": f"{facts['examples']:,}" + (f": {parts}" if parts else ""),
        "contents": contents,
        "licence": facts["licence"],
        "cite": facts["citation"],
        "from": "\n          ".join(facts["addresses"]) or "generated",
    }
    return "\n".join([f"{facts['name']}: {facts['about']}", *(f"{key:<9} {text}" for key, text in lines.items())])


def _missing(entry: Entry, store: FileStore) -> list[dict[str, Any]]:
    return [{"path": file.path, "address": file.address, "bytes": file.size} for file in entry.missing(store)]


def _readiness(entry: Entry, store: FileStore) -> str:
    missing = set(entry.missing(store))
    if missing & set(entry.files):
        return "no"
    lacking = [name for name, split in entry.splits.items() if missing & set(split.files)]
    return f"yes, but {', '.join(lacking)}" if lacking else "yes"


@contextmanager
def drawn_downloads() -> Iterator[Progress]:
    """Progress that draws one bar for each file that is downloaded."""
    tasks: dict[str, TaskID] = {}
    with progress_bar() as bar:

        def draw(what: str, done: int, total: int | None) -> None:
            if what not in tasks:
                tasks[what] = bar.add_task(what)
            bar.update(tasks[what], completed=done, total=total)

        yield draw
