"""The help of every verb, in one layout: how it is called, what it does, an example, then its options by topic."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from nqg.cli.terminal import STOPPED, complain

WIDEST = 100  # columns; longer lines are hard to read
ARGUMENTS, OPTIONS, VERBS = "Arguments", "Options", "Verbs"
EVERYWHERE = ("quiet", "verbose")  # options of the root that may stand behind every verb


@dataclass(frozen=True, slots=True)
class Entry:
    """A line of a page: an argument, an option or a verb, and what is said of it."""

    panel: str
    label: str
    words: str

    def lines(self, column: int, width: int) -> Iterator[str]:
        """The label, and from `column` on the words; a label that is too long has a line of its own.

        >>> list(Entry("Options", "-o, --output FILE", "Where to write.").lines(22, 100))
        ['  -o, --output FILE   Where to write.']
        """
        label = f"  {self.label}"
        if len(label) + 2 > column:
            yield label
            label = ""
        yield from _wrapped(self.words, width, label.ljust(column), " " * column)


def help_page(command: Any, context: typer.Context, width: int) -> str:
    """The help of a verb or of a group of verbs."""
    usage = " ".join([context.command_path, *usage_pieces(command, context)])
    paragraphs = [" ".join(part.split()) for part in (command.help or "").split("\n\n")]
    texts = ["\n".join(_wrapped(part, width)) for part in paragraphs]
    entries = list(_entries(command, context))
    column = min(max(len(entry.label) for entry in entries) + 4, 34)
    return "\n\n".join([f"Usage: {usage}", *texts, *_sections(entries, column, width)]) + "\n"


def usage_pieces(command: Any, context: typer.Context) -> list[str]:
    """What follows the name of a command: its arguments, the options that it cannot do without, the others."""
    arguments = [_argument(param) for param in command.params if param.param_type_name == "argument"]
    needed = [f"{param.opts[0]} {param.metavar}" for param in command.params if _is_needed_option(param)]
    verbs = [command.subcommand_metavar] if isinstance(command, TyperGroup) else []
    return [*arguments, *needed, "[OPTIONS]", *verbs]


def _argument(param: Any) -> str:
    name = param.metavar or param.name.upper()
    return name if param.required or name.startswith("[") else f"[{name}]"


def _is_needed_option(param: Any) -> bool:
    return bool(param.required) and param.param_type_name == "option"


def _wrapped(text: str, width: int, first: str = "", later: str = "") -> list[str]:
    return textwrap.wrap(
        text, width, initial_indent=first, subsequent_indent=later, break_on_hyphens=False, break_long_words=False
    )


def _sections(entries: list[Entry], column: int, width: int) -> Iterator[str]:
    """The entries under the headings of their panels; those of no special one come last."""
    panels = list(dict.fromkeys(entry.panel for entry in entries))
    for panel in sorted(panels, key=lambda panel: (panel == OPTIONS, panels.index(panel))):
        lines = (line for entry in entries if entry.panel == panel for line in entry.lines(column, width))
        yield "\n".join([typer.style(panel, bold=True), *lines])


def _entries(command: Any, context: typer.Context) -> Iterator[Entry]:
    params = [param for param in command.get_params(context) if not getattr(param, "hidden", False)]
    yield from (_argument_entry(param) for param in params if param.param_type_name == "argument")
    if isinstance(command, TyperGroup):
        yield from _verb_entries(command, context)
    yield from (_option_entry(param) for param in params if param.param_type_name == "option")
    if context.parent:
        root: Any = context.find_root().command
        yield from (_option_entry(param) for param in root.params if param.name in EVERYWHERE)


def _argument_entry(param: Any) -> Entry:
    return Entry(ARGUMENTS, param.metavar or param.name.upper(), f"{param.help}{_default(param)}")


def _option_entry(param: Any) -> Entry:
    names = ", ".join(sorted(param.opts, key=len))
    if param.secondary_opts:
        names = names.replace("--", "--[no-]")
    value = "" if param.is_flag else f" {param.metavar or param.name.upper()}"
    needed = " Required." if param.required else ""
    variable = f" Also: ${param.envvar}." if param.envvar else ""
    words = f"{param.help}{needed}{_default(param)}{variable}"
    return Entry(getattr(param, "rich_help_panel", None) or OPTIONS, names + value, words)


def _default(param: Any) -> str:
    """The default in words; a flag that is not set and a list that is empty need none."""
    has_one = not (param.default is None or param.default is False or param.default == [])
    return f" Default: {param.default}." if has_one and param.show_default and not param.required else ""


def _verb_entries(group: Any, context: typer.Context) -> Iterator[Entry]:
    for name in group.list_commands(context):
        verb = group.get_command(context, name)
        summary = " ".join((verb.help or "").split("\n\n")[0].split())
        yield Entry(getattr(verb, "rich_help_panel", None) or VERBS, name, summary)


def _terminal_width() -> int:
    return min(shutil.get_terminal_size((WIDEST, 24)).columns, WIDEST)


class Verb(TyperCommand):
    """A command whose help is one of our pages."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the page of this verb."""
        formatter.write(help_page(self, ctx, _terminal_width()))

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """The line that errors show."""
        return usage_pieces(self, ctx)


class Verbs(TyperGroup):
    """A group of commands whose help is one of our pages, and which Ctrl-C ends with one line."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the page of this group."""
        formatter.write(help_page(self, ctx, _terminal_width()))

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """The line that errors show."""
        return usage_pieces(self, ctx)

    def invoke(self, ctx: Any) -> Any:
        """Run the verb that was asked for."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            complain("interrupted")
            raise typer.Exit(STOPPED) from None
