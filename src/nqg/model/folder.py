"""A folder that appears whole or not at all, whoever is killed and however many processes write it at once.

It is written in a hidden *part* beside its place, `.NAME.xxxxxxxx.part`, and then changes places with what was there in
one step where the system can (Linux, macOS), or in two. A process holds a lock on its part as long as it lives, so that
the next one can tell parts that are being written from parts that a kill left behind, and bring back the old folder
from one that died between the two steps.
"""

from __future__ import annotations

import ctypes
import glob
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from nqg.errors import NqgError

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
