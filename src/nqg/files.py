"""Text and JSON files read with their places, and written whole or not at all."""

from __future__ import annotations

import gzip
import json
import os
import re
import secrets
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from io import BufferedIOBase
from pathlib import Path
from typing import IO, Any, NoReturn

from nqg.errors import FormatError, NqgError, Place

CACHE_VARIABLE = "NQG_DATA_CACHE"
# In bytes; the longest line of a published dataset has some hundred thousand.
LONGEST_LINE = 1 << 26


def numbered_lines(path: Path) -> Iterator[tuple[Place, str]]:
    r"""Every line of a UTF-8 file (plain or `.gz`) without its line end, with its place.

    Lines end at `\n` or `\r\n` alone, so that other Unicode separators stay inside the sentences.
    """
    with _opened(path) as file:
        # A small .gz file may hold a line of gigabytes.
        lines = iter(partial(file.readline, LONGEST_LINE + 1), b"")
        for number, raw in enumerate(lines, start=1):
            place = Place(path, number)
            if len(raw) > LONGEST_LINE:
                raise FormatError(
                    f"the line has more than {LONGEST_LINE:,} bytes", place
                )
            yield place, decoded(raw.removesuffix(b"\n").removesuffix(b"\r"), place)


def cache_folder() -> Path:
    """Where what can be made again is kept: in NQG_DATA_CACHE, or where the system keeps caches."""
    import platformdirs

    return Path(os.environ.get(CACHE_VARIABLE) or platformdirs.user_cache_dir("nqg"))


@contextmanager
def _opened(path: Path) -> Iterator[BufferedIOBase]:
    if "\0" in str(path):
        raise NqgError(f"{str(path)!r}: no such file; a name cannot hold NUL")
    try:
        opened = gzip.open if path.suffix == ".gz" else open
        with opened(path, "rb") as file:
            yield file
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise FormatError(f"damaged gzip file ({error})", path) from error
    except FileNotFoundError as error:
        raise NqgError(f"{path}: no such file") from error
    except IsADirectoryError as error:
        raise NqgError(f"{path}: expected a file, found a folder") from error
    except OSError as error:
        raise NqgError(f"{path}: cannot be read ({error.strerror})") from error


def decoded(raw: bytes, place: Place) -> str:
    r"""`raw` as text, without a byte order mark on line 1; other bytes than UTF-8 are refused.

    >>> decoded(b"caf\xc3\xa9", Place(Path("train.tsv"), 1))
    'café'
    """
    if b"\0" in raw:
        raise FormatError(f"byte {raw.index(0) + 1} is NUL, expected text", place)
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        byte = f"byte {error.start + 1} is 0x{raw[error.start]:02x}"
        reason = f"{byte}, which is not valid UTF-8; expected UTF-8 text"
        raise FormatError(reason, place) from error
    if place.line == 1:
        return text.removeprefix("\ufeff")
    return text


@contextmanager
def written_atomically(path: Path) -> Iterator[IO[bytes]]:
    """A binary file that appears at `path` complete, or not at all.

    The bytes go to a temporary file in the same folder, are flushed to disk, and replace `path` in
    one rename; when anything fails, what was at `path` before is untouched.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        # Its errors are told apart from those of writing.
        file = open(temporary, "xb")  # noqa: SIM115
    except FileNotFoundError as error:
        raise NqgError(f"{path}: the folder {path.parent} does not exist") from error
    except OSError as error:
        raise NqgError(f"{path}: cannot write there ({error.strerror})") from error
    try:
        with file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        # A full disk shows while writing, or only when the bytes are flushed.
        raise NqgError(
            f"{path}: cannot be written ({error.strerror or error})"
        ) from error
    finally:
        temporary.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write `text` as UTF-8, atomically; a file `.gz` is compressed, byte for byte reproducibly."""
    raw = text.encode("utf-8")
    if path.suffix == ".gz":
        raw = gzip.compress(raw, mtime=0)
    with written_atomically(path) as file:
        file.write(raw)


def append_line(path: Path, line: str) -> None:
    """Add a line to a file in one write: others may do so at the same time.

    A last line without an end gets one.
    """
    try:
        with open(path, "a+b", buffering=0) as file:
            if file.seekable() and file.tell():
                file.seek(-1, os.SEEK_END)
                if file.read(1) != b"\n":
                    line = f"\n{line}"
            file.write(f"{line}\n".encode())
    except OSError as error:
        raise NqgError(f"{path}: cannot be written ({error.strerror})") from error


def read_json(path: Path) -> Any:
    """The value in a JSON file, plain or `.gz`, as strictly as `strict_json` reads it."""
    return strict_json(
        "\n".join(line for _, line in numbered_lines(path)), Place(path, 1)
    )


def strict_json(text: str, start: Place) -> Any:
    """The value of a JSON text that begins at `start`; errors name the line where it goes wrong.

    A key that stands twice in an object, NaN and half of a surrogate pair are refused.

    >>> from pathlib import Path
    >>> strict_json('{"source": "jump"}', Place(Path("train.jsonl"), 3))
    {'source': 'jump'}
    """
    try:
        value = json.loads(
            text, object_pairs_hook=_without_repeats, parse_constant=_refuse_constant
        )
        if _SURROGATE.search(text):
            json.dumps(value, ensure_ascii=False).encode()
        return value
    except UnicodeEncodeError as error:
        raise FormatError(
            f"a string holds U+{ord(error.object[error.start]):04X}, which is not text",
            start,
        ) from error
    except json.JSONDecodeError as error:
        place = Place(start.path, start.line + error.lineno - 1)
        raise FormatError(
            f"not valid JSON: {error.msg} (column {error.colno})", place
        ) from error
    except RecursionError as error:
        raise FormatError("the JSON value is nested too deeply", start) from error
    except FormatError as error:
        raise error.at(start) from error
    except ValueError as error:
        # An integer of thousands of digits.
        raise FormatError(f"not usable JSON: {error}", start) from error


# Half of a character, unless the other half follows.
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        ((repeated, _),) = Counter(key for key, _ in pairs).most_common(1)
        raise FormatError(f"the key '{repeated}' stands twice in one JSON object")
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise FormatError(f"{name} is not a JSON value")


def is_url(place: Path | str) -> bool:
    """Whether a place is the URL of a database, not a file.

    >>> is_url("sqlite:///shop.db"), is_url("shop.db"), is_url(Path("shop.db"))
    (True, False, False)
    """
    return "://" in str(place)
