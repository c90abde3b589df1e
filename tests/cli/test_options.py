"""Options come from dataclasses: the fields are the options, those of settings take name and default from there."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.testing import CliRunner

from nqg.cli.options import Setting, changes_option, chosen_settings, command


@dataclass(frozen=True)
class Search:
    seconds: float = 0.5
    restarts: int | None = None
    pruning: bool = field(default=True, metadata={"help": "Remove what is not needed."})


@dataclass(frozen=True)
class AllSettings:
    search: Search = field(default_factory=Search)
    name: str = "mine"


@dataclass(frozen=True, kw_only=True)
class FindOptions:
    """Options of a command that searches."""

    data: Annotated[Path, typer.Argument(metavar="DATA", help="Where to search.")]
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help="Where to write.")
    ] = None
    as_json: Annotated[bool, typer.Option("--json", metavar="", help="Print JSON.")] = False
    seconds: Annotated[float | None, Setting("search.seconds", "S", "How long to search.")] = None
    pruning: Annotated[bool | None, Setting("search.pruning", "")] = None
    changes: Annotated[list[str], changes_option("search.restarts=3")] = field(default_factory=list)


calls: list[FindOptions] = []


@command(FindOptions, AllSettings())
def find(options: FindOptions) -> None:
    """Search.

    Example: nqg find data.tsv
    """
    calls.append(options)


def invoked(*words: str) -> Any:
    app = typer.Typer(add_completion=False)
    app.command()(find)
    return CliRunner().invoke(app, words, env={"COLUMNS": "100", "NO_COLOR": "1"})


def options_of(*words: str) -> FindOptions:
    result = invoked(*words)
    assert result.exit_code == 0, result.stderr
    return calls.pop()


def test_a_command_gets_its_options_as_one_value() -> None:
    assert options_of("a.tsv") == FindOptions(data=Path("a.tsv"))
    given = options_of(
        "a.tsv", "-o", "b", "--json", "--seconds", "2", "--no-pruning", "--set", "name=yours"
    )
    assert given == FindOptions(
        data=Path("a.tsv"),
        output=Path("b"),
        as_json=True,
        seconds=2.0,
        pruning=False,
        changes=["name=yours"],
    )


def test_help_shows_the_defaults_of_settings_and_the_help_of_their_metadata() -> None:
    page = " ".join(invoked("--help").stdout.replace("│", " ").split())
    assert "--seconds S How long to search. [default: (0.5)]" in page
    assert "--pruning --no-pruning Remove what is not needed. [default: (yes)]" in page
    assert "NAME=VALUE Change any setting, as in search.restarts=3; may be repeated." in page


def test_options_and_then_changes_override_settings_and_what_nobody_chose_stays() -> None:
    base = AllSettings(Search(seconds=9.0, restarts=4))
    assert chosen_settings(base, options_of("a.tsv")) == base
    given = options_of(
        "a.tsv", "--seconds", "2", "--set", "search.seconds=3", "--set", "search.restarts=none"
    )
    assert chosen_settings(base, given) == AllSettings(Search(seconds=2.0, restarts=4))
    assert chosen_settings(base, given, given.changes) == AllSettings(
        Search(seconds=3.0, restarts=None)
    )


def test_a_missing_argument_is_misuse() -> None:
    result = invoked()
    assert result.exit_code == 2
    assert "Missing argument 'DATA'" in result.stderr
