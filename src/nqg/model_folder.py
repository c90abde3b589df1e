"""Model folders: written whole or not at all, listed in a manifest with checksums, validated when read."""

from __future__ import annotations

import ctypes
import glob
import hashlib
import logging
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from safetensors import safe_open

from nqg.errors import FormatError, NqgError, Place
from nqg.files import strict_json

if TYPE_CHECKING:
    from torch import Tensor, nn

NEW, OLD = "new", "old"
EXCHANGE = 2  # RENAME_EXCHANGE of Linux, RENAME_SWAP of macOS
HERE = -100  # AT_FDCWD: names are relative to the current folder


@contextmanager
def folder_written_atomically(folder: Path) -> Iterator[Path]:
    """A folder to write into, which takes the place of `folder` at the end; when anything fails, nothing changes."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with _part_of(folder) as part:
        new = part / NEW
        new.mkdir()
        yield new
        _flush(new)
        with _locked(folder.parent):
            _put(new, folder, part / OLD)


def bring_back(folder: Path) -> None:
    """Put `folder` back where a process was killed while it replaced it; otherwise do nothing."""
    if not folder.exists() and any((part / OLD).exists() for part in _parts(folder)):
        with suppress(OSError), _locked(folder.parent):
            _clear(folder)


@contextmanager
def held(folder: Path, *, wait: bool) -> Iterator[None]:
    """A folder for work under way, made where need be, which no other process has meanwhile.

    Where another has it, wait for that one to end, or refuse. The block may remove the folder; an empty one is removed.
    """
    with ExitStack() as lock:
        while not _is_taken(folder, lock, wait):
            pass
        try:
            yield
        finally:
            with suppress(OSError):  # most likely because it is not empty
                folder.rmdir()


def _is_taken(folder: Path, lock: ExitStack, wait: bool) -> bool:
    """Lock a folder; False where whoever had it removed it in the meantime."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = lock.enter_context(_locked(folder, wait=wait))
        return handle is None or os.path.samestat(os.fstat(handle), folder.stat())
    except FileNotFoundError:
        return False
    except FileExistsError:  # a file, or a folder that was removed before `mkdir` could see that it is one
        if folder.is_file():
            raise
        return False
    except BlockingIOError as error:
        raise NqgError(f"{folder}: another process is at work here; wait until it has ended") from error


@contextmanager
def _part_of(folder: Path) -> Iterator[Path]:
    """A part of our own, locked from its first moment on; what dead processes left is removed."""
    with ExitStack() as held:
        with _locked(folder.parent):
            _clear(folder)
            part = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}.", suffix=".part"))
            held.enter_context(_locked(part))
            held.callback(shutil.rmtree, part, ignore_errors=True)
        yield part


def _parts(folder: Path) -> list[Path]:
    """The parts beside a folder; the random letters are counted, lest those of `a.b` be taken for those of `a`."""
    return sorted(folder.parent.glob(f".{glob.escape(folder.name)}.????????.part"))


def _clear(folder: Path) -> None:
    for part in _parts(folder):
        with suppress(BlockingIOError, FileNotFoundError), _locked(part, wait=False):  # held, or removed just now
            if not folder.exists() and (part / OLD).exists():
                os.rename(part / OLD, folder)
            shutil.rmtree(part, ignore_errors=True)


def _put(new: Path, folder: Path, old: Path) -> None:
    if not folder.exists():
        os.rename(new, folder)
    elif not _exchanged(new, folder):
        os.rename(folder, old)
        try:
            os.rename(new, folder)
        except BaseException:
            os.rename(old, folder)
            raise


def _exchanged(one: Path, other: Path) -> bool:
    """Let two folders change places in one step; False where the system or the disk cannot."""
    if sys.platform not in ("linux", "darwin"):
        return False
    names, system = (os.fsencode(one), os.fsencode(other)), ctypes.CDLL(None)
    try:
        if sys.platform == "darwin":
            return bool(system.renamex_np(*names, EXCHANGE) == 0)
        return bool(system.renameat2(HERE, names[0], HERE, names[1], EXCHANGE) == 0)
    except AttributeError:  # an older C library
        return False


