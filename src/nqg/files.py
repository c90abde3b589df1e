"""Text files read line by line with their places, and written whole or not at all."""

from __future__ import annotations

import gzip
import io
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from nqg.errors import FormatError, NqgError, Place


@contextmanager
def _opened(path: Path) -> Iterator[IO[bytes]]:
    try:
        with gzip.open(path) if path.suffix == ".gz" else open(path, "rb") as file:
            yield io.BufferedReader(file) if isinstance(file, gzip.GzipFile) else file
    except (EOFError, gzip.BadGzipFile) as error:
        raise FormatError(f"damaged gzip file ({error})", path) from error
    except FileNotFoundError as error:
        raise NqgError(f"{path}: no such file") from error
    except IsADirectoryError as error:
        raise NqgError(f"{path}: expected a file, found a folder") from error
    except PermissionError as error:
        raise NqgError(f"{path}: permission denied") from error


def numbered_lines(path: Path) -> Iterator[tuple[Place, str]]:
    r"""Every line of a UTF-8 file (plain or `.gz`) without its line end, with its place.

    Lines end at `\n` or `\r\n` alone, so that other Unicode separators stay inside tokens' sentences.
    """
    with _opened(path) as file:
        for number, raw in enumerate(file, start=1):
            yield Place(path, number), decoded(raw.rstrip(b"\r\n"), Place(path, number))


def decoded(raw: bytes, place: Place) -> str:
    """`raw` as text; invalid UTF-8 and NUL are refused with the place and the offending byte."""
    if b"\0" in raw:
        raise FormatError(f"found a NUL byte in column {raw.index(0) + 1}, expected text", place)
    try:
        return raw.decode("utf-8").removeprefix("\ufeff" if place.line == 1 else "")
    except UnicodeDecodeError as error:
        found = raw[error.start : error.start + 1].hex()
        raise FormatError(
            f"byte {error.start + 1} is 0x{found}: not valid UTF-8, expected UTF-8 text", place
        ) from error


@contextmanager
def written_atomically(path: Path) -> Iterator[IO[bytes]]:
    """A binary file that appears at `path` complete, or not at all.

    The bytes go to a temporary file in the same folder, are flushed to disk, and replace `path` in one rename;
    when anything fails, what was at `path` before is untouched.
    """
    handle, temporary = _temporary_beside(path)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(temporary)
        raise


def _temporary_beside(path: Path) -> tuple[int, str]:
    try:
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    except FileNotFoundError as error:
        raise NqgError(f"{path}: the folder {path.parent} does not exist") from error
    except NotADirectoryError as error:
        raise NqgError(f"{path}: {path.parent} is not a folder") from error
    except OSError as error:
        raise NqgError(f"{path}: cannot write there ({error.strerror})") from error
    os.chmod(handle, 0o666 & ~_umask())
    return handle, temporary


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def write_text(path: Path, text: str) -> None:
    """Write `text` as UTF-8, atomically; a name that ends in `.gz` is compressed, byte for byte reproducibly."""
    raw = text.encode("utf-8")
    with written_atomically(path) as file:
        file.write(gzip.compress(raw, mtime=0) if path.suffix == ".gz" else raw)
