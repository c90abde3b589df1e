"""Commands of nqg that are killed (SIGKILL) at a chosen moment, repeated, and compared with an undisturbed run.

Every command runs in a process of its own, forked from one that has loaded PyTorch already, so that a kill costs a
second and strikes work rather than imports. A moment is a number of seconds, or the n-th time that the command is about
to create, rename or remove something in its folder.
"""

from __future__ import annotations

import errno
import itertools
import json
import multiprocessing
import os
import random
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any
from unittest.mock import patch

CHANGES = ("os.rename", "os.mkdir", "os.remove", "os.rmdir", "os.link", "os.truncate")
SAID, COUNT = (
    "said",
    "changes",
)  # where a command's words and the number of its changes go
SMALL = 150  # bytes that a file may have in `small_files_alone`
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
PAPER_COMMANDS = ("nqg.paper.data_command", "nqg.paper.reproduce_command")
Words = tuple[str, ...]
Results = dict[str, bytes]


@dataclass(frozen=True, slots=True)
class Work:
    """A command, which a user repeats after a kill, the files that it needs, and what of a result is compared."""

    words: Words
    prepare: Callable[[Path], object]
    compared: Callable[[str, bytes], bytes] = field(default=lambda name, raw: raw)

    def results(self, folder: Path) -> Results:
        """Every file that is no input and not hidden, as it is compared."""
        found = (
            path.relative_to(folder)
            for path in sorted(folder.rglob("*"))
            if path.is_file()
        )
        shown = [
            path.as_posix()
            for path in found
            if not any(part.startswith(".") for part in path.parts)
        ]
        return {
            name: self.compared(name, (folder / name).read_bytes()) for name in shown
        }


@dataclass(frozen=True, slots=True)
class Moment:
    """When a command is killed: before its `change`-th change of a file, or after some seconds."""

    change: int | None = None
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended: its exit code (-9 where it was killed), how long it took, and how often it changed files."""

    code: int
    seconds: float
    changes: int
    said: str


def run(
    words: Sequence[str],
    folder: Path,
    moment: Moment = Moment(),  # noqa: B008 (frozen)
    plight: Callable[[], object] | None = None,
) -> Ended:
    """Run a command of nqg in `folder`, and kill it at the moment, if it lives so long; a `plight` befalls it first."""
    with tempfile.TemporaryDirectory() as notes:
        begun = time.perf_counter()
        process = started(words, folder, Path(notes), moment.change, plight)
        process.join(moment.seconds)
        if process.is_alive():
            process.kill()
            process.join()
        seconds = time.perf_counter() - begun
        said, changes = (Path(notes) / name for name in (SAID, COUNT))
        count = int(changes.read_text()) if changes.exists() else 0
        return Ended(
            process.exitcode or 0,
            seconds,
            count,
            said.read_text() if said.exists() else "",
        )


def started(
    words: Sequence[str],
    folder: Path,
    notes: Path,
    change: int | None = None,
    plight: Callable[[], object] | None = None,
) -> BaseProcess:
    """A command of nqg that is under way, forked from a process that has loaded PyTorch and runs no thread."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(
        ["nqg.cli.main", "nqg.cli.train", "nqg.cli.split", *PAPER_COMMANDS]
    )
    process = context.Process(
        target=_become, args=(words, folder, notes, change, plight, dict(os.environ))
    )
    process.start()
    return process


def _become(
    words: Sequence[str],
    folder: Path,
    notes: Path,
    change: int | None,
    plight: Callable[[], object] | None,
    environment: Mapping[str, str],
) -> None:
    """Turn this process into a command; it never returns."""
    code = 1
    sys.stdout = sys.stderr = (notes / SAID).open("w", buffering=1)
    try:
        os.chdir(folder)
        os.environ.update(
            environment
        )  # the process that we were forked from knows an older one
        if plight:
            plight()
        count = _kill_at_change(change)
        sys.argv = ["nqg", *words]
        from nqg.cli.main import main

        try:
            main()
            code = 0
        except SystemExit as error:
            code = int(error.code or 0)
        (notes / COUNT).write_text(str(count()))
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(code)


