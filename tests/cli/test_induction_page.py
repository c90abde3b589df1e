"""docs/induction.md: its commands print what it says they print."""

from __future__ import annotations

import doctest
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from conftest import PROJECT

PAGE = PROJECT / "docs" / "induction.md"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", flags=re.MULTILINE | re.DOTALL)


def blocks(language: str) -> list[str]:
    return [
        text for found, text in BLOCK.findall(PAGE.read_text()) if found == language
    ]


def conversations() -> Iterator[tuple[str, str]]:
    """Every command that the page shows, with what it prints."""
    for text in blocks("console"):
        for part in text.split("$ ")[1:]:
            command, _, printed = part.partition("\n")
            yield command, printed


def untimed(text: str) -> str:
    return re.sub(r"in [\d.,]+ s,", "in … s,", text)


def test_every_command_prints_what_the_page_says(tmp_path: Path) -> None:
    for name, text in zip(("train.tsv", "test.tsv"), blocks("text"), strict=True):
        (tmp_path / name).write_text(text)
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    for command, printed in conversations():
        result = subprocess.run(
            command,
            shell=True,
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
        )
        assert (result.returncode, untimed(result.stdout)) == (0, untimed(printed)), (
            command
        )


def test_the_python_on_the_page_runs() -> None:
    result = doctest.testfile(str(PAGE), module_relative=False)
    assert result.attempted > 4
    assert result.failed == 0
