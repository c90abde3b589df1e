"""`nqg`: the table of commands, each imported when it runs; errors become one line and an exit code."""

from __future__ import annotations

import gc
import os
import shutil
import sys
import time
import traceback
from collections.abc import Sequence
from io import TextIOWrapper
from typing import Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup

from nqg import __version__
from nqg.cli.terminal import complain, detail, details, err, interruptible, output
from nqg.errors import FAILED, NqgError
from nqg.extensions import load_extension

WIDEST = 100  # columns of a help page; longer lines are hard to read
ANYWHERE = (
    "-q",
    "--quiet",
    "-v",
    "--verbose",
    "--json",
)  # options that may also stand behind the command
EPILOG = "--json prints results as JSON, -q no notes, -v more of them; see `nqg --help`."
NO_JSON = ("demo", "plot", "sample", "serve")

RENAMED = {
    "audit": "check-split",
    "check": "check-data",
    "verify": "check-model",
    "inspect": "show-grammar",
}
RENAMED_OPTIONS = {
    "--dataset": "--data",
    "--errors": "--write-predictions, with --breakdown",
    "--exact": "--no-spell-correction",
    "--examples": "--data",
    "--held-out": "--dev",
    "--html": "-o FILE.html",
    "--keep-going": "--set types.skip_illegal=true",
    "--least-confidence": "--min-confidence",
    "--least-precision": "--set confidence.min_precision=P",
    "--like": "--preset",
    "--markdown": "-o FILE.md",
    "--mirror": "the variable NQG_DATA_MIRROR",
    "--name": "--allowed-host",
    "--number": "--count",
    "--predictions": "--write-predictions",
    "--plot": "`nqg plot FILE -o PICTURE`",
    "--predictions-from": "--score",
    "--seq2seq-batch-size": "--set fine_tuning.batch_size=N",
    "--seq2seq-steps": "--set fine_tuning.steps=N",
    "--trace": "--log",
    "--train": "--data",
    "--untyped": "--set model.typed=false of `nqg train`",
}
# Options that are settings now, by command and by the table of the setting.
SETTINGS: dict[str, dict[str, tuple[str, ...]]] = {
    "train": {
        "text.": ("casing", "programs", "sentences", "today"),
        "training.": (
            *("batch-size", "clip", "evaluate-every", "learned", "learning-rate", "patience"),
            *("precision", "warm-up", "weight-decay"),
        ),
        "confidence.": ("folds", "hold-out"),
        "run.": ("save-every", "tensorboard"),
    },
    "induce": {
        "induction.": (
            *(
                "balanced",
                "bare-targets",
                "data-weight",
                "factoring",
                "fitted",
                "frame",
                "identity-rules",
            ),
            *(
                "lexical",
                "minimum-gain",
                "non-terminal-bits",
                "pruning",
                "repeated-targets",
                "returning",
            ),
            *("sample", "shortest", "stages", "terminal-bits"),
        ),
    },
    "split": {"": ("max-atom-divergence", "method", "moves", "restarts", "seconds", "tolerance")},
    "sample": {"": ("depth", "explore", "per-target", "smoothing")},
}


class Listed(NamedTuple):
    """A command that is not loaded yet; its module holds a function, or a group of commands, of its name.

    In the name of a function, an underscore stands for a hyphen.
    """

    module: str
    panel: str
    help: str


COMMANDS = {
    "demo": Listed(
        "project_commands",
        "Start here",
        "Learn SCAN's short commands and parse its long ones; offline, in seconds.",
    ),
    "init": Listed(
        "project_commands",
        "Start here",
        "Create a starter project: example pairs, settings, next commands.",
    ),
    "data": Listed(
        "nqg.paper.data_command", "Data", "List and prepare the datasets that nqg knows by name."
    ),
    "split": Listed(
        "split", "Data", "Divide a dataset into train and test: random, length, template or tmcd."
    ),
    "check-split": Listed(
        "split",
        "Data",
        "Measure splits: sizes, unseen atoms, divergences, shared templates, lengths.",
    ),
    "check-data": Listed(
        "project_commands",
        "Data",
        "Check training data: faults with their lines, and what to expect of it.",
    ),
    "induce": Listed(
        "induce", "Learn", "Learn the smallest grammar that explains pairs of strings."
    ),
    "types": Listed(
        "grammar_commands",
        "Learn",
        "Infer a grammar of the programs in a dataset, or hold one against them.",
    ),
    "show-grammar": Listed(
        "grammar_commands",
        "Learn",
        "Show what a grammar is made of and how well it fits a dataset.",
    ),
    "sample": Listed(
        "grammar_commands", "Learn", "Draw pairs of sentences and programs from a grammar."
    ),
    "train": Listed(
        "train", "Learn", "Train a parser: a grammar, and a model that ranks its derivations."
    ),
    "rule": Listed(
        "grammar_commands", "Learn", "Add rules written by hand to a model, list and remove them."
    ),
    "parse": Listed("parse", "Use", "Turn sentences into programs with a trained model."),
    "evaluate": Listed(
        "evaluate", "Use", "Measure how many examples a model answers, and how many correctly."
    ),
    "serve": Listed(
        "nqg.web.serve", "Use", "Serve a trained model: a web page to try it, and a JSON API."
    ),
    "suggest": Listed(
        "project_commands",
        "Use",
        "Suggest which sentences to annotate next: those that would teach most.",
    ),
    "check-model": Listed(
        "project_commands",
        "Use",
        "Check that a model folder is whole, and print what it promises and its digest.",
    ),
    "reproduce": Listed(
        "nqg.paper.reproduce_command",
        "Experiments",
        "Run recipes and compare the results with the paper's.",
    ),
    "plot": Listed(
        "nqg.paper.plots",
        "Experiments",
        "Draw what another command wrote: a training, a search, splits, errors.",
    ),
    "report": Listed(
        "nqg.paper.reproduce_command",
        "Experiments",
        "Print the paper's tables with our results beside the paper's.",
    ),
}


