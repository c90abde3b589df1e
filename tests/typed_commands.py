"""Commands as a user types them, for tests of the command line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from typer.testing import CliRunner, Result

from nqg.cli.main import app


def typed(*words: str, stdin: bytes | None = None) -> Result:
    """What `nqg WORDS…` does; errors come through as they are raised."""
    result = CliRunner().invoke(app, list(words), input=stdin)
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


@contextmanager
def one_thread() -> Iterator[None]:
    """A block in which torch computes on one thread, so that tests side by side do not wait for each other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def changed(*changes: str) -> list[str]:
    """The words that change settings of a command."""
    return [word for change in changes for word in ("--set", change)]
