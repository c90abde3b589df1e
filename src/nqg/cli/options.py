"""Options from dataclasses: a command is a function of one frozen dataclass, whose fields are its options.

    @dataclass(frozen=True, kw_only=True)
    class GreetOptions:
        name: Annotated[str, typer.Argument(metavar="NAME", help="Whom to greet.")]
        times: Annotated[int, typer.Option("--times", metavar="N", help="How often.")] = 1

    @command(GreetOptions)
    def greet(options: GreetOptions) -> None: ...

A field may also be an option for a field of a settings dataclass, which `Setting` names by its path. Such an option
is None unless it is given, so that `chosen_settings` can tell what somebody chose from what is left to others.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_args, get_type_hints

import typer

from nqg.settings_reader import changed_settings, updated_settings

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Options = TypeVar("Options", bound="DataclassInstance")
Settings = TypeVar("Settings")

# Options and arguments of several commands.
Model = Annotated[
    Path,
    typer.Argument(metavar="MODEL", help="A folder that `nqg train` wrote.", show_default=False),
]
TrainFile = Annotated[
    Path,
    typer.Argument(
        metavar="TRAIN", help="Examples: a .tsv or .jsonl file, plain or .gz.", show_default=False
    ),
]
SettingsFile = Annotated[
    Path | None,
    typer.Option(
        "--settings", metavar="FILE", help="Read settings from this TOML file; see `nqg init`."
    ),
]
Preset = Annotated[
    str | None,
    typer.Option(
        "--preset",
        metavar="NAME",
        help="Use the settings for: geoquery, scan, spider-ssp, spider-xsp.",
    ),
]
Device = Annotated[
    str | None,
    typer.Option(
        "--device",
        metavar="cpu|cuda",
        help="Where to compute.",
        show_default="cuda if there is a GPU",
    ),
]
DatabasePlace = Annotated[
    str | None,
    typer.Option(
        "--database",
        metavar="FILE|URL",
        help="Run queries on this database, SQLite or a URL of SQLAlchemy's, read-only: what fails is no answer.",
    ),
]
MinConfidence = Annotated[
    float | None,
    typer.Option(
        "--min-confidence",
        metavar="P",
        min=0.0,
        max=1.0,
        help="Abstain where the confidence is lower.",
        show_default="learned where there is free text, else 0",
    ),
]
NoSpellCorrection = Annotated[
    bool,
    typer.Option(
        "--no-spell-correction",
        metavar="",
        help="Do not correct typos: abstain at words that no rule knows.",
    ),
]
Today = Annotated[
    datetime | None,
    typer.Option(
        "--today",
        metavar="DATE",
        formats=["%Y-%m-%d"],
        help="The day that relative dates refer to, 2026-11-16; for models that have learned to write them as dates.",
        show_default="the current one; of `nqg evaluate` that of TRAIN",
    ),
]
ParallelEngine = Annotated[
    str,
    typer.Option(
        "--engine",
        metavar="local|ray|ray://…",
        help="Run workers as local processes, on a Ray started here, or on the cluster at ray://HOST:PORT.",
        rich_help_panel="Parallel work",
    ),
]
WorkerCount = Annotated[
    int | None,
    typer.Option(
        "--workers",
        metavar="N",
        help="How many workers to use.",
        rich_help_panel="Parallel work",
        show_default="1; on Ray, as many as fit",
    ),
]
Mirror = Annotated[
    Path | None,
    typer.Option(
        "--mirror",
        metavar="FOLDER",
        envvar="NQG_DATA_MIRROR",
        help="Read files from this folder; download nothing.",
    ),
]


@dataclass(frozen=True, slots=True)
class Setting:
    """An option for the setting at `path`, such as `training.steps`; help and default come from there if not given.

    The help is the `help` of the field's metadata. The flag is the path's last name.
    """

    path: str
    metavar: str
    help: str | None = None
    default: str | None = None  # as the help page shows it
    flag: str | None = None
    panel: str | None = None

    def option(self, defaults: object) -> Any:
        """The option as Typer knows it, for settings with these defaults."""
        *tables, name = self.path.split(".")
        for table in tables:
            defaults = getattr(defaults, table)
        default = getattr(defaults, name)
        flag = self.flag or f"--{name.replace('_', '-')}"
        if isinstance(default, bool):
            flag = f"{flag}/--no-{flag.removeprefix('--')}"
        words = self.help
        if words is None:
            metadata = {field.name: field.metadata for field in fields(defaults)}  # type: ignore[arg-type]
            words = metadata[name]["help"]
        shown = self.default or in_help(default)
        return typer.Option(
            flag, metavar=self.metavar, help=words, show_default=shown, rich_help_panel=self.panel
        )


def in_help(default: object) -> str:
    """A default as help pages show it.

    >>> in_help(0.0001), in_help(True), in_help(None)
    ('0.0001', 'yes', 'none')
    """
    if default is None:
        return "none"
    if isinstance(default, bool):
        return "yes" if default else "no"
    return f"{default:g}" if isinstance(default, float) else str(default)


def changes_option(example: str, panel: str | None = None) -> Any:
    """The option `--set`, for a field of the type `list[str]`."""
    words = f"Change any setting, as in {example}; may be repeated."
    return typer.Option("--set", metavar="NAME=VALUE", help=words, rich_help_panel=panel)


def command(
    kind: type[Options], settings: object = None
) -> Callable[[Callable[[Options], None]], Callable[..., None]]:
    """Make a function of `kind` one whose parameters are the fields of `kind`, as Typer wants it.

    `settings` has the defaults for the fields that are a `Setting`.

    >>> @dataclass(frozen=True, kw_only=True)
    ... class CountOptions:
    ...     times: Annotated[int, typer.Option("--times", help="How often.")] = 1
    >>> @command(CountOptions)
    ... def count(options: CountOptions) -> None:
    ...     print(options.times)
    >>> count(times=3)
    3
    >>> inspect.signature(count).parameters["times"].default
    1
    """
    hints = get_type_hints(kind, include_extras=True)
    parameters = []
    for field in fields(kind):
        default: Any = inspect.Parameter.empty
        if field.default is not MISSING:
            default = field.default
        elif field.default_factory is not MISSING:
            default = field.default_factory()
        hint = hints[field.name]
        setting = _setting_of(hint)
        if setting is not None:
            hint = Annotated[get_args(hint)[0], setting.option(settings)]
        parameters.append(
            inspect.Parameter(
                field.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=hint
            )
        )

    def decorate(function: Callable[[Options], None]) -> Callable[..., None]:
        def run(**values: Any) -> None:
            function(kind(**values))

        run.__name__, run.__doc__, run.__module__ = (
            function.__name__,
            function.__doc__,
            function.__module__,
        )
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        return run

    return decorate


def _setting_of(hint: Any) -> Setting | None:
    for mark in getattr(hint, "__metadata__", ()):
        if isinstance(mark, Setting):
            return mark
    return None


def chosen_settings(
    settings: Settings, options: DataclassInstance, changes: list[str] | None = None
) -> Settings:
    """`settings` with what somebody chose: the options that are a `Setting` and not None, then `--set`."""
    hints = get_type_hints(type(options), include_extras=True)
    tables: dict[str, Any] = {}
    for field in fields(options):
        setting = _setting_of(hints[field.name])
        value = getattr(options, field.name)
        if setting is None or value is None:
            continue
        *path, name = setting.path.split(".")
        table = tables
        for step in path:
            table = table.setdefault(step, {})
        table[name] = value
    return changed_settings(updated_settings(settings, tables), changes or [])
