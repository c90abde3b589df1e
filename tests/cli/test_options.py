"""Options come from dataclasses: the fields are the options."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.testing import CliRunner

from nqg.cli.options import argument, changes_option, command, option


@dataclass(frozen=True, kw_only=True)
class FindOptions:
    """Options of a command that searches."""

    data: Annotated[Path, argument("DATA", "Where to search.")]
    output: Annotated[Path | None, option("-o --output", "FILE", "Where to write.")] = (
        None
    )
    as_json: Annotated[bool, option("--json", "", "Print JSON.")] = False
    seconds: Annotated[
        float | None,
        option("--seconds", "S", "How long to search.", show_default="0.5"),
    ] = None
    changes: Annotated[list[str], changes_option("search.restarts=3")] = field(
        default_factory=list
    )


calls: list[FindOptions] = []


@command(FindOptions)
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
        "a.tsv", "-o", "b", "--json", "--seconds", "2", "--set", "name=yours"
    )
    assert given == FindOptions(
        data=Path("a.tsv"),
        output=Path("b"),
        as_json=True,
        seconds=2.0,
        changes=["name=yours"],
    )


def test_help_shows_what_an_option_says_and_its_default() -> None:
    page = " ".join(invoked("--help").stdout.replace("│", " ").split())
    assert "--seconds S How long to search. [default: (0.5)]" in page
    assert (
        "NAME=VALUE Change any setting, as in search.restarts=3; may be repeated."
        in page
    )


def test_a_missing_argument_is_misuse() -> None:
    result = invoked()
    assert result.exit_code == 2
    assert "Missing argument 'DATA'" in result.stderr