def load_command(name: str) -> Any:
    gc.disable()  # imports make no garbage, and looking for some takes a seventh of the time of `nqg parse`
    try:
        module = COMMANDS[name].module
        path = module if "." in module else f"nqg.cli.{module}"
        found = load_extension(f"{path}:{name.replace('-', '_')}")
    finally:
        gc.freeze()
        gc.enable()
    if not isinstance(found, typer.Typer):
        app = typer.Typer(
            add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="rich"
        )
        app.command(name, epilog=EPILOG)(found)
        found = app
    return typer.main.get_command(found)


class LazyCommands(TyperGroup):
    """Lists all commands without importing them; Ctrl-C ends any of them with one line."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        for name, entry in COMMANDS.items():
            self.add_command(TyperCommand(name, help=entry.help, rich_help_panel=entry.panel))

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, hoisted(args))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args[0] in RENAMED:
            ctx.fail(f"`nqg {args[0]}` is now `nqg {RENAMED[args[0]]}`")
        name, listed, rest = super().resolve_command(ctx, args)
        if listed is None:  # completion of a name that is not whole yet
            return name, listed, rest
        command = load_command(args[0])
        check_renamed(ctx, command, rest)
        if ctx.params.get("as_json") and args[0] in NO_JSON:
            ctx.fail(f"`nqg {args[0]}` has no results to print as JSON; omit --json")
        return name, command, rest

    def invoke(self, ctx: Any) -> Any:
        with interruptible():
            return super().invoke(ctx)


def options_of(command: Any) -> set[str]:
    """The options of a command, or of all commands of a group."""
    options = {
        option for param in command.params for option in (*param.opts, *param.secondary_opts)
    }
    for method in getattr(command, "commands", {}).values():
        options |= options_of(method)
    return options


def check_renamed(ctx: Any, command: Any, words: Sequence[str]) -> None:
    """Refuse options by their old names with the new ones."""
    known = options_of(command)
    for word in before_dashes(words):
        option = word.partition("=")[0]
        if option in known or not option.startswith("--"):
            continue
        if option in RENAMED_OPTIONS:
            ctx.fail(f"{option} is now {RENAMED_OPTIONS[option]}")
        for table, names in SETTINGS.get(command.name, {}).items():
            if option[2:] in names:
                ctx.fail(f"{option} VALUE is now --set {table}{option[2:].replace('-', '_')}=VALUE")


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
    quiet: bool = typer.Option(
        False, "-q", "--quiet", metavar="", help="Print only results and errors."
    ),
    verbose: bool = typer.Option(
        False,
        "-v",
        "--verbose",
        metavar="",
        help="Print more on stderr: settings, time, the traceback of an error.",
    ),
    as_json: bool = typer.Option(False, "--json", metavar="", help="Print results as JSON."),
    version: bool = typer.Option(
        False,
        "--version",
        metavar="",
        callback=print_version,
        is_eager=True,
        help="Print the version and exit.",
    ),
) -> None:
    """Turn sentences into programs with a grammar learned from pairs of strings.

    Example: nqg init mine

    Every command has an example in its help, as in `nqg train --help`. -q, -v
    and --json may stand anywhere. Results go to stdout, everything else to
    stderr. The exit code is 0 for success, 1 for failure, 2 for misuse, 130 for
    interrupted.
    """
    err.quiet, details.quiet = quiet, quiet or not verbose
    output.as_json = as_json
    started = time.monotonic()
    context.call_on_close(
        lambda: detail(f"{context.invoked_subcommand} took {time.monotonic() - started:.1f} s")
    )


def main() -> None:
    """Run the command line; a user's mistake is one line on stderr, never a traceback."""
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(
            errors="backslashreplace"
        )  # an argument in another encoding comes out again somehow
    columns = min(shutil.get_terminal_size((WIDEST, 24)).columns, WIDEST)
    os.environ.setdefault("TERMINAL_WIDTH", str(columns))  # which Typer's help reads
    try:
        app(sys.argv[1:])
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
    """`words` with the options that may stand anywhere before the command, wherever they stood.

    >>> hoisted(["parse", "models/mine", "walk twice", "-q"])
    ['-q', 'parse', 'models/mine', 'walk twice']
    """
    options = [word for word in before_dashes(words) if word in ANYWHERE]
    others = [word for word in before_dashes(words) if word not in ANYWHERE]
    return [*options, *others, *words[len(options) + len(others) :]]


def before_dashes(words: Sequence[str]) -> Sequence[str]:
    """The words that can be options: those before `--`."""
    return words[: words.index("--")] if "--" in words else words
