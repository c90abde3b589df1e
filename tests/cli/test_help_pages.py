"""Help: every verb shows an example, fits a terminal, and says what each option is for."""

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
from nqg.cli.help_pages import Entry
from nqg.cli.main import VERBS, app

GOLDEN = PROJECT / "tests" / "golden" / "cli" / "help.txt"
ROOT: Any = get_command(app)


def paths(group: Any = ROOT, before: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The words of every verb and of every group of verbs."""
    yield before
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from paths(command, (*before, name))
        else:
            yield (*before, name)


EVERY = list(paths())


def page(*words: str, columns: int = 100) -> str:
    result = CliRunner().invoke(app, [*words, "--help"], env={"COLUMNS": str(columns), "NO_COLOR": "1"})
    assert result.exit_code == 0
    return result.stdout


def command_of(words: tuple[str, ...]) -> Any:
    found = ROOT
    for word in words:
        found = found.commands[word]
    return found


def test_the_first_page_is_the_golden_one() -> None:
    if os.environ.get("NQG_REWRITE_GOLDEN"):
        GOLDEN.write_text(page())
    assert page() == GOLDEN.read_text(), "make golden"


def test_the_first_page_names_every_verb_under_its_panel() -> None:
    text = page()
    for panel, verbs in VERBS.items():
        section = text.split(f"\n\n{panel}\n")[1].split("\n\n")[0]
        assert [line.split()[0] for line in section.splitlines()] == list(verbs)


@pytest.mark.parametrize("words", EVERY, ids=" ".join)
@pytest.mark.parametrize("columns", [80, 100, 250])
def test_no_line_is_wider_than_the_terminal_or_than_100_columns(words: tuple[str, ...], columns: int) -> None:
    assert max(map(len, page(*words, columns=columns).splitlines())) <= min(columns, 100)


@pytest.mark.parametrize("words", EVERY, ids=" ".join)
def test_every_page_has_an_example_that_the_command_line_takes(words: tuple[str, ...]) -> None:
    (example,) = re.findall(r"\n\nExample: nqg (.*)\n\n", page(*words))
    typed = shlex.split(example)
    assert tuple(typed[: len(words)]) == words
    context = typer.Context(ROOT, info_name="nqg")
    command: Any = ROOT
    while hasattr(command, "commands"):
        command = command.commands[typed.pop(0)]
    command.make_context(command.name, typed, parent=context, resilient_parsing=False)


@pytest.mark.parametrize("words", EVERY, ids=" ".join)
def test_every_option_and_argument_is_explained_in_a_sentence(words: tuple[str, ...]) -> None:
    for param in command_of(words).params:
        assert re.search(r"[.]$", param.help or ""), param.name
        if param.param_type_name == "argument" or not param.is_flag:
            assert param.metavar or "completion" in param.name, param.name


def test_an_option_that_is_needed_stands_in_the_usage_line() -> None:
    assert page("train").startswith("Usage: nqg train TRAIN -o FOLDER [OPTIONS]\n")
    assert page("split").startswith("Usage: nqg split [OPTIONS] METHOD ...\n")
    assert page("report").startswith("Usage: nqg report [RESULTS] [OPTIONS]\n")


def test_defaults_variables_and_pairs_of_flags_are_said() -> None:
    assert re.search(r"--seed S +Another seed, another split\. Default: 0\.\n", page("split", "random"))
    assert re.search(r"--mirror FOLDER .*Also: \$NQG_DATA_MIRROR\.\n", page("data", "list"))
    assert re.search(r"--\[no-\]pruning +At last", page("induce"))
    assert re.search(r"-o, --output FILE +Where to write the rules\. Required\.\n", page("induce"))


def test_a_long_label_has_a_line_of_its_own() -> None:
    lines = list(Entry("Options", "--a-very-long-name NAME", "What it is for.").lines(12, 40))
    assert lines == ["  --a-very-long-name NAME", " " * 12 + "What it is for."]


@pytest.mark.parametrize(
    ("typed", "completed"),
    [
        ("nqg pa", "parse"),
        ("nqg re", "report\nreproduce"),
        ("nqg split t", "template\ntmcd"),
        ("nqg parse --exp", "--explain"),
    ],
)
def test_the_shell_completes_verbs_and_options(typed: str, completed: str) -> None:
    place = str(len(typed.split()) - 1)
    environment = {**os.environ, "_NQG_COMPLETE": "complete_bash", "COMP_WORDS": typed, "COMP_CWORD": place}
    run = subprocess.run([Path(sys.executable).parent / "nqg"], env=environment, capture_output=True, text=True)
    assert sorted(run.stdout.split()) == sorted(completed.split()), run.stderr


def test_the_script_for_completion_can_be_shown() -> None:
    command = f"{Path(sys.executable).parent}/nqg --show-completion bash"
    environment = {**os.environ, "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    run = subprocess.run(["bash", "-c", command], capture_output=True, text=True, env=environment)
    assert "complete -o default -F _nqg_completion nqg" in run.stdout, run.stderr


def test_help_loads_nothing_heavy() -> None:
    heavy = "{'numpy', 'numba', 'torch', 'transformers', 'pooch', 'requests', 'matplotlib', 'fastapi'}"
    program = f"import nqg.cli.main, sys; print(sorted({heavy} & set(sys.modules)))"
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert shown.strip() == "[]"