def small_files_alone(most: int = SMALL) -> None:
    """Let writes beyond so many bytes of a file fail from here on, the last of them half done, as
    they do on a full disk.
    """
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))


def no_space_at_change(number: int) -> None:
    """Let the `number`-th file or folder that is made, renamed or opened for writing find the disk
    full, and all after it.
    """
    made, here = 0, os.getcwd()

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal made
        # What is removed needs no space.
        if event in ("os.remove", "os.rmdir") or not _is_change(event, arguments):
            return
        if _is_inside(arguments[0], here):
            made += 1
            if made >= number:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), arguments[0])

    sys.addaudithook(watch)


def jumping_clock() -> None:
    """Let the clock of the day jump by years, to and fro, whenever it is read."""
    real, jumps = time.time, itertools.cycle((0.0, -1e8, 1e8, -1.5e9))
    patch.object(time, "time", lambda: real() + next(jumps)).start()


def _kill_at_change(number: int | None) -> Callable[[], int]:
    """Kill this process before its `number`-th change of a file in the folder it works in; returns the count so far."""
    made = 0
    here = os.getcwd()

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal made
        if _is_change(event, arguments) and _is_inside(arguments[0], here):
            made += 1
            if made == number:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(watch)
    return lambda: made


def _is_change(event: str, arguments: tuple[Any, ...]) -> bool:
    return event in CHANGES or (
        event == "open"
        and isinstance(arguments[2], int)
        and bool(arguments[2] & WRITING)
    )


def _is_inside(path: object, folder: str) -> bool:
    return isinstance(path, str | os.PathLike) and os.path.abspath(
        os.fspath(path)
    ).startswith(folder)


def undisturbed(work: Work, folder: Path) -> tuple[Ended, Results]:
    """The command run once, without a kill."""
    folder.mkdir()
    work.prepare(folder)
    ended = run(work.words, folder)
    if ended.code:
        raise RuntimeError(f"nqg {' '.join(work.words)} failed: {ended.said}")
    return ended, work.results(folder)


def killed_again_and_again(
    work: Work, folder: Path, moments: Sequence[Moment]
) -> tuple[int, Results]:
    """The command killed at each moment and then run to its end: how many kills struck, and its results."""
    folder.mkdir()
    work.prepare(folder)
    kills = 0
    for moment in moments:
        ended = run(work.words, folder, moment)
        if ended.code not in (0, -signal.SIGKILL):
            raise RuntimeError(
                f"nqg {' '.join(work.words)} failed after {kills} kills: {ended.said}"
            )
        kills += ended.code == -signal.SIGKILL
    ended = run(work.words, folder)
    if ended.code:
        raise RuntimeError(
            f"nqg {' '.join(work.words)} failed after {kills} kills: {ended.said}"
        )
    return kills, work.results(folder)


def random_moments(reference: Ended, rng: random.Random) -> Iterator[Moment]:
    """Moments for ever: by turns before some change of a file, and at any time."""
    while True:
        yield Moment(change=rng.randint(1, max(1, reference.changes)))
        yield Moment(seconds=rng.uniform(0, reference.seconds))


def without(*keys: str) -> Callable[[str, bytes], bytes]:
    """Compare JSON files, and files of JSON lines, without what differs from run to run, such as seconds."""

    def compared(name: str, raw: bytes) -> bytes:
        if name.endswith(".jsonl"):
            return b"\n".join(_less(line, keys) for line in raw.splitlines())
        return _less(raw, keys) if name.endswith(".json") else raw

    return compared


def _less(raw: bytes, keys: Sequence[str]) -> bytes:
    value = json.loads(raw)
    return json.dumps(
        {key: each for key, each in value.items() if key not in keys}
    ).encode()
