"""README and docs stay true: links lead somewhere, Python examples run, commands exist and the README's are run."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from api_reference import api_reference
from conftest import PROJECT
from nqg.experiments.records import Results, records
from nqg.experiments.tables import markdown, tables

PAGES = sorted([PROJECT / "README.md", PROJECT / "CONTRIBUTING.md", *(PROJECT / "docs").glob("*.md")])
LINK = re.compile(r"\]\((?!https?:)([^)#]+)(?:#[^)]*)?\)")
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", flags=re.MULTILINE | re.DOTALL)


def blocks(page: Path, language: str) -> Iterator[str]:
    return (text for found, text in BLOCK.findall(page.read_text()) if found == language)


def commands(page: Path) -> list[str]:
    """The `nqg` commands that a page shows, comments and prompts taken off."""
    lines = (
        line.removeprefix("$ ").split("  #")[0].strip() for text in blocks(page, "console") for line in text.split("\n")
    )
    return [line for line in lines if line.startswith("nqg ")]


def page_name(page: Path) -> str:
    return page.name


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_every_link_to_a_file_leads_to_one(page: Path) -> None:
    missing = [link for link in LINK.findall(page.read_text()) if not (page.parent / link).exists()]
    assert not missing


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_every_command_that_is_shown_exists(page: Path) -> None:
    from nqg.cli.main import COMMANDS

    shown = {shlex.split(command)[1] for command in commands(page)} - {"--version", "--help"}
    assert shown <= set(COMMANDS)


def test_the_readmes_commands_run_as_they_stand(tmp_path: Path, real_data: Path) -> None:
    environment = {
        **os.environ,
        "NQG_DATA_MIRROR": str(real_data),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    shown = commands(PROJECT / "README.md")
    assert shown
    for command in shown:
        result = subprocess.run(command, shell=True, cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert result.returncode == 0, f"{command}\n{result.stdout}\n{result.stderr}"


def test_the_readmes_python_runs_as_it_stands(tmp_path: Path) -> None:
    shown = list(blocks(PROJECT / "README.md", "python"))
    assert shown
    for program in shown:
        result = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True)
        assert result.returncode == 0, f"{program}\n{result.stdout}\n{result.stderr}"


def test_the_version_is_the_same_everywhere() -> None:
    from nqg import __version__

    assert f'version = "{__version__}"' in (PROJECT / "pyproject.toml").read_text()
    assert f"version: {__version__}" in (PROJECT / "CITATION.cff").read_text()


def test_the_reference_is_made_from_the_docstrings() -> None:
    page = PROJECT / "docs" / "api.md"
    if os.environ.get("NQG_REWRITE_GOLDEN"):
        page.write_text(api_reference())
    assert page.read_text() == api_reference(), "make golden"


def test_the_page_of_results_holds_the_tables_of_the_records() -> None:
    page, found = PROJECT / "docs" / "reproduce.md", tables(Results.collected(records(PROJECT / "results")))
    mark = "<!-- nqg report results -->\n"
    text = page.read_text().split(mark)[0] + mark + markdown(found)
    if os.environ.get("NQG_REWRITE_GOLDEN"):
        page.write_text(text)
    assert page.read_text() == text, "make golden"
