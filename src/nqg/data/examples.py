"""Examples, pairs of a sentence and its program, and their files: `.tsv` or `.jsonl`, plain or `.gz`."""

from __future__ import annotations

import json
import mmap
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import overload

import numpy as np
from numpy.typing import NDArray

from nqg.errors import FormatError, NqgError, Place
from nqg.files import decoded, json_kind, numbered_lines, strict_json, write_text


@dataclass(frozen=True, slots=True)
class Example:
    """A (source, target) pair of strings; `id` is its name in the dataset it came from, where it has one.

    >>> Example("jump twice", "I_JUMP I_JUMP").source_tokens
    ('jump', 'twice')
    """

    source: str
    target: str
    id: str | None = None

    @property
    def source_tokens(self) -> tuple[str, ...]:
        """The source, cut at white space."""
        return tuple(self.source.split())

    @property
    def target_tokens(self) -> tuple[str, ...]:
        """The target, cut at white space."""
        return tuple(self.target.split())


def distinct_pairs(examples: Iterable[Example]) -> list[Example]:
    """The examples without those whose source and target came before, whatever their ids.

    >>> distinct_pairs([Example("jump", "J", "1"), Example("walk", "W", "2"), Example("jump", "J", "3")])
    [Example(source='jump', target='J', id='1'), Example(source='walk', target='W', id='2')]
    """
    first: dict[tuple[str, str], Example] = {}
    for example in examples:
        first.setdefault((example.source, example.target), example)
    return list(first.values())


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


BLOCK = 1 << 24  # bytes that are searched for line ends at once
LINE_FEED = ord("\n")


@dataclass(frozen=True, slots=True)
class MappedExamples(Sequence[Example]):
    """The examples of a plain `.tsv` or `.jsonl` file; a line is read, or refused as bad, when it is asked for."""

    path: Path
    form: LineFormat
    content: mmap.mmap | bytes
    firsts: NDArray[np.int64]  # where each line begins, and where the last one ends

    @classmethod
    def of(cls, path: Path | str) -> MappedExamples:
        """The examples of a file, which must not change while they are in use."""
        path = Path(path)
        if path.suffix == ".gz":
            raise FormatError("a compressed file cannot be read from the middle; unpack it: gunzip", path)
        form = format_of(path)
        try:
            with path.open("rb") as file:
                size = path.stat().st_size
                content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if size else b""
        except OSError as error:
            raise NqgError(f"{path}: cannot be read ({error.strerror})") from error
        return cls(path, form, content, _line_starts(content))

    def __len__(self) -> int:
        return len(self.firsts) - 1

    @overload
    def __getitem__(self, number: int) -> Example: ...
    @overload
    def __getitem__(self, number: slice) -> list[Example]: ...
    def __getitem__(self, number: int | slice) -> Example | list[Example]:
        if isinstance(number, slice):
            return [self._example(each) for each in range(*number.indices(len(self)))]
        return self._example(range(len(self))[number])

    def __iter__(self) -> Iterator[Example]:
        return streamed_examples(self.path)

    def _example(self, number: int) -> Example:
        raw = self.content[int(self.firsts[number]) : int(self.firsts[number + 1])]
        place = Place(self.path, number + 1)
        return self.form.parse(decoded(raw.removesuffix(b"\n").removesuffix(b"\r"), place), place)


def _line_starts(content: mmap.mmap | bytes) -> NDArray[np.int64]:
    """Where the lines of a file begin, and where the last one ends.

    >>> _line_starts(b"one\\ntwo\\nthree")
    array([ 0,  4,  8, 13])
    """
    starts = [np.zeros(1, dtype=np.int64)]
    for begin in range(0, len(content), BLOCK):
        block = np.frombuffer(content[begin : begin + BLOCK], dtype=np.uint8)
        starts.append(np.flatnonzero(block == LINE_FEED) + begin + 1)
    firsts = np.concatenate(starts)
    return firsts if firsts[-1] == len(content) else np.append(firsts, len(content))
