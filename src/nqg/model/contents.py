"""What a model folder holds: every file by name and checksum, kinds that cannot run, names that stay inside."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from nqg.errors import FormatError, NqgError

INDEX = "nqg.json"
CARD = "README.md"  # for people, who may edit it
PLAIN = (".grammar", ".jinja", ".json", ".jsonl", ".md", ".model", ".safetensors", ".txt")  # data, never code


def checksums(folder: Path) -> dict[str, str]:
    """The SHA-256 of every file that the index of `folder` answers for, by its name inside.

    Those are all files but the index itself, the card, hidden ones, and subfolders that have an index of their own.
    """
    return {name: _checksum(folder / name) for name in _names(folder)}


def _names(folder: Path) -> Iterator[str]:
    for path in sorted(folder.rglob("*")):
        inside = path.relative_to(folder)
        is_hidden = any(part.startswith(".") for part in inside.parts)
        is_apart = any((folder / parent / INDEX).exists() for parent in inside.parents[:-1])
        if path.is_file() and not is_hidden and not is_apart and inside.as_posix() not in (INDEX, CARD):
            yield inside.as_posix()


def check_contents(folder: Path, files: Any, needed: tuple[str, ...]) -> None:
    """Refuse a folder with a file that is missing, damaged, of no kind we know, or not named in `files`."""
    if not isinstance(files, dict) or not files.keys() >= set(needed):
        raise FormatError(f"damaged: 'files' should name at least {', '.join(needed)}", folder / INDEX)
    for name, checksum in files.items():
        _check_name(name, folder / INDEX)
        _check_file(folder / name, checksum)
    _check_nothing_else(folder, files)


def _check_name(name: str, index: Path) -> None:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or str(path) != name or "\\" in name or ":" in name:
        raise FormatError(f"'{name}' is no name of a file inside the model folder", index)
    if path.suffix not in PLAIN:
        raise FormatError(f"'{name}' is of no kind that a model holds; expected one of {', '.join(PLAIN)}", index)


def _check_file(path: Path, checksum: str) -> None:
    if not path.is_file():
        raise NqgError(f"{path} is missing: the model folder is not whole")
    if _checksum(path) != checksum:
        raise NqgError(f"{path} is damaged: it is not the file that was saved")


def _check_nothing_else(folder: Path, files: Mapping[str, str]) -> None:
    """Refuse a file that the index does not name: a tokenizer reads whatever lies beside it."""
    for path in sorted(folder.iterdir()):
        is_known = path.name in files or path.name in (INDEX, CARD) or path.name.startswith(".") or path.is_dir()
        if not is_known:
            raise NqgError(f"{path} is unknown: {INDEX} does not name it; move it out of the model folder")


def _checksum(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
