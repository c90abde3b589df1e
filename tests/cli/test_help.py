"""Help: every command shows an example, fits a terminal, and says what each option is for."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.main import get_command
from typer.testing import CliRunner

from conftest import PROJECT
from nqg.cli.main import COMMANDS, app, load_command

GOLDEN = PROJECT / "tests" / "golden" / "cli" / "help.txt"
ROOT: Any = get_command(app)


def paths() -> Iterator[tuple[str, ...]]:
    """The words of every command and of every group of commands."""
    yield ()
    for name in COMMANDS:
        yield (name,)
        yield from (
            (name, method) for method in getattr(load_command(name), "commands", ())
        )


EVERY = list(paths())


@pytest.fixture(autouse=True)
def width_of_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages are as wide as each test says, also after a test that called `main` in this process."""
    monkeypatch.delenv("TERMINAL_WIDTH", raising=False)
    monkeypatch.setattr("typer.rich_utils.MAX_WIDTH", None)


def page(*words: str, columns: int = 100) -> str:
    result = CliRunner().invoke(
        app, [*words, "--help"], env={"COLUMNS": str(columns), "NO_COLOR": "1"}
    )
    assert result.exit_code == 0
    return "".join(f"{line.rstrip()}\n" for line in result.stdout.splitlines())


def command_of(words: tuple[str, ...]) -> Any:
    if not words:
        return ROOT
    found = load_command(words[0])
    return found.commands[words[1]] if len(words) > 1 else found


def test_the_first_page_is_the_golden_one() -> None:
    if os.environ.get("NQG_REWRITE_GOLDEN"):
        GOLDEN.write_text(page())
    assert page() == GOLDEN.read_text(), "make golden"


def test_the_first_page_names_every_command_under_its_panel() -> None:
    panels = dict(re.findall(r"╭─ ([\w ]+) ─+╮\n(.*?)╰", page(), flags=re.DOTALL))
    for panel in {panel for _, panel, _ in COMMANDS.values()}:
        listed = [line.split()[1] for line in panels[panel].splitlines()]
        assert listed == [name for name, entry in COMMANDS.items() if entry[1] == panel]


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_of_commands_says_what_the_commands_own_page_says(name: str) -> None:
    assert COMMANDS[name][2] == load_command(name).help.split("\n\n")[0].replace(
        "\n", " "
    )


@pytest.mark.parametrize("words", EVERY, ids=" ".join)
@pytest.mark.parametrize("columns", [80, 100])
def test_no_line_is_wider_than_the_terminal(
    words: tuple[str, ...], columns: int
) -> None:
    assert max(map(len, page(*words, columns=columns).splitlines())) <= columns


def test_no_page_is_wider_than_100_columns() -> None:
    environment = {
        name: text for name, text in os.environ.items() if name != "TERMINAL_WIDTH"
    } | {"COLUMNS": "250"}
    program = [
        sys.executable,
        "-c",
        "from nqg.cli.main import main; main()",
        "train",
        "--help",
    ]
    shown = subprocess.run(
        program, env=environment, capture_output=True, text=True, check=True
    ).stdout
    assert max(map(len, shown.splitlines())) == 100


@pytest.mark.parametrize("words", EVERY, ids=" ".join)
def test_every_page_has_an_example_that_the_command_line_takes(
    words: tuple[str, ...],
) -> None:
    (example,) = re.findall(r"\n\n Example: nqg (.*)\n\n", page(*words))
    typed = shlex.split(example)
    assert tuple(typed[: len(words)]) == words
    command = load_command(typed.pop(0))
    while hasattr(command, "commands"):
        command = command.commands[typed.pop(0)]
    command.make_context(
        command.name,
        typed,
        parent=typer.Context(ROOT, info_name="nqg"),
        resilient_parsing=False,
    )


@pytest.mark.parametrize("words", EVERY, ids=" ".join)
def test_every_option_and_argument_is_explained_in_a_sentence(
    words: tuple[str, ...],
) -> None:
    for param in command_of(words).params:
        assert re.search(r"[.]$", param.help or ""), param.name
        if param.param_type_name == "argument" or not param.is_flag:
            assert param.metavar or "completion" in param.name, param.name


def test_there_are_at_most_126_options_in_all() -> None:
    options = [
        param
        for words in EVERY
        for param in command_of(words).params
        if param.param_type_name == "option"
    ]
    assert len([option for option in options if option.name != "help"]) <= 126


@pytest.mark.parametrize("words", EVERY, ids=" ".join)
def test_nothing_on_a_page_is_lost_as_markup(words: tuple[str, ...]) -> None:
    command = command_of(words)
    shown = " ".join(re.sub("[│─╭╮╰╯]", " ", page(*words)).split())
    for part in command.help.split("\n\n"):
        assert " ".join(part.split()) in shown
    assert max(map(len, command.help.splitlines())) <= 78, (
        "Typer keeps line ends, so lines must fit 80 columns"
    )


def test_defaults_variables_and_needed_options_are_shown() -> None:
    assert re.search(
        r"--dev-size +N +Examples in dev, or their share\. \[default: 0\]",
        page("split"),
    )
    assert "[env var: NQG_DATA_MIRROR]" in page("data", "list")
    assert re.search(r"\* +--output +-o +FILE .*\[required\]", page("induce"))


@pytest.mark.parametrize(
    ("typed", "completed"),
    [
        ("nqg pa", "parse"),
        ("nqg re", "report\nreproduce"),
        ("nqg split t", "template\ntmcd"),
        ("nqg parse --exp", "--explain"),
    ],
)
def test_the_shell_completes_commands_and_options(typed: str, completed: str) -> None:
    place = str(len(typed.split()) - 1)
    environment = {
        **os.environ,
        "_NQG_COMPLETE": "complete_bash",
        "COMP_WORDS": typed,
        "COMP_CWORD": place,
    }
    run = subprocess.run(
        [Path(sys.executable).parent / "nqg"],
        env=environment,
        capture_output=True,
        text=True,
    )
    assert sorted(run.stdout.split()) == sorted(completed.split()), run.stderr


def test_the_script_for_completion_can_be_shown() -> None:
    command = f"{Path(sys.executable).parent}/nqg --show-completion bash"
    environment = {**os.environ, "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    run = subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, env=environment
    )
    assert "complete -o default -F _nqg_completion nqg" in run.stdout, run.stderr