@contextmanager
def _locked(folder: Path, *, wait: bool = True) -> Iterator[int | None]:
    """Hold a folder against other processes; the system lets go when we are killed. BlockingIOError: it is held."""
    if sys.platform == "win32":
        yield None
        return
    import fcntl

    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        yield handle
    finally:
        os.close(handle)


def _flush(folder: Path) -> None:
    """Make sure that the files are on the disk before their folder is seen."""
    for path in folder.rglob("*"):
        if path.is_file():
            with open(path, "rb") as file:
                os.fsync(file.fileno())


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


LARGEST = 1 << 22  # of all numbers in a config: vocabularies have a million entries at most
LONGEST_REASON = 500  # characters of an error of a library, which may quote what it was given
RUST_PANIC = "PanicException"  # of the tokenizers, which is no Exception and has no public name
Shapes = Mapping[str, tuple[int, ...]]


@contextmanager
def refused_with(reason: str, place: Path, way_out: str = "") -> Iterator[None]:
    """Errors of the libraries that read a model, of which there are dozens of kinds, as one of ours."""
    try:
        yield
    except NqgError:
        raise
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__name__ != RUST_PANIC:
            raise
        raise FormatError(f"{reason}: {_first_line(error)}{way_out and f'; {way_out}'}", place) from error


def _first_line(error: BaseException) -> str:
    line = str(error).strip().split("\n")[0] or type(error).__name__
    return line if len(line) <= LONGEST_REASON else f"{line[:LONGEST_REASON]}..."


def weight_shapes(*paths: Path) -> Shapes:
    """The shapes of the weights in files, without reading them."""
    shapes: dict[str, tuple[int, ...]] = {}
    for path in paths:
        with refused_with("damaged", path), safe_open(path, framework="pt") as file:
            shapes |= {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118
    return shapes


def check_config(path: Path, shapes: Shapes) -> None:
    """Refuse a config that asks for more than weights of these shapes can fill."""
    with refused_with("damaged", path):
        settings = list(_settings(strict_json(path.read_text(encoding="utf-8"), Place(path, 1))))
    for name, value in settings:
        most = len(shapes) if any(part in name for part in ("layer", "group", "block")) else LARGEST
        if isinstance(value, int) and abs(value) > most:
            raise FormatError(f"'{name}' is {value}, expected {most:,} at most", path)


def _settings(value: Any, name: str = "config") -> Iterator[tuple[str, Any]]:
    """The names and values of all settings, those of a model's parts among them."""
    if isinstance(value, dict):
        for key, each in value.items():
            yield from _settings(each, key)
    elif isinstance(value, list):
        for each in value:
            yield from _settings(each, name)
    else:
        yield name, value


def check_shapes(model: nn.Module, shapes: Shapes, path: Path) -> None:
    """Refuse weights in a file that are not just those of a model, which may have no memory yet."""
    wanted = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
    for name in [*wanted, *shapes]:
        there, here = shapes.get(name), wanted.get(name)
        if there != here:
            raise FormatError(f"the weights '{name}' have the shape {there}, expected {here}", path)


def check_finite(weights: Mapping[str, Tensor], path: Path) -> None:
    """Refuse weights that are no numbers, or infinite."""
    for name, weight in weights.items():
        if weight.is_floating_point() and weight.numel():
            least, most = weight.aminmax()  # both are NaN where one weight is
            if not (most - least).isfinite():
                raise FormatError(f"the weights '{name}' are not all numbers", path)


def check_vocabulary(vocabulary: Mapping[str, int], known: int, place: Path) -> None:
    """Refuse a tokenizer with subwords that the model, which has so many vectors, has none for."""
    highest = max(vocabulary.values(), default=0)
    if highest >= known:
        raise FormatError(f"the tokenizer has a subword {highest}, the model has vectors for {known}", place)


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """Let transformers report errors alone, and draw no bars; afterwards it is as talkative as before."""
    from transformers.utils import logging as reports

    level, has_bars = reports.get_verbosity(), reports.is_progress_bar_enabled()
    reports.set_verbosity(logging.ERROR)
    reports.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        reports.set_verbosity(level)
        if has_bars:
            reports.enable_progress_bar()  # type: ignore[no-untyped-call]
