"""What the commands share: two consoles, progress bars on stderr, and the options for output, device and workers."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn, track
from rich.progress import Progress as Bars

from nqg.errors import NqgError
from nqg.parallel import Engine
from nqg.progress import Progress

T = TypeVar("T")

WIDE = 200  # columns of tables where nobody's terminal has to hold them
STOPPED = 130  # what shells report for a command that Ctrl-C ended

out = Console(
    highlight=False, markup=False, soft_wrap=True, width=None if sys.stdout.isatty() else WIDE
)
err = Console(stderr=True, highlight=False, markup=False, soft_wrap=True)
details = Console(
    stderr=True, highlight=False, markup=False, soft_wrap=True, quiet=True
)  # until --verbose
alarm = Console(stderr=True, highlight=False, markup=False, soft_wrap=True)  # which is never quiet


@dataclass(slots=True)
class OutputFormat:
    """How results are printed, as the options before the command say."""

    as_json: bool = False


output = OutputFormat()


def detail(message: str) -> None:
    """Print a message on stderr if --verbose was given."""
    details.print(message, style="dim")


def complain(message: str) -> None:
    alarm.print(f"error: {message}", style="red")


@contextmanager
def interruptible(advice: str = "") -> Iterator[None]:
    """A block that Ctrl-C ends with one line, which may say how to go on, and the exit code of shells."""
    try:
        yield
    except KeyboardInterrupt:
        complain(f"interrupted; {advice}" if advice else "interrupted")
        raise typer.Exit(STOPPED) from None


def report_written(*paths: Path) -> None:
    """Name the files that a command wrote, on stderr so that stdout stays data."""
    for path in paths:
        err.print(f"wrote {path}")


def make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise NqgError(
            f"{folder}: cannot be created ({error.strerror}); choose another folder"
        ) from error


def tracked(items: Iterable[T], what: str, total: int | None = None) -> Iterable[T]:
    """`items`, with a bar on stderr while they are consumed; nothing is drawn if stderr is not a terminal."""
    return track(items, what, total, console=err, disable=not err.is_terminal, transient=True)


@contextmanager
def progress_bar() -> Iterator[Progress]:
    """A bar on stderr for work that reports its own progress; nothing is drawn if stderr is not a terminal."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    with Bars(*columns, console=err, disable=not err.is_terminal, transient=True) as bars:
        bar = bars.add_task("preparing", total=None)

        def draw(what: str, done: int, total: int | None) -> None:
            bars.update(bar, description=what, completed=done, total=total, refresh=done == total)

        yield draw


def checked_device(name: str | None) -> str | None:
    """The device that the user named, which must exist."""
    if name not in (None, "cpu", "cuda"):
        raise typer.BadParameter(f"'{name}' is neither 'cpu' nor 'cuda'", param_hint="--device")
    if name == "cuda" and not has_gpu():
        raise NqgError("torch finds no GPU; omit --device, or use --device cpu")
    return name


def has_gpu() -> bool:
    import torch  # which takes a second, and most commands ask only if told to use a GPU

    return torch.cuda.is_available()


@dataclass(frozen=True, slots=True)
class Workforce:
    """An engine, and the device that its workers compute on."""

    engine: Engine
    device: str | None

    @classmethod
    def chosen(cls, engine: str, workers: int | None, device: str | None) -> Workforce:
        """What the options ask for; on Ray every worker gets a GPU of its own, or none."""
        if engine == "local":
            return cls(Engine(engine, workers), checked_device(device))
        is_remote = engine.startswith("ray://")  # whose GPUs are not those of this machine
        device = device if is_remote else checked_device(device)
        on_gpu = device == "cuda" or (device is None and has_gpu())
        return cls(Engine(engine, workers, int(on_gpu)), "cuda" if on_gpu else "cpu")
