"""`nqg`: collects the verbs, and turns errors into one line and an exit code (1 failed, 2 misused, 130 interrupted)."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from io import TextIOWrapper
from typing import Any

import typer

from nqg import __version__
from nqg.cli.data import app as data
from nqg.cli.demo import demo, init
from nqg.cli.evaluate import evaluate
from nqg.cli.help_pages import Verb, Verbs
from nqg.cli.induce import induce
from nqg.cli.inspect import inspect
from nqg.cli.parse import parse
from nqg.cli.reproduce import report, reproduce
from nqg.cli.serve import serve
from nqg.cli.split import app as split
from nqg.cli.split import audit
from nqg.cli.terminal import Stopwatch, complain, detail, set_volume, volume
from nqg.cli.train import train
from nqg.errors import FAILED, NqgError

VERBS: dict[str, dict[str, typer.Typer | Callable[..., None]]] = {
    "Start here": {"demo": demo, "init": init},
    "Data": {"data": data, "split": split, "audit": audit},
    "Learn": {"induce": induce, "inspect": inspect, "train": train},
    "Use": {"parse": parse, "evaluate": evaluate, "serve": serve},
    "Experiments": {"reproduce": reproduce, "report": report},
}
VOLUME = ("-q", "--quiet", "-v", "--verbose")


class Root(Verbs):
    """All verbs, in the order in which a newcomer needs them."""

    def list_commands(self, ctx: Any) -> list[str]:
        """The names of the verbs."""
        return [name for verbs in VERBS.values() for name in verbs]


app = typer.Typer(
    name="nqg",
    cls=Root,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    subcommand_metavar="VERB ...",
    context_settings={"help_option_names": ["-h", "--help"]},
)
for panel, verbs in VERBS.items():
    for name, verb in verbs.items():
        if isinstance(verb, typer.Typer):
            app.add_typer(verb, name=name, rich_help_panel=panel)
        else:
            app.command(name, cls=Verb, rich_help_panel=panel)(verb)


def _show_version(asked: bool) -> None:
    if asked:
        print(f"nqg {__version__}")
        raise typer.Exit(0)


@app.callback()
def root(
    context: typer.Context,
    quiet: bool = typer.Option(False, "-q", "--quiet", help="Say nothing on stderr but errors."),
    verbose: bool = typer.Option(
        False, "-v", "--verbose", help="Say more on stderr: settings, time, the origin of an error."
    ),
    version: bool = typer.Option(
        False, "--version", callback=_show_version, is_eager=True, help="Print the version and stop."
    ),
) -> None:
    """Turn sentences into programs with a grammar learned from pairs of strings.

    Example: nqg init mine

    Every verb has an example in its help, as in `nqg train --help`. Results go to stdout, everything else to stderr;
    the exit code is 0 for done, 1 for failed, 2 for misused, 130 for interrupted.
    """
    set_volume(quiet=quiet, verbose=verbose)
    watch = Stopwatch()
    context.call_on_close(lambda: detail(f"{context.invoked_subcommand} took {watch.seconds:.1f} s"))


def main() -> None:
    """Run the command line; a user's mistake is one line on stderr, never a traceback."""
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # an argument in another encoding comes out again somehow
    try:
        app(hoisted(sys.argv[1:]))
    except NqgError as error:
        _fail(str(error), error.exit_code)
    except BrokenPipeError:
        sys.stderr.close()  # the reader of our output went away, as `| head` does
        sys.exit(FAILED)
    except OSError as error:
        _fail(f"{error.filename or 'a file'}: {error.strerror or error}", FAILED)


def hoisted(words: Sequence[str]) -> list[str]:
    """`words` with the options for quiet and verbose before the verb, wherever they stood.

    >>> hoisted(["parse", "models/mine", "walk twice", "-q"])
    ['-q', 'parse', 'models/mine', 'walk twice']
    """
    end = words.index("--") if "--" in words else len(words)
    first = [word for word in words[:end] if word in VOLUME]
    return [*first, *(word for word in words[:end] if word not in VOLUME), *words[end:]]


def _fail(message: str, exit_code: int) -> None:
    if volume.is_high:
        import traceback

        traceback.print_exc()
    complain(message)
    sys.exit(exit_code)
