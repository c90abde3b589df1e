"""Pages of the documentation as a reader uses them: the blocks on them, and a terminal to type their commands into.

A `console` block has commands, each after `$ `, and what they print. One that needs what a test has not says so in its
title, which the site shows: `console title="needs eight GPUs"`.
"""

from __future__ import annotations

import os
import re
import shlex
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path

from conftest import PROJECT
from nqg.errors import NqgError
from typed_commands import one_thread, typed

BLOCK = re.compile(
    r'^```(\w*)(?: title="([^"]*)")?\n(.*?)^```\n', flags=re.MULTILINE | re.DOTALL
)
COMMAND = re.compile(r"^\$ (?:.*\\\n)*.*\n", flags=re.MULTILINE)
PORT = "8000"
TOLERANCE = (
    0.25  # of scores and probabilities, whose last digits depend on the processor
)
BETWEEN = re.compile(r"[\s,{}()–]+")  # words
STEPS = re.compile(
    r"\d+ steps, loss [\d.]+ in the last"
)  # training ends when nothing is left to learn
SHELL = re.compile(r"[<>|&$`]")

PAGES = sorted(
    path
    for path in (
        *PROJECT.glob("*.md"),
        *(PROJECT / "docs").glob("*.md"),
        *(PROJECT / "examples").rglob("*.md"),
    )
    if path.name != "CHANGELOG.md"
)


def page_name(page: Path) -> str:
    return page.relative_to(PROJECT).as_posix()


def blocks(text: str, language: str) -> list[str]:
    """The blocks of a language, but for those that need what a test has not."""
    return [
        block
        for found, title, block in BLOCK.findall(text)
        if found == language and not title.startswith("needs")
    ]


def conversations(text: str) -> Iterator[tuple[str, str]]:
    """The commands of a block, each with what the page says that it prints."""
    commands = COMMAND.findall(text)
    for command, printed in zip(commands, COMMAND.split(text)[1:], strict=True):
        yield command.removeprefix("$ "), printed


def assert_same(shown: str, printed: str, tolerance: float = TOLERANCE) -> None:
    shown, printed = STEPS.sub("some steps", shown), STEPS.sub("some steps", printed)
    for line, now in zip_longest(
        shown.splitlines(), printed.splitlines(), fillvalue=""
    ):
        words = zip_longest(BETWEEN.split(line), BETWEEN.split(now), fillvalue="")
        assert all(is_same(*pair, tolerance) for pair in words), (
            f"the page shows\n{line}\nbut now it is\n{now}"
        )


def is_same(shown: str, printed: str, tolerance: float = TOLERANCE) -> bool:
    """Whether two words are equal, or numbers that are nearly."""
    try:
        return shown == printed or abs(float(shown) - float(printed)) < tolerance
    except ValueError:
        return False


def trimmed(text: str) -> str:
    """A block as a page has it: no blanks at the ends of lines, one line end at its end."""
    return "\n".join(line.rstrip() for line in text.rstrip().split("\n")) + "\n"


def free_port() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


@dataclass(slots=True)
class Terminal:
    """A shell in a folder, in which servers stay until the end; the page's port may be taken, so it gets another."""

    folder: Path
    servers: ExitStack
    port: str = field(default_factory=free_port)

    @property
    def environment(self) -> dict[str, str]:
        return {
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "OMP_NUM_THREADS": "1",
        }

    def typed(self, command: str) -> str:
        """What a command prints, on both channels."""
        if command.startswith("nqg serve"):
            return self.servers.enter_context(self._served(command))
        command = command.replace(f":{PORT}", f":{self.port}")
        return self._output(["bash", "-c", command]).replace(self.port, PORT)

    def run(self, program: str) -> str:
        return self._output([sys.executable, "-c", program])

    def _output(self, words: list[str]) -> str:
        run = subprocess.run(
            words,
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert run.returncode == 0, f"{words[-1]}\n{run.stdout}"
        return run.stdout

    @contextmanager
    def _served(self, command: str) -> Iterator[str]:
        words = f"exec {command.rstrip(' &' + chr(10))} --port {self.port}"
        server = subprocess.Popen(
            ["bash", "-c", words],
            cwd=self.folder,
            env=self.environment,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert server.stderr is not None
        try:
            yield server.stderr.readline().replace(self.port, PORT)
        finally:
            server.terminate()
            server.communicate()


class QuickTerminal(Terminal):
    """The same without a process for every `nqg`; it must be the current folder of this one."""

    __slots__ = ()

    def typed(self, command: str) -> str:
        if (
            not command.startswith("nqg ")
            or command.startswith("nqg serve")
            or SHELL.search(command)
        ):
            return super().typed(command)
        try:
            with one_thread():
                found = typed(*shlex.split(command, comments=True)[1:])
        except NqgError as error:
            return f"error: {error}\n"
        assert found.exit_code == 0, f"{command}\n{found.output}"
        return found.output
