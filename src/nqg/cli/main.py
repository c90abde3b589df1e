"""`nqg`: the table of commands, each imported when it runs; errors become one line."""

from __future__ import annotations

import gc
import os
import shutil
import sys
import time
import traceback
from io import TextIOWrapper
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup

from nqg import __version__
from nqg.cli.options import option
from nqg.cli.terminal import (
    complain,
    detail,
    details,
    end_at_interrupts,
    err,
    interruptible,
    output,
)
from nqg.errors import FAILED, NqgError
from nqg.extensions import load_extension, missing_extra

# The most columns of a help page; longer lines are hard to read.
WIDEST = 100
# Options that may also stand behind the command.
ANYWHERE = ("-q", "--quiet", "-v", "--verbose", "--json")
EPILOG = "Add --json for results as JSON, -q for fewer notes, -v for more of them."
NO_JSON = ("demo", "export", "plot", "sample", "serve")

# Old names are refused with the new ones.
RENAMED_COMMANDS = {
    "audit": "check-split",
    "check": "check-data",
    "verify": "check-model",
    "inspect": "show-grammar",
}
# Options that became a setting: of a table in the settings file of `nqg train`, or of its command
# (without a table). `--clip` is now `--set training.clip=VALUE`.
_SETTINGS_OF_TABLES = {
    "": """
        depth explore max-atom-divergence method moves per-target restarts
        seconds smoothing tolerance
    """,
    "confidence.": """
        folds hold-out
    """,
    "induction.": """
        balanced bare-targets data-weight factoring fitted frame identity-rules
        lexical minimum-gain non-terminal-bits pruning repeated-targets
        returning sample shortest stages terminal-bits
    """,
    "run.": """
        save-every
    """,
    "text.": """
        casing programs sentences today
    """,
    "training.": """
        batch-size clip evaluate-every learned learning-rate patience precision
        warm-up weight-decay
    """,
}
RENAMED_OPTIONS = {
    "--dataset": "--data",
    "--errors": "--write-predictions, with --breakdown",
    "--exact": "--no-spell-correction",
    "--examples": "--data",
    "--gate": "the default: both readers are combined where --seq2seq names one",
    "--held-out": "--dev",
    "--keep-going": "--set types.skip_illegal=true",
    "--least-confidence": "--min-confidence",
    "--least-precision": "--set confidence.least_precision=P",
    "--like": "--preset",
    "--markdown": "-o FILE.md",
    "--mirror": "the variable NQG_DATA_MIRROR",
    "--name": "--allowed-host",
    "--number": "--count",
    "--plot": "`nqg plot FILE -o PICTURE`",
    "--predictions": "--write-predictions",
    "--predictions-from": "--score",
    "--seq2seq-batch-size": "--set fine_tuning.batch_size=N",
    "--seq2seq-steps": "--set fine_tuning.steps=N",
    "--trace": "--log",
    "--train": "--data",
    "--untyped": "--set model.typed=false of `nqg train`",
}
for _table, _names in _SETTINGS_OF_TABLES.items():
    for _name in _names.split():
        _setting = f"{_table}{_name.replace('-', '_')}"
        RENAMED_OPTIONS[f"--{_name}"] = f"--set {_setting}=VALUE"


class Command(NamedTuple):
    """Where a command is, and how the list of all commands shows it."""

    module: str
    panel: str
    help: str


