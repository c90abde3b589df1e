"""A file of examples as a sequence that stays on disk: only where its lines begin is kept in memory."""

from __future__ import annotations

import mmap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import overload

import numpy as np
from numpy.typing import NDArray

from nqg.data.example import Example
from nqg.data.example_files import LineFormat, format_of, streamed_examples
from nqg.errors import FormatError, NqgError, Place
from nqg.files import decoded

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
