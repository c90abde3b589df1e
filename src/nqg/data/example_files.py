"""Files of examples: `.tsv` or `.jsonl`, plain or `.gz`."""

from __future__ import annotations

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
    """The examples of a `.tsv` or `.jsonl` file; a bad line is refused with file, line and reason.

    A `.tsv` file has no ids: its examples have `id=None` and are known by their position. A sentence
    without a program, or with the program `OUT_OF_SCOPE`, is out of scope, which is refused unless
    the caller allows it.
    """
    path = Path(path)
    examples = list(streamed_examples(path, allows_out_of_scope=allows_out_of_scope))
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
    form = format_of(Path(path))
    read = scoped_example if allows_out_of_scope else check_example
    return (
        read(form.read(text, place), place)
        for place, text in numbered_lines(Path(path))
    )


def write_examples(path: Path | str, examples: Iterable[Example]) -> None:
    """Write examples as the extension of `path` says, atomically; `.tsv` drops ids, `.jsonl` keeps them."""
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
    return Path(path.name.removesuffix(".gz")).suffix in FORMATS


def format_of(path: Path) -> type[LineFormat]:
    extension = Path(path.name.removesuffix(".gz")).suffix
    if extension not in FORMATS:
        if path.is_dir():
            raise NqgError(f"{path}: expected a file of examples, found a folder")
        actual = f"found '{extension}'" if extension else "found none"
        raise FormatError(
            f"expected the extension .tsv or .jsonl (or either with .gz), {actual}; rename the file",
            path,
        )
    return FORMATS[extension]


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


SCOPED_COMMANDS = "`nqg train`, `evaluate` and `check-data` take such pairs"

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
            actual += (
                "; it looks comma-separated: put a tab between the two, or write .jsonl"
            )
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