# Every command of a panel with its module and the first line of its help, so that the list of
# commands imports none of them. The module has a function or a Typer app of the command's name, in
# which an underscore stands for a hyphen.
_START_HERE = {
    "demo": (
        "project_commands",
        "Learn SCAN's short commands and parse its long ones; offline, in seconds.",
    ),
    "init": (
        "project_commands",
        "Create a starter project: example pairs, settings, next commands.",
    ),
}
_DATA = {
    "data": (
        "nqg.paper.data_command",
        "List and prepare the datasets that nqg knows by name.",
    ),
    "split": (
        "split",
        "Divide a dataset into train and test: random, length, template or tmcd.",
    ),
    "check-split": (
        "split",
        "Measure splits: sizes, unseen atoms, divergences, shared templates, lengths.",
    ),
    "check-data": (
        "check_data",
        "Check training data: faults with their lines, and what to expect of it.",
    ),
}
_LEARN = {
    "induce": ("induce", "Learn the smallest grammar that explains pairs of strings."),
    "types": (
        "grammar_commands",
        "Show the types of programs that training finds, or check a grammar.",
    ),
    "show-grammar": (
        "grammar_commands",
        "Show the size and the rules of a grammar, and how well it fits a dataset.",
    ),
    "sample": (
        "grammar_commands",
        "Draw pairs of sentences and programs from a grammar.",
    ),
    "train": (
        "train",
        "Train a parser: a grammar, and a model that ranks its derivations.",
    ),
    "rule": (
        "grammar_commands",
        "Add rules written by hand to a model; try, list and remove them.",
    ),
}
_USE = {
    "parse": ("parse", "Turn sentences into programs with a trained model."),
    "evaluate": (
        "evaluate",
        "Measure how many examples a model answers, and how many correctly.",
    ),
    "serve": (
        "nqg.web.serve",
        "Serve a trained model: a web page to try it, and a JSON API.",
    ),
    "suggest": (
        "model_commands",
        "Suggest which sentences to annotate next: those that would teach most.",
    ),
    "check-model": (
        "model_commands",
        "Check that a model folder is undamaged, and print its contents and digest.",
    ),
    "export": (
        "grammar_commands",
        "Write a model's types as a grammar for other decoders.",
    ),
}
_EXPERIMENTS = {
    "reproduce": (
        "nqg.paper.reproduce_command",
        "Run recipes and compare the results with the paper's.",
    ),
    "plot": (
        "nqg.paper.plots",
        "Draw what another command wrote: a training, a search, splits, errors.",
    ),
    "report": (
        "nqg.paper.reproduce_command",
        "Print the paper's tables with our results beside the paper's.",
    ),
}
_PANELS = {
    "Start here": _START_HERE,
    "Data": _DATA,
    "Learn": _LEARN,
    "Use": _USE,
    "Experiments": _EXPERIMENTS,
}
COMMANDS: dict[str, Command] = {}
for _panel, _commands in _PANELS.items():
    for _name, (_module, _help) in _commands.items():
        COMMANDS[_name] = Command(_module, _panel, _help)


def load_command(name: str) -> Any:
    """The command of a name, as Click knows it."""
    # Imports leave no garbage, and collecting it takes a seventh of the time of `nqg parse`.
    gc.disable()
    try:
        module = COMMANDS[name].module
        if "." not in module:
            module = f"nqg.cli.{module}"
        function = load_extension(f"{module}:{name.replace('-', '_')}", f"nqg {name}")
    finally:
        gc.freeze()
        gc.enable()
    if isinstance(function, typer.Typer):
        return typer.main.get_command(function)
    alone = typer.Typer(
        add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="rich"
    )
    alone.command(name, epilog=EPILOG)(function)
    return typer.main.get_command(alone)


