"""`nqg`: the table of commands, each imported when it runs; errors become one line and an exit code."""

from __future__ import annotations

import gc
import os
import shutil
import sys
import time
import traceback
from collections.abc import Sequence
from importlib import import_module
from io import TextIOWrapper
from typing import Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup

from nqg import __version__
from nqg.cli.terminal import complain, detail, details, err, interruptible
from nqg.errors import FAILED, NqgError

WIDEST = 100  # columns of a help page; longer lines are hard to read
VOLUME = ("-q", "--quiet", "-v", "--verbose")


class Listed(NamedTuple):
    """A command that is not loaded yet; its module holds a function, or a group of commands, of the command's name."""

    module: str
    panel: str
    help: str


COMMANDS = {
    "demo": Listed("demo", "Start here", "Learn SCAN's short commands and parse its long ones; offline, in seconds."),
    "init": Listed("demo", "Start here", "Create a starter project: example pairs, settings, next commands."),
    "data": Listed("data", "Data", "List and prepare the datasets that nqg knows by name."),
    "split": Listed("split", "Data", "Divide a dataset into train and test: random, length, template or tmcd."),
    "audit": Listed("split", "Data", "Measure splits: sizes, unseen atoms, divergences, shared templates, lengths."),
    "check": Listed("check", "Data", "Check training data: faults with their lines, and what to expect of it."),
    "induce": Listed("induce", "Learn", "Learn the smallest grammar that explains pairs of strings."),
    "types": Listed("types", "Learn", "Infer a grammar of the programs in a dataset, or hold one against them."),
    "inspect": Listed("inspect", "Learn", "Show what a grammar is made of and how well it fits a dataset."),
    "sample": Listed("sample", "Learn", "Draw pairs of sentences and programs from a grammar."),
    "train": Listed("train", "Learn", "Train a parser: a grammar, and a model that ranks its derivations."),
    "rule": Listed("rule", "Learn", "Add rules written by hand to a model, list and remove them."),
    "parse": Listed("parse", "Use", "Turn sentences into programs with a trained model."),
    "evaluate": Listed("evaluate", "Use", "Measure how many examples a model answers, and how many correctly."),
    "serve": Listed("serve", "Use", "Serve a trained model: a web page to try it, and a JSON API."),
    "suggest": Listed("suggest", "Use", "Suggest which sentences to annotate next: those that would teach most."),
    "verify": Listed("verify", "Use", "Check that a model folder is whole, and print what it promises and its digest."),
    "reproduce": Listed("reproduce", "Experiments", "Run recipes and compare the results with the paper's."),
    "report": Listed("reproduce", "Experiments", "Print the paper's tables with our results beside the paper's."),
}


def load_command(name: str) -> Any:
    gc.disable()  # imports make no garbage, and looking for some takes a seventh of the time of `nqg parse`
    try:
        found = getattr(import_module(f"nqg.cli.{COMMANDS[name].module}"), name)
    finally:
        gc.freeze()
        gc.enable()
    if not isinstance(found, typer.Typer):
        app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="rich")
        app.command(name)(found)
        found = app
    return typer.main.get_command(found)


class LazyCommands(TyperGroup):
    """Lists all commands without importing them; Ctrl-C ends any of them with one line."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        for name, entry in COMMANDS.items():
            self.add_command(TyperCommand(name, help=entry.help, rich_help_panel=entry.panel))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, listed, rest = super().resolve_command(ctx, args)
        return name, listed and load_command(args[0]), rest

    def invoke(self, ctx: Any) -> Any:
        with interruptible():
            return super().invoke(ctx)


app = typer.Typer(
    name="nqg",
    cls=LazyCommands,
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def print_version(wanted: bool) -> None:
    if wanted:
        print(f"nqg {__version__}")
        raise typer.Exit(0)


@app.callback()
def root(
    context: typer.Context,
    quiet: bool = typer.Option(False, "-q", "--quiet", metavar="", help="Print only results and errors."),
    verbose: bool = typer.Option(
        False, "-v", "--verbose", metavar="", help="Print more on stderr: settings, time, the traceback of an error."
    ),
    version: bool = typer.Option(
        False, "--version", metavar="", callback=print_version, is_eager=True, help="Print the version and exit."
    ),
) -> None:
    """Turn sentences into programs with a grammar learned from pairs of strings.

    Example: nqg init mine

    Every command has an example in its help, as in `nqg train --help`. -q and -v
    may stand anywhere. Results go to stdout, everything else to stderr. The exit
    code is 0 for success, 1 for failure, 2 for misuse, 130 for interrupted.
    """
    err.quiet, details.quiet = quiet, quiet or not verbose
    started = time.monotonic()
    context.call_on_close(lambda: detail(f"{context.invoked_subcommand} took {time.monotonic() - started:.1f} s"))


def main() -> None:
    """Run the command line; a user's mistake is one line on stderr, never a traceback."""
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # an argument in another encoding comes out again somehow
    columns = min(shutil.get_terminal_size((WIDEST, 24)).columns, WIDEST)
    os.environ.setdefault("TERMINAL_WIDTH", str(columns))  # which Typer's help reads
    try:
        app(hoisted(sys.argv[1:]))
    except BrokenPipeError:
        sys.stderr.close()  # the reader of our output went away, as `| head` does
        sys.exit(FAILED)
    except (NqgError, OSError) as error:
        if not details.quiet:
            traceback.print_exc()
        if isinstance(error, NqgError):
            complain(str(error))
            sys.exit(error.exit_code)
        complain(f"{error.filename or 'a file'}: {error.strerror or error}")
        sys.exit(FAILED)


def hoisted(words: Sequence[str]) -> list[str]:
    """`words` with the options for quiet and verbose before the command, wherever they stood.

    >>> hoisted(["parse", "models/mine", "walk twice", "-q"])
    ['-q', 'parse', 'models/mine', 'walk twice']
    """
    end = words.index("--") if "--" in words else len(words)
    first = [word for word in words[:end] if word in VOLUME]
    return [*first, *(word for word in words[:end] if word not in VOLUME), *words[end:]]
