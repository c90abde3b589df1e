"""Files of examples, by their extension: `.tsv` (source, tab, target) and `.jsonl` (which keeps ids), plain or `.gz`.

White space inside a sentence or program is kept as it is. What could not be read back is not written.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from nqg.data.example import Example
from nqg.data.strict_json import json_kind, strict_json
from nqg.errors import FormatError, Place
from nqg.files import numbered_lines, write_text

Placed = tuple[Place, Example]


@dataclass(frozen=True, slots=True)
class LineFormat:
    """How one example becomes one line, and back."""

    example: Callable[[str, Place], Example]
    line: Callable[[Example, Place], str]
    keeps_ids: bool

    def parse(self, text: str, place: Place) -> Example:
        """The example of a line; a bad one is refused with its place."""
        return _checked(self.example(text, place), place)


def read_examples(path: Path | str) -> list[Example]:
    """The examples of a `.tsv` or `.jsonl` file; a bad line is refused with file, line and reason.

    A `.tsv` file has no ids: its examples have `id=None` and are known by their position.
    """
    return [example for _, example in _with_distinct_ids(_placed_examples(Path(path)))]


def streamed_examples(path: Path | str) -> Iterator[Example]:
    """The examples of a file one after the other, for files that memory cannot hold; ids are not compared."""
    return (example for _, example in _placed_examples(Path(path)))


def _placed_examples(path: Path) -> Iterator[Placed]:
    parse = format_of(path).parse
    return ((place, parse(text, place)) for place, text in numbered_lines(path))


def write_examples(path: Path | str, examples: Iterable[Example]) -> None:
    """Write examples as the extension of `path` says, atomically; `.tsv` drops ids, `.jsonl` keeps them."""
    path = Path(path)
    form = format_of(path)
    placed: Iterable[Placed] = ((Place(path, number), example) for number, example in enumerate(examples, start=1))
    if form.keeps_ids:
        placed = _with_distinct_ids(placed)
    write_text(path, "".join(form.line(_checked(example, place), place) + "\n" for place, example in placed))


def format_of(path: Path) -> LineFormat:
    """The format that the extension of a file names."""
    extension = Path(path.name.removesuffix(".gz")).suffix
    if extension not in FORMATS:
        found = f"found '{extension}'" if extension else "found none"
        raise FormatError(f"expected the extension .tsv or .jsonl (or either with .gz), {found}; rename the file", path)
    return FORMATS[extension]


def _with_distinct_ids(examples: Iterable[Placed]) -> Iterator[Placed]:
    first_lines: dict[str, int] = {}
    for place, example in examples:
        if example.id is not None and first_lines.setdefault(example.id, place.line) != place.line:
            raise FormatError(f"the id '{example.id}' is already that of line {first_lines[example.id]}", place)
        yield place, example


def _checked(example: Example, place: Place) -> Example:
    """`example`, or an error where a string of it could not survive a file."""
    for name, text in (("source", example.source), ("target", example.target), ("id", example.id)):
        if text is None:
            continue
        if not text.strip():
            raise FormatError(f"the {name} is empty", place)
        if found := _NO_TEXT.search(text):
            raise FormatError(f"the {name} holds U+{ord(found[0]):04X}, which is no text", place)
    return example


def _tsv_example(text: str, place: Place) -> Example:
    columns = text.split("\t")
    if len(columns) != 2:
        found = f"{len(columns)} column{'s' if len(columns) > 1 else ''}" if text else "an empty line"
        raise FormatError(f"expected 'source<TAB>target', found {found}", place)
    return Example(*columns)


def _tsv_line(example: Example, place: Place) -> str:
    for name, text in (("source", example.source), ("target", example.target)):
        held = [word for character, word in _NOT_IN_TSV.items() if character in text]
        if held:
            raise FormatError(f"the {name} holds {held[0]}, which a .tsv file cannot keep; write .jsonl instead", place)
    return f"{example.source}\t{example.target}"


def _jsonl_example(text: str, place: Place) -> Example:
    fields = strict_json(text, place)
    if not isinstance(fields, dict):
        raise FormatError(f'expected an object {{"source": …, "target": …}}, found {json_kind(fields)}', place)
    missing = [key for key in ("source", "target") if key not in fields]
    unknown = [key for key in fields if key not in ("id", "source", "target")]
    if missing or unknown:
        reason = f"the key '{missing[0]}' is missing" if missing else f"unknown key '{unknown[0]}'"
        raise FormatError(f"{reason}; expected source, target and perhaps id", place)
    for key, value in fields.items():
        if not isinstance(value, str):
            raise FormatError(f"the {key} is {json_kind(value)}, expected a string", place)
    return Example(**fields)


def _jsonl_line(example: Example, place: Place) -> str:
    name = {} if example.id is None else {"id": example.id}
    return json.dumps({**name, "source": example.source, "target": example.target}, ensure_ascii=False)


_NO_TEXT = re.compile("[\0\ud800-\udfff]")  # NUL, and halves of characters that UTF-8 cannot write
_NOT_IN_TSV = {"\t": "a tab", "\n": "a line feed", "\r": "a carriage return", "\ufeff": "a byte order mark"}
FORMATS = {
    ".tsv": LineFormat(_tsv_example, _tsv_line, keeps_ids=False),
    ".jsonl": LineFormat(_jsonl_example, _jsonl_line, keeps_ids=True),
}
