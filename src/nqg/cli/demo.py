"""`nqg demo` and `nqg init`: the shortest ways to see what this is about, and to start; nothing to download."""

from __future__ import annotations

import time
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from threading import Event

import torch
import typer
from rich.table import Table
from rich.text import Text

from nqg.answers import exact_match
from nqg.cli.induce import search_line
from nqg.cli.parse import drawn
from nqg.cli.terminal import JSON, make_folder, out, tracked
from nqg.data.catalogue import load_dataset
from nqg.data.examples import Example
from nqg.errors import NqgError
from nqg.files import write_text
from nqg.grammar.grammar import Rule
from nqg.induction.induce import Induction
from nqg.induction.settings import InductionSettings
from nqg.inference.parser import Parser
from nqg.model.forests import PART_SIZE, forest_parts, joined
from nqg.model.settings import TrainingSettings

SENTENCE = "walk twice after jump around left thrice"
NEXT = """
What next?
  nqg init my-parser                           a small project of your own to start from
  nqg train my-pairs.tsv -o models/mine        a parser for your own pairs: sentence, tab, program
  nqg parse models/mine "a sentence" --explain
  nqg --help                                   everything else
"""
FILES = ("README.md", "nqg.toml", "test.tsv", "train.tsv")
FOLDER = typer.Argument(metavar="FOLDER", help="A new folder, or an empty one.", show_default=False)


def demo() -> None:
    """Learn SCAN's short commands and parse its long ones; offline, in seconds.

    Example: nqg demo

    Shows the steps of the search, the grammar that it ends with, the accuracy on
    commands longer than any in training, and how one of them was understood.
    """
    started = time.monotonic()
    train, test = load_dataset("scan").split("length")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # so small a model gains little from more, and loses much on a busy machine
    try:
        lesson(train, test, TrainingSettings(steps=128, batch_size=128, learned=0.0, warm_up=32))
    finally:
        torch.set_num_threads(threads)
    _say(f"\nAll of this took {time.monotonic() - started:.0f} seconds.")
    _say(NEXT.rstrip())


def lesson(train: Sequence[Example], test: Sequence[Example], training: TrainingSettings) -> None:
    """Induce a grammar from some commands of SCAN, train a parser with it, and try it on others."""
    _say(f"SCAN, length split: {len(train):,} commands to learn from, {len(test):,} longer ones to test on.\n")
    induction = Induction(train, InductionSettings.named("scan"))
    out.print(_search_table(induction))
    grammar = induction.grammar
    _say(f"\n{len(grammar)} rules are left:\n")
    for rule in grammar:
        _say(f"  {_arrowed(rule)}")
    parts = tracked(forest_parts(grammar, train), "building forests", -(-len(train) // PART_SIZE))
    trained = Parser.training(grammar, train, forests=joined(parts), training=training)
    for _ in tracked(trained.steps(), "training", training.steps):
        pass
    parser = Parser(trained.model)
    _say(f"\nA parser learned in {training.steps} steps which of their derivations to prefer.")
    answers = tracked(parser.answers(example.source for example in test), "parsing", len(test))
    right = sum(exact_match(answer.target, example.target) for answer, example in zip(answers, test, strict=True))
    _say(f"It gets {right:,} of the {len(test):,} longer commands right ({right / len(test):.1%}), such as this one:\n")
    reading = parser.parse(SENTENCE, marginals=True).reading
    assert reading is not None, "every grammar of SCAN derives the demo's sentence"
    out.print(drawn(reading, out.width if out.is_terminal else None))
    _say(f"\n= {' '.join(reading.target)}")


def _search_table(induction: Induction) -> Table:
    """Run the search; the steps whose number is a power of two, and the last."""
    table = Table("step", "rules", "bits", "new rule", box=None, pad_edge=False)
    for column in table.columns[:3]:
        column.justify = "right"
    table.add_row("0", f"{induction.searched_rules:,}", f"{induction.length.total:,.0f}", "(every command is a rule)")
    steps, started = [], time.monotonic()
    with search_line(Event()) as line:
        for step in induction.steps():
            line.show(step.phase, step.rules, step.length.total, time.monotonic() - started)
            steps.append(step)
    for number, step in enumerate(steps, start=1):
        if number & (number - 1) == 0 or number == len(steps):
            added = Text(", ".join(map(_arrowed, step.added)) or "(one less)", no_wrap=True, overflow="ellipsis")
            table.add_row(str(number), f"{step.rules:,}", f"{step.length.total:,.0f}", added)
    return table


def _say(text: str) -> None:
    """Print whole words on each line of a terminal; elsewhere, lines as they are."""
    out.print(text, soft_wrap=not out.is_terminal)


def _arrowed(rule: Rule) -> str:
    return str(rule).replace(" ### ", " → ")


def init(folder: Path = FOLDER, as_json: bool = JSON) -> None:
    """Create a starter project: example pairs, settings, next commands.

    Example: nqg init mine

    The pairs are commands for a home assistant and their programs: 150 for
    training, 60 for testing. Replace them with your own.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise NqgError(f"{folder} already exists and is not empty; choose another name for the project")
    make_folder(folder)
    for name in FILES:
        write_text(folder / name, resources.files("nqg.data").joinpath("starter", name).read_text(encoding="utf-8"))
    if as_json:
        out.print_json(data={"folder": str(folder), "files": list(FILES), "commands": commands(folder)})
        return
    out.print(f"wrote {folder} with {', '.join(FILES)}; to go on:\n")
    for line in commands(folder):
        out.print(f"  {line}")


def commands(folder: Path) -> list[str]:
    return [
        f"nqg train {folder}/train.tsv --settings {folder}/nqg.toml -o {folder}/model",
        f"nqg evaluate {folder}/model {folder}/test.tsv --breakdown",
        f'nqg parse {folder}/model "could you turn off the lamp in the attic at midnight" --explain',
    ]
