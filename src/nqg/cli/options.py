"""Options of commands: shorter forms of Typer's, those of several commands, and `command`.

A command with few options is a function of them. One with many is a function of a frozen dataclass,
whose fields are its options:

    @dataclass(frozen=True, kw_only=True)
    class GreetOptions:
        name: Annotated[str, argument("NAME", "Whom to greet.")]
        times: Annotated[int, option("--times", "N", "How often.")] = 1

    @command(GreetOptions)
    def greet(options: GreetOptions) -> None: ...
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import MISSING, fields
from datetime import datetime
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_type_hints

import typer

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Options = TypeVar("Options", bound="DataclassInstance")


def option(
    flags: str, metavar: str, text: str, panel: str | None = None, **more: Any
) -> Any:
    """An option of Typer's; `flags` are separated by spaces, and a switch has no metavar."""
    return typer.Option(
        *flags.split(), metavar=metavar, help=text, rich_help_panel=panel, **more
    )


def argument(metavar: str, text: str, default: bool | str = False) -> Any:
    """An argument of Typer's; `default` is what the help page shows."""
    return typer.Argument(metavar=metavar, help=text, show_default=default)


def changes_option(example: str, panel: str | None = None) -> Any:
    """The option `--set`, for a field of the type `list[str]`."""
    text = f"Change any setting, as in {example}; may be repeated."
    return option("--set", "NAME=VALUE", text, panel)


# Options and arguments of several commands.
Model = Annotated[Path, argument("MODEL", "A folder that `nqg train` wrote.")]
TrainFile = Annotated[
    Path, argument("TRAIN", "Examples: a .tsv, .csv or .jsonl file, plain or .gz.")
]
SettingsFile = Annotated[
    Path | None,
    option("--settings", "FILE", "Read settings from this TOML file; see `nqg init`."),
]
Preset = Annotated[
    str | None,
    option(
        "--preset",
        "NAME",
        "Use the settings for: geoquery, scan, spider-ssp, spider-xsp.",
    ),
]
Device = Annotated[
    str | None,
    option(
        "--device",
        "cpu|cuda",
        "Where to compute.",
        show_default="cuda if there is a GPU",
    ),
]
DatabasePlace = Annotated[
    str | None,
    option(
        "--database",
        "FILE|URL",
        "Run queries on this database, read-only: a SQLite file or a URL of SQLAlchemy's. A query "
        "that fails is no answer.",
    ),
]
MinConfidence = Annotated[
    float | None,
    option(
        "--min-confidence",
        "P",
        "Abstain where the confidence is lower.",
        min=0.0,
        max=1.0,
        show_default="the threshold that training chose",
    ),
]
NoSpellCorrection = Annotated[
    bool,
    option(
        "--no-spell-correction",
        "",
        "Do not correct typos: abstain at words that no rule knows.",
    ),
]
Today = Annotated[
    datetime | None,
    option(
        "--today",
        "DATE",
        "The day that relative dates refer to, 2026-11-16; for models that have learned to write "
        "them as dates.",
        formats=["%Y-%m-%d"],
        show_default="the current one; of `nqg evaluate` that of TRAIN",
    ),
]
ParallelEngine = Annotated[
    str,
    option(
        "--engine",
        "local|ray|ray://…",
        "Run workers as local processes, on a Ray started here, or on the cluster at "
        "ray://HOST:PORT.",
        "Parallel work",
    ),
]
WorkerCount = Annotated[
    int | None,
    option(
        "--workers",
        "N",
        "How many workers to use.",
        "Parallel work",
        show_default="1; on Ray, as many as fit",
    ),
]
Mirror = Annotated[
    Path | None,
    option(
        "--mirror",
        "FOLDER",
        "Read files from this folder; download nothing.",
        envvar="NQG_DATA_MIRROR",
    ),
]


def command(
    kind: type[Options],
) -> Callable[[Callable[[Options], None]], Callable[..., None]]:
    """Make a function of `kind` one whose parameters are the fields of `kind`, as Typer wants it.

    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True, kw_only=True)
    ... class CountOptions:
    ...     times: Annotated[int, option("--times", "N", "How often.")] = 1
    >>> @command(CountOptions)
    ... def count(options: CountOptions) -> None:
    ...     print(options.times)
    >>> count(times=3)
    3
    >>> inspect.signature(count).parameters["times"].default
    1
    """
    hints = get_type_hints(kind, include_extras=True)
    signature = inspect.signature(kind)
    parameters = []
    for field in fields(kind):
        parameter = signature.parameters[field.name].replace(
            annotation=hints[field.name]
        )
        if field.default_factory is not MISSING:
            parameter = parameter.replace(default=field.default_factory())
        parameters.append(parameter)

    def decorate(function: Callable[[Options], None]) -> Callable[..., None]:
        @wraps(function)
        def run(**values: Any) -> None:
            function(kind(**values))

        run.__annotations__ = hints
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        return run

    return decorate
