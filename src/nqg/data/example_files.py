"""Files of examples: `.tsv` or `.jsonl`, plain or `.gz`; `.csv` files are read, too."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from nqg.data.example import OUT_OF_SCOPE, Example
from nqg.errors import FormatError, NqgError, Place, counted
from nqg.files import numbered_lines, strict_json, write_text
from nqg.settings_reader import read_dataclass


def read_examples(
    path: Path | str, *, allows_out_of_scope: bool = False
) -> list[Example]:
    """The examples of a `.tsv`, `.csv` or `.jsonl` file. A bad line is refused with file, line and
    reason.

    Only `.jsonl` has ids: other examples have `id=None` and are known by their position. A sentence
    without a program, or with the program `OUT_OF_SCOPE`, is out of scope, which is refused unless
    the caller allows it.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder) / "pairs.tsv"
    ...     _ = path.write_text("jump twice\\tJ J\\n")
    ...     read_examples(path)[0].target
    'J J'
    """
    path = Path(path)
    # Equal examples are one object: files of strangers have millions of them.
    known: dict[Example, Example] = {}
    stream = streamed_examples(path, allows_out_of_scope=allows_out_of_scope)
    examples = [known.setdefault(example, example) for example in stream]
    _check_ids(examples, path)
    return examples


def required_examples(
    path: Path | str, *, allows_out_of_scope: bool = False
) -> list[Example]:
    """The examples of a file that must have some."""
    examples = read_examples(path, allows_out_of_scope=allows_out_of_scope)
    if not examples:
        raise FormatError("expected at least one example, found none", Path(path))
    return examples


def streamed_examples(
    path: Path | str, *, allows_out_of_scope: bool = False
) -> Iterator[Example]:
    """The examples of a file one after the other, for files that memory cannot hold;
    ids are not compared.
    """
    path = Path(path)
    check = scoped_example if allows_out_of_scope else check_example
    lines = numbered_lines(path)
    if extension_of(path) == CSV:
        return (check(example, place) for place, example in _csv_examples(lines))
    form = format_of(path)
    return (check(form.read(text, place), place) for place, text in lines)


def first_line(path: Path) -> int:
    """The line of a file's first example: the second where a `.csv` file has a heading."""
    if extension_of(path) == CSV:
        for place, text in numbered_lines(path):
            if _heading(_csv_cells(text, _delimiter(text), place)):
                return 2
            break
    return 1


def write_examples(path: Path | str, examples: Iterable[Example]) -> None:
    """Write examples as the extension of `path` says, atomically. `.tsv` drops ids, `.jsonl` keeps them.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     write_examples(Path(folder) / "pairs.tsv", [Example("jump", "J")])
    ...     print((Path(folder) / "pairs.tsv").read_text().split())
    ['jump', 'J']
    """
    path, examples = Path(path), list(examples)
    form = format_of(path)
    if form is Jsonl:
        _check_ids(examples, path)
    lines = (
        form.line(example, Place(path, number))
        for number, example in enumerate(examples, start=1)
    )
    write_text(path, "".join(f"{line}\n" for line in lines))


def is_example_file(path: Path) -> bool:
    """Whether a file is one of examples, by its name."""
    return extension_of(path) in (*FORMATS, CSV)


def extension_of(path: Path) -> str:
    """The extension of a file, without `.gz`."""
    return Path(path.name.removesuffix(".gz")).suffix


def format_of(path: Path) -> type[LineFormat]:
    """The format in which lines of a file are read and written."""
    extension = extension_of(path)
    if extension in FORMATS:
        return FORMATS[extension]
    if path.is_dir():
        raise NqgError(f"{path}: expected a file of examples, found a folder")
    expected = "expected the extension .tsv or .jsonl (or either with .gz)"
    actual = f"found '{extension}'" if extension else "found none"
    if extension == CSV:
        actual += ", which nqg reads and does not write"
    raise FormatError(f"{expected}, {actual}; rename the file", path)


def _check_ids(examples: Sequence[Example], path: Path) -> None:
    first_lines: dict[str, int] = {}
    for line, example in enumerate(examples, start=1):
        if example.id is not None and first_lines.setdefault(example.id, line) != line:
            reason = f"the id '{example.id}' is already that of line {first_lines[example.id]}"
            raise FormatError(reason, Place(path, line))


def scoped_example(example: Example, place: Place) -> Example:
    """An example whose sentence may be out of scope: then its target is `OUT_OF_SCOPE`."""
    if example.target.strip() in ("", OUT_OF_SCOPE):
        example = replace(example, target=OUT_OF_SCOPE)
    return check_text(example, place)


def check_example(example: Example, place: Place) -> Example:
    """An example that has a program; others are refused."""
    if example.is_out_of_scope:
        raise FormatError(
            f"the sentence is out of scope, and has no program: {SCOPED_COMMANDS}",
            place,
        )
    return check_text(example, place)


