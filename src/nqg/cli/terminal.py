"""What the commands share: consoles, tables, progress bars on stderr, devices and workers."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Any, NamedTuple, TypeVar

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TimeRemainingColumn, track
from rich.progress import Progress as Bars
from rich.table import Table

from nqg.errors import NqgError
from nqg.parallel import Engine
from nqg.progress import Progress

Item = TypeVar("Item")

# The width of tables that no terminal has to hold.
WIDE = 200
# What shells report for a command that Ctrl-C ended.
STOPPED = 130
# How long Ctrl-C waits for compiled code and for the end of the process, in seconds: most steps
# of any work are shorter.
INTERRUPT_SECONDS = 0.4

plain = partial(Console, highlight=False, markup=False, soft_wrap=True)
out = plain(width=None if sys.stdout.isatty() else WIDE)
err = plain(stderr=True)
# Details are hidden unless --verbose is given; errors are never hidden.
details = plain(stderr=True, quiet=True)
alarm = plain(stderr=True)


@dataclass
class OutputFormat:
    """How results are printed, as the options before the command say."""

    as_json: bool = False


output = OutputFormat()


def detail(message: str) -> None:
    """Print a message on stderr if --verbose was given."""
    details.print(message, style="dim")


def complain(message: str) -> None:
    alarm.print(f"error: {message}", style="red")


@dataclass
class Interruption:
    """What Ctrl-C reports: the advice of the innermost block that has some."""

    advice: list[str] = field(default_factory=list)
    is_reported: bool = False

    def report(self) -> None:
        advice = next(filter(None, reversed(self.advice)), "")
        complain(f"interrupted; {advice}" if advice else "interrupted")
        self.is_reported = True


interruption = Interruption()


@contextmanager
def interruptible(advice: str = "") -> Iterator[None]:
    """A block that Ctrl-C ends with one line, perhaps with advice, and the exit code of shells."""
    interruption.advice.append(advice)
    try:
        yield
    except (KeyboardInterrupt, SystemError) as error:
        # A signal between compiled code and Python is reported as a fault of the interpreter.
        is_interrupt = isinstance(error, KeyboardInterrupt)
        if not is_interrupt and not isinstance(error.__cause__, KeyboardInterrupt):
            raise
        interruption.report()
        raise typer.Exit(STOPPED) from None
    finally:
        interruption.advice.pop()


def end_at_interrupts() -> None:
    """End this process soon after Ctrl-C, even where compiled code runs, which looks at no signal.

    Whatever is written is whole or not there, as after a kill. Commands with handlers of their own,
    such as a server that stops in order, are left to these.
    """
    if os.name != "posix":
        return
    readable, writable = os.pipe()
    os.set_blocking(writable, False)
    signal.set_wakeup_fd(writable, warn_on_full_buffer=False)

    def watch() -> None:
        while True:
            number = os.read(readable, 1)[0]
            is_default = signal.getsignal(number) is signal.default_int_handler
            if number == signal.SIGINT and is_default:
                time.sleep(INTERRUPT_SECONDS)
                if not interruption.is_reported:
                    interruption.report()
                os._exit(STOPPED)

    Thread(target=watch, daemon=True).start()


def report_written(*paths: Path) -> None:
    """Name the files that a command wrote, on stderr so that stdout stays data."""
    for path in paths:
        err.print(f"wrote {path}")


def print_results(values: Any, *texts: Any) -> None:
    """Print `values` as JSON if --json was given, else the texts."""
    if output.as_json:
        out.print_json(data=values)
        return
    for text in texts:
        out.print(text)


def new_table(*columns: str) -> Table:
    return Table(*columns, box=None, pad_edge=False)


def make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise NqgError(
            f"{folder}: cannot be created ({error.strerror}); choose another folder"
        ) from error


def tracked(
    items: Iterable[Item], what: str, total: int | None = None
) -> Iterable[Item]:
    """`items`, with a bar while they are consumed if stderr is a terminal."""
    return track(
        items, what, total, console=err, disable=not err.is_terminal, transient=True
    )


@contextmanager
def progress_bar() -> Iterator[Progress]:
    """A bar for work that reports its own progress, if stderr is a terminal."""
    with Bars(
        "{task.description}",
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=err,
        disable=not err.is_terminal,
        transient=True,
    ) as bars:
        # The total is not known before the work reports it.
        bar = bars.add_task("preparing", total=None)

        def draw(what: str, done: int, total: int | None) -> None:
            bars.update(
                bar,
                description=what,
                completed=done,
                total=total,
                refresh=done == total,
            )

        yield draw


def checked_device(name: str | None) -> str | None:
    """The device that the user named, which must exist."""
    if name not in (None, "cpu", "cuda"):
        raise typer.BadParameter(
            f"'{name}' is neither 'cpu' nor 'cuda'", param_hint="--device"
        )
    if name == "cuda" and not has_gpu():
        raise NqgError("torch finds no GPU; omit --device, or use --device cpu")
    return name


def has_gpu() -> bool:
    # Importing torch takes a second, and most commands need to know only if told to use a GPU.
    import torch

    return torch.cuda.is_available()


class Workers(NamedTuple):
    """An engine, and the device that its workers compute on."""

    engine: Engine
    device: str | None

    @classmethod
    def chosen(cls, engine: str, workers: int | None, device: str | None) -> Workers:
        """What the options ask for; on Ray every worker gets a GPU of its own, or none."""
        # The GPUs of a cluster are not those of this machine.
        if not engine.startswith("ray://"):
            device = checked_device(device)
        if engine == "local":
            return cls(Engine(engine, workers), device)
        on_gpu = device == "cuda" or (device is None and has_gpu())
        return cls(Engine(engine, workers, int(on_gpu)), "cuda" if on_gpu else "cpu")