class LazyCommands(TyperGroup):
    """Lists all commands without importing them; Ctrl-C ends any of them with one line."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        for name, command in COMMANDS.items():
            self.add_command(
                TyperCommand(name, help=command.help, rich_help_panel=command.panel)
            )

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, hoisted(args))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args[0] in RENAMED_COMMANDS:
            ctx.fail(f"`nqg {args[0]}` is now `nqg {RENAMED_COMMANDS[args[0]]}`")
        name, listed, rest = super().resolve_command(ctx, args)
        # A shell may complete a name that is not whole yet.
        if listed is None:
            return name, listed, rest
        if ctx.params.get("as_json") and args[0] in NO_JSON:
            ctx.fail(f"`nqg {args[0]}` has no results to print as JSON; omit --json")
        command = load_command(args[0])
        known_options = options_of(command)
        for word in rest:
            if word == "--":
                break
            old_name = word.partition("=")[0]
            if old_name in RENAMED_OPTIONS and old_name not in known_options:
                ctx.fail(f"{old_name} is now {RENAMED_OPTIONS[old_name]}")
        return name, command, rest

    def invoke(self, ctx: Any) -> Any:
        with interruptible():
            return super().invoke(ctx)


def options_of(command: Any) -> set[str]:
    """The options of a command, or of all commands of a group."""
    options: set[str] = set()
    for parameter in command.params:
        options.update(parameter.opts, parameter.secondary_opts)
    for member in getattr(command, "commands", {}).values():
        options |= options_of(member)
    return options


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


Verbose = Annotated[
    bool,
    option(
        "-v --verbose",
        "",
        "Print more on stderr: settings, time, the traceback of an error.",
    ),
]
Version = Annotated[
    bool,
    option(
        "--version",
        "",
        "Print the version and exit.",
        callback=print_version,
        is_eager=True,
    ),
]


@app.callback()
def root(
    context: typer.Context,
    quiet: Annotated[
        bool, option("-q --quiet", "", "Print only results and errors.")
    ] = False,
    verbose: Verbose = False,
    as_json: Annotated[bool, option("--json", "", "Print results as JSON.")] = False,
    version: Version = False,
) -> None:
    """Turn sentences into programs with a grammar learned from pairs of strings.

    Example: nqg init mine

    Every command has an example in its help, as in `nqg train --help`. -q, -v
    and --json may stand anywhere. Results go to stdout, everything else to
    stderr. The exit code is 0 for success, 1 for failure, 2 for misuse, 130 for
    interrupted.
    """
    # Consoles are shared by all commands of a process.
    err.quiet, details.quiet = quiet, quiet or not verbose
    output.as_json = as_json
    started = time.monotonic()
    context.call_on_close(
        lambda: detail(
            f"{context.invoked_subcommand} took {time.monotonic() - started:.1f} s"
        )
    )


def main() -> None:
    """Run the command line; a user's mistake is one line on stderr, never a traceback."""
    if isinstance(sys.stdout, TextIOWrapper):
        # An argument in another encoding is printed somehow.
        sys.stdout.reconfigure(errors="backslashreplace")
    columns = min(shutil.get_terminal_size((WIDEST, 24)).columns, WIDEST)
    # Typer reads the width of help pages from here.
    os.environ.setdefault("TERMINAL_WIDTH", str(columns))
    end_at_interrupts()
    try:
        app(sys.argv[1:])
    except BrokenPipeError:
        # The reader of our output went away, as `| head` does.
        sys.stderr.close()
        sys.exit(FAILED)
    except (NqgError, OSError, ModuleNotFoundError) as error:
        if not details.quiet:
            traceback.print_exc()
        # Mistakes of a user have their own exit code.
        if isinstance(error, NqgError):
            complain(str(error))
            sys.exit(error.exit_code)
        if isinstance(error, ModuleNotFoundError):
            # What a command loads only where it is asked for may need an extra, too.
            missing = missing_extra(error, "this command")
            if missing is None:
                raise
            complain(str(missing))
            sys.exit(missing.exit_code)
        complain(f"{error.filename or 'a file'}: {error.strerror or error}")
        sys.exit(FAILED)


def hoisted(words: list[str]) -> list[str]:
    """`words` with the options that may stand anywhere before the command; those behind `--` stay.

    >>> hoisted(["parse", "models/mine", "walk twice", "-q"])
    ['-q', 'parse', 'models/mine', 'walk twice']
    """
    end = words.index("--") if "--" in words else len(words)
    before = sorted(words[:end], key=lambda word: word not in ANYWHERE)
    return before + words[end:]
