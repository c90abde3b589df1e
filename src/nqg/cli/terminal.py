"""What every verb shares on the terminal: the two consoles, errors, and progress bars on stderr only."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, TypeVar

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn, track

from nqg.engines import Engine, engine_named
from nqg.errors import NqgError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


T = TypeVar("T")

WIDE = 200  # columns of tables where nobody's terminal has to hold them
STOPPED = 130  # what shells report for a command that Ctrl-C ended

out = Console(highlight=False, markup=False, soft_wrap=True, width=None if sys.stdout.isatty() else WIDE)
err = Console(stderr=True, highlight=False, markup=False, soft_wrap=True)
alarm = Console(stderr=True, highlight=False, markup=False, soft_wrap=True)  # which is never quiet


@dataclass(slots=True)
class Volume:
    """How much is said on stderr: `is_high` for those who want to know more."""

    is_high: bool = False


volume = Volume()


def set_volume(*, quiet: bool, verbose: bool) -> None:
    """Say nothing but errors, or more than usual."""
    err.quiet, volume.is_high = quiet, verbose and not quiet


def detail(message: str) -> None:
    """Say what only those want to know who asked for more."""
    if volume.is_high:
        err.print(message, style="dim")


def in_words(settings: DataclassInstance) -> str:
    """Settings on one line.

    >>> from nqg.induction.settings import InductionSettings
    >>> in_words(InductionSettings())[:46]
    'terminal_bits = 8.0, non_terminal_bits = 1.0, '
    """
    return ", ".join(f"{each.name} = {getattr(settings, each.name)}" for each in fields(settings))


def complain(message: str) -> None:
    """Say what went wrong, on stderr."""
    alarm.print(f"error: {message}", style="red")


def report_written(*paths: object) -> None:
    """Name the files that a command wrote, on stderr so that stdout stays data."""
    for path in paths:
        err.print(f"wrote {path}")


def tracked(items: Iterable[T], what: str, total: int | None = None) -> Iterable[T]:
    """`items`, with a bar on stderr while they are consumed; nothing is drawn where stderr is no terminal."""
    return track(items, what, total, console=err, disable=not err.is_terminal, transient=True)


@contextmanager
def progress_bar() -> Iterator[Progress]:
    """A bar for work that reports its own progress; invisible where stderr is no terminal."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=err, disable=not err.is_terminal, transient=True) as progress:
        yield progress


@dataclass(frozen=True, slots=True)
class Stopwatch:
    """Seconds since it was made, and those that had passed before."""

    before: float = 0.0
    _started: float = field(default_factory=time.monotonic)

    @property
    def seconds(self) -> float:
        """The time so far."""
        return self.before + time.monotonic() - self._started


DEVICE = typer.Option(
    None, "--device", metavar="cpu|cuda", help="Where to compute. Default: cuda where there is one.", show_default=False
)


def checked_device(name: str | None) -> str | None:
    """The device that a user named, if there is one."""
    import torch

    if name not in (None, "cpu", "cuda"):
        raise typer.BadParameter(f"'{name}' is neither 'cpu' nor 'cuda'", param_hint="--device")
    if name == "cuda" and not torch.cuda.is_available():
        raise NqgError("there is no GPU that torch can use; leave --device away, or say --device cpu")
    return name


PANEL = "Who does the work"
ENGINE = typer.Option(
    "local",
    "--engine",
    metavar="local|ray|ray://HOST:PORT",
    help="Processes of this machine, a Ray that is started here, or a Ray cluster.",
    rich_help_panel=PANEL,
)
WORKERS = typer.Option(
    None,
    "--workers",
    metavar="N",
    min=1,
    help="How many parts are worked on at once. Default: one; on Ray, as many as it has room for.",
    rich_help_panel=PANEL,
    show_default=False,
)


@dataclass(frozen=True, slots=True)
class Workforce:
    """An engine, and the device that its workers compute on."""

    engine: Engine
    device: str | None

    @classmethod
    def chosen(cls, engine: str, workers: int | None, device: str | None) -> Workforce:
        """The one that the options ask for; on Ray every worker gets a GPU of its own, or none."""
        if engine == "local":
            return cls(engine_named(engine, workers=workers), checked_device(device))
        import torch

        is_far = engine.startswith("ray://")  # where other GPUs are than here
        device = device if is_far else checked_device(device)
        on_gpu = device == "cuda" or (device is None and torch.cuda.is_available())
        return cls(engine_named(engine, workers=workers, gpus=int(on_gpu)), "cuda" if on_gpu else "cpu")