def check_text(example: Example, place: Place) -> Example:
    """`example`, or an error where a string of it could not survive a file."""
    for name in ("source", "target", "id"):
        text = getattr(example, name)
        if text is None:
            continue
        if not text.strip():
            raise FormatError(f"the {name} is empty", place)
        match = _NOT_TEXT.search(text)
        if match:
            raise FormatError(
                f"the {name} holds U+{ord(match[0]):04X}, which is not text", place
            )
    return example


SCOPED_COMMANDS = (
    "`nqg train`, `evaluate` and `check-data` take such pairs, in Python "
    "read_examples(path, allows_out_of_scope=True)"
)

# NUL, and halves of characters that UTF-8 cannot write.
_NOT_TEXT = re.compile("[\0\ud800-\udfff]")


class LineFormat(Protocol):
    """How one example becomes one line, and back; what cannot is refused with its place."""

    @staticmethod
    def read(text: str, place: Place) -> Example: ...

    @staticmethod
    def line(example: Example, place: Place) -> str: ...


def tsv_columns(text: str, place: Place, second: str) -> list[str]:
    columns = text.split("\t")
    if len(columns) != 2:
        actual = counted(len(columns), "column") if text else "an empty line"
        if len(columns) == 1 and "," in text:
            actual += "; it looks comma-separated: name the file .csv, or put a tab between the two"
        raise FormatError(f"expected 'source<TAB>{second}', found {actual}", place)
    return columns


# What would be taken for the end of a column or of a line, or not be read back.
UNWRITABLE_CHARACTERS = {
    "\t": "a tab",
    "\n": "a line feed",
    "\r": "a carriage return",
    "\ufeff": "a byte order mark",
}


class Tsv:
    """`source<TAB>target`."""

    @staticmethod
    def read(text: str, place: Place) -> Example:
        return Example(*tsv_columns(text, place, "target"))

    @staticmethod
    def line(example: Example, place: Place) -> str:
        for name in ("source", "target"):
            for character, called in UNWRITABLE_CHARACTERS.items():
                if character in getattr(example, name):
                    reason = f"the {name} holds {called}, which a .tsv file cannot keep; write .jsonl instead"
                    raise FormatError(reason, place)
        check_text(example, place)
        return f"{example.source}\t{example.target}"


class Jsonl:
    """`{"id": …, "source": …, "target": …}`, with or without an id."""

    @staticmethod
    def read(text: str, place: Place) -> Example:
        values = strict_json(text, place)
        return read_dataclass(Example, values, "the example", place)

    @staticmethod
    def line(example: Example, place: Place) -> str:
        check_text(example, place)
        name = {} if example.id is None else {"id": example.id}
        return json.dumps(
            {**name, "source": example.source, "target": example.target},
            ensure_ascii=False,
        )


FORMATS: dict[str, type[LineFormat]] = {".tsv": Tsv, ".jsonl": Jsonl}


CSV = ".csv"
# How people call the two sides of a pair, in headings and in other people's datasets.
SIDE_NAMES = {
    "source": ("source", "sentence", "input", "question", "utterance", "text"),
    "target": ("target", "program", "output", "query", "label"),
}


def _csv_examples(
    lines: Iterable[tuple[Place, str]],
) -> Iterator[tuple[Place, Example]]:
    """The pairs of comma-separated lines; a heading may name the columns, in any order."""
    delimiter, heading = ",", None
    for place, text in lines:
        # The first line shows what separates columns, and may be a heading.
        if place.line == 1:
            delimiter = _delimiter(text)
            heading = _heading(_csv_cells(text, delimiter, place))
            if heading:
                continue
        cells = _csv_cells(text, delimiter, place)
        if heading:
            expected, columns = heading
        else:
            expected, columns = 2, (0, 1)
        if len(cells) != expected:
            found = counted(len(cells), "column")
            raise FormatError(
                f"expected {expected} columns, found {found}; put quotes around a side "
                f"that has '{delimiter}' in it",
                place,
            )
        source, target = columns
        yield place, Example(cells[source], cells[target])


def _csv_cells(text: str, delimiter: str, place: Place) -> list[str]:
    try:
        return next(csv.reader([text], delimiter=delimiter, strict=True), [])
    except csv.Error as error:
        # A value that goes on in the next line is one of these.
        raise FormatError(
            f"not a line of a .csv file: {error}; a value must end in its line", place
        ) from error


def _delimiter(text: str) -> str:
    """What separates the columns of a file with this first line: some programs write semicolons."""
    return ";" if ";" in text and "," not in text else ","


def _heading(cells: Sequence[str]) -> tuple[int, tuple[int, int]] | None:
    """The number of columns and those of the two sides, if the first line of a file names them.

    >>> _heading(["id", "Question", "Query"])
    (3, (1, 2))
    >>> _heading(["turn on the lamp", "on(lamp)"])
    """
    names = [cell.strip().casefold() for cell in cells]
    found = []
    for side in SIDE_NAMES.values():
        columns = [at for at, name in enumerate(names) if name in side]
        if not columns:
            return None
        found.append(columns[0])
    source, target = found
    return len(cells), (source, target)
