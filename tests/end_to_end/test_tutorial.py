"""The tutorial, typed in order in an empty folder: every command works, and prints what the page shows."""

from __future__ import annotations

import os
import re
from contextlib import ExitStack
from pathlib import Path

import pytest

from conftest import PROJECT
from pages import (
    BLOCK,
    COMMAND,
    QuickTerminal,
    Terminal,
    assert_same,
    blocks,
    conversations,
    is_same,
    trimmed,
)

PAGE = PROJECT / "docs" / "tutorial.md"


def done(page: str, terminal: Terminal) -> str:
    """The page with what its commands and programs print now."""
    printed = ""

    def block(found: re.Match[str]) -> str:
        nonlocal printed
        language, _, text = found.groups()
        if language == "console":
            text = "".join(
                f"$ {command}{terminal.typed(command)}"
                for command, _ in conversations(text)
            )
        elif language == "python":
            printed = terminal.run(text)
        elif language == "text":
            text = printed
        return f"```{language}\n{trimmed(text)}```\n"

    return BLOCK.sub(block, page)


@pytest.mark.skipif(os.name == "nt", reason="the page is written for POSIX shells")
def test_the_tutorial_works_as_written_and_prints_what_it_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    page = PAGE.read_text()
    with ExitStack() as servers:
        now = done(page, QuickTerminal(tmp_path, servers))
    if os.environ.get("NQG_REWRITE_GOLDEN"):
        PAGE.write_text(now)
    else:
        assert_same(page, now)


def test_the_reading_of_a_page_finds_every_command() -> None:
    page = PAGE.read_text()
    typed = [
        command for text in blocks(page, "console") for command in COMMAND.findall(text)
    ]
    assert len(typed) == len(re.findall(r"^\$ ", page, flags=re.MULTILINE)) >= 14
    assert next(command for command in typed if "\\\n" in command).count("\n") == 4


def test_numbers_may_differ_a_little_and_words_not() -> None:
    assert is_same("0.97", "0.98")
    assert is_same("walk", "walk")
    assert not is_same("0.97", "0.5")
    assert not is_same("walk", "run")
