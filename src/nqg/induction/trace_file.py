"""A trace that is being written: every line goes to the operating system at once, so that no kill can lose it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import FileIO
from pathlib import Path

from nqg.errors import NqgError
from nqg.induction.trace import Header, Trace, TracedStep


@dataclass(frozen=True, slots=True)
class TraceFile:
    """An open trace."""

    path: Path
    _file: FileIO

    def add(self, line: Header | TracedStep) -> None:
        """Append a line, without a buffer in between."""
        raw = line.line().encode()
        try:
            written = self._file.write(raw)
        except OSError as error:
            raise NqgError(f"{self.path}: cannot be written ({error.strerror})") from error
        if written < len(raw):
            raise NqgError(f"{self.path}: only a part of a line could be written; is the disk full?")


@contextmanager
def begun_trace(path: Path, header: Header) -> Iterator[TraceFile]:
    """A new trace with its header; a file with anything in it but the beginning of this header is refused."""
    with _opened(path, size=None) as file:
        if not header.line().encode().startswith(file.readall()):
            raise NqgError(f"{path}: the file exists already; go on with it by --resume {path}, or remove it")
        file.truncate(0)
        trace = TraceFile(path, file)
        trace.add(header)
        yield trace


@contextmanager
def continued_trace(path: Path, trace: Trace) -> Iterator[TraceFile]:
    """A trace that was read, open behind its last whole line; what stands there of a cut line is taken off."""
    with _opened(path, trace.size) as file:
        yield TraceFile(path, file)


@contextmanager
def _opened(path: Path, size: int | None) -> Iterator[FileIO]:
    """The file for appending, cut to `size` where one is given."""
    try:
        file = FileIO(path, "a+")
    except FileNotFoundError as error:
        raise NqgError(f"{path}: the folder {path.parent} does not exist") from error
    except OSError as error:
        raise NqgError(f"{path}: cannot write there ({error.strerror})") from error
    with file:
        if size is not None:
            file.truncate(size)
        file.seek(0)
        yield file
