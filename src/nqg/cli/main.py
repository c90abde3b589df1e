"""`nqg`: collects the verbs, and turns errors into one line and an exit code (1 failed, 2 misused)."""

from __future__ import annotations

import sys

import typer

from nqg import __version__
from nqg.cli.audit import audit
from nqg.cli.data import app as data
from nqg.cli.demo import demo
from nqg.cli.evaluate import evaluate
from nqg.cli.induce import induce
from nqg.cli.init import init
from nqg.cli.inspect import inspect
from nqg.cli.parse import parse
from nqg.cli.report import report
from nqg.cli.reproduce import reproduce
from nqg.cli.serve import serve
from nqg.cli.split import app as split
from nqg.cli.terminal import complain
from nqg.cli.train import train
from nqg.errors import NqgError

app = typer.Typer(
    name="nqg",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(demo)
app.command()(init)
app.add_typer(data, name="data")
app.add_typer(split, name="split")
app.command()(audit)
app.command()(induce)
app.command()(inspect)
app.command()(train)
app.command()(parse)
app.command()(evaluate)
app.command()(serve)
app.command()(reproduce)
app.command()(report)


def _show_version(asked: bool) -> None:
    if asked:
        print(f"nqg {__version__}")
        raise typer.Exit(0)


@app.callback()
def root(
    version: bool = typer.Option(
        False, "--version", callback=_show_version, is_eager=True, help="Print the version and stop."
    ),
) -> None:
    """Turn sentences into programs with a grammar learned from pairs of strings."""


def main() -> None:
    """Run the command line; a user's mistake is one line on stderr, never a traceback."""
    try:
        app()
    except NqgError as error:
        complain(str(error))
        sys.exit(error.exit_code)
    except BrokenPipeError:
        sys.stderr.close()  # the reader of our output went away, as `| head` does
        sys.exit(1)
