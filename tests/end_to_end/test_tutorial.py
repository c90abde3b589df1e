"""The tutorial, typed in order in an empty folder: every command works, and prints what the page shows."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path

import pytest

from conftest import PROJECT

PAGE = PROJECT / "docs" / "tutorial.md"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```\n", flags=re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^\$ (?:.*\\\n)*.*\n", flags=re.MULTILINE)
PORT = "8000"
TOLERANCE = 0.25  # of scores and probabilities, whose last digits depend on the processor


@dataclass(slots=True)
class Terminal:
    """A shell in a folder, in which servers stay until the end; the page's port may be taken, so it gets another."""

    folder: Path
    servers: ExitStack
    port: str = field(default_factory=lambda: free_port())

    @property
    def environment(self) -> dict[str, str]:
        return {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "OMP_NUM_THREADS": "1"}

    def typed(self, command: str) -> str:
        """What a command prints, on both channels."""
        if command.endswith(" &\n"):
            return self.servers.enter_context(self._served(command))
        command = command.replace(f":{PORT}", f":{self.port}")
        return self._output(["bash", "-c", command]).replace(self.port, PORT)

    def run(self, program: str) -> str:
        return self._output([sys.executable, "-c", program])

    def _output(self, words: list[str]) -> str:
        run = subprocess.run(
            words, cwd=self.folder, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        assert run.returncode == 0, f"{words[-1]}\n{run.stdout}"
        return run.stdout

    @contextmanager
    def _served(self, command: str) -> Iterator[str]:
        words = f"exec {command.removesuffix(' &' + chr(10))} --port {self.port}"
        server = subprocess.Popen(
            ["bash", "-c", words], cwd=self.folder, env=self.environment, stderr=subprocess.PIPE, text=True
        )
        assert server.stderr is not None
        try:
            yield server.stderr.readline().replace(self.port, PORT)
        finally:
            server.terminate()
            server.communicate()


def free_port() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


def done(page: str, terminal: Terminal) -> str:
    """The page with what its commands and programs print now."""
    printed = ""

    def block(found: re.Match[str]) -> str:
        nonlocal printed
        language, text = found.groups()
        if language == "console":
            text = "".join(command + terminal.typed(command.removeprefix("$ ")) for command in COMMAND.findall(text))
        elif language == "python":
            printed = terminal.run(text)
        elif language == "text":
            text = printed
        return f"```{language}\n{trimmed(text)}```\n"

    return BLOCK.sub(block, page)


def trimmed(text: str) -> str:
    """A block as a page has it: no blanks at the ends of lines, one line end at its end."""
    return "\n".join(line.rstrip() for line in text.rstrip().split("\n")) + "\n"


def is_same(shown: str, printed: str) -> bool:
    """Whether two words are equal, or numbers that are nearly."""
    try:
        return shown == printed or abs(float(shown) - float(printed)) < TOLERANCE
    except ValueError:
        return False


@pytest.mark.skipif(os.name == "nt", reason="the page is written for POSIX shells")
def test_the_tutorial_works_as_written_and_prints_what_it_shows(tmp_path: Path) -> None:
    page = PAGE.read_text()
    with ExitStack() as servers:
        now = done(page, Terminal(tmp_path, servers))
    if os.environ.get("NQG_REWRITE_GOLDEN"):
        PAGE.write_text(now)
        return
    for shown, printed in zip_longest(page.splitlines(), now.splitlines(), fillvalue=""):
        words = zip_longest(re.split(r"[\s,}]+", shown), re.split(r"[\s,}]+", printed), fillvalue="")
        assert all(is_same(*pair) for pair in words), f"the page shows\n{shown}\nbut now it is\n{printed}"


def test_the_reading_of_a_page_finds_every_command() -> None:
    page = PAGE.read_text()
    typed = [
        command for language, text in BLOCK.findall(page) if language == "console" for command in COMMAND.findall(text)
    ]
    assert len(typed) == len(re.findall(r"^\$ ", page, flags=re.MULTILINE)) >= 14
    assert next(command for command in typed if "\\\n" in command).count("\n") == 4


def test_numbers_may_differ_a_little_and_words_not() -> None:
    assert is_same("0.97", "0.98")
    assert is_same("walk", "walk")
    assert not is_same("0.97", "0.5")
    assert not is_same("walk", "run")
