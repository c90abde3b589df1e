"""Commands to begin with: `demo` and `init`."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Annotated

import torch
from rich.table import Table
from rich.text import Text

from nqg.cli.options import argument
from nqg.cli.terminal import (
    make_folder,
    new_table,
    out,
    print_results,
    tracked,
)
from nqg.cli.training_display import TrainingDisplay
from nqg.data.example import Example
from nqg.data.scan import length_split, scan_examples
from nqg.errors import NqgError
from nqg.evaluation.metrics import score
from nqg.files import write_text
from nqg.induction.corpus import shortest_first
from nqg.induction.search_log import StepRecord
from nqg.induction.settings import InductionSettings
from nqg.inference.explanation import drawn
from nqg.model.settings import TrainingSettings
from nqg.pipeline.grammar import search_grammar
from nqg.pipeline.run import Run
from nqg.pipeline.settings import NONE, ConfidenceSettings, TrainSettings, TypeSettings
from nqg.pipeline.train import train as train_system

# The demo learns from so few commands that nothing has to be compiled for it: rules from the shortest,
# and which of them to prefer from some of any length.
DEMO_SHORTEST = 300
DEMO_COMMANDS = 500
DEMO_SENTENCE = "walk twice after jump around left thrice"
NEXT = """
What next?
  nqg init my-parser                           a small project of your own to start from
  nqg train my-pairs.tsv -o models/mine        a parser for your own pairs: sentence, tab, program
  nqg parse models/mine "a sentence" --explain
  nqg --help                                   everything else
"""
STARTER_FILES = ("README.md", "nqg.toml", "test.tsv", "train.tsv")


def demo() -> None:
    """Learn SCAN's short commands and parse its long ones; offline, in seconds.

    Example: nqg demo

    Shows the steps of the search, the grammar that it ends with, the accuracy on
    commands longer than any in training, and how one of them was understood.
    """
    started = time.monotonic()
    examples = scan_examples()
    parts = length_split(examples).parts(examples)
    threads = torch.get_num_threads()
    # So small a model gains little from more threads, and loses much on a busy machine.
    torch.set_num_threads(1)
    training = TrainingSettings(steps=64, batch_size=32, learned=0.0, warm_up=16)
    try:
        lesson(parts.train, parts.test, training)
    finally:
        torch.set_num_threads(threads)
    _say(f"\nAll of this took {time.monotonic() - started:.0f} seconds.")
    _say(NEXT.rstrip())


def lesson(
    train: Sequence[Example], test: Sequence[Example], training: TrainingSettings
) -> None:
    """Induce a grammar from some commands of SCAN, train a parser with it, and try it on others."""
    _say(
        f"SCAN, length split: {len(train):,} commands to learn from, "
        f"{len(test):,} longer ones to test on.\n"
    )
    # Induce a grammar.
    records: list[StepRecord] = []
    shortest = shortest_first(train, DEMO_SHORTEST)
    _say(f"Rules for the {len(shortest)} shortest, fewer with every step:\n")
    with TrainingDisplay() as display:
        induction = InductionSettings.named("scan")
        induced = search_grammar(
            shortest, induction, run=Run(listener=display), on_step=records.append
        )
    out.print(_search_table(records))
    _say(f"\n{len(induced.grammar)} rules are left:\n")
    for rule in induced.grammar:
        _say(f"  {_arrowed(str(rule))}")
    # Train a parser that ranks its derivations.
    sampled = random.Random(0).sample(train, min(DEMO_COMMANDS, len(train)))
    settings = TrainSettings(
        types=TypeSettings(target_grammar=NONE),
        training=training,
        confidence=ConfidenceSettings(folds=0),
    )
    with TrainingDisplay() as display:
        parser = train_system(
            sampled, settings=settings, grammar=induced.grammar, listener=display
        )
    _say(
        f"\nA parser learned from {len(sampled)} commands which of their derivations to prefer."
    )
    # Try it on longer commands.
    answers = parser.answers(example.source for example in test)
    scores = score(
        [answer.target for answer in tracked(answers, "parsing", len(test))],
        [example.target for example in test],
    )
    _say(
        f"It gets {scores.right:,} of the {len(test):,} longer commands right "
        f"({scores.accuracy:.1%}), such as this one:\n"
    )
    reading = parser.parse(DEMO_SENTENCE).reading
    assert reading is not None, "every grammar of SCAN derives the demo's sentence"
    out.print(drawn(reading, out.width if out.is_terminal else None))
    _say(f"\n= {reading.target}")


def _search_table(records: Sequence[StepRecord]) -> Table:
    """The beginning of a search, the steps whose number is a power of two, and the last."""
    table = new_table("step", "rules", "bits", "new rule")
    for column in table.columns[:3]:
        column.justify = "right"
    for record in records:
        # A search may have very many steps, so most of them are left out.
        is_power_of_two = record.step & (record.step - 1) == 0
        if not is_power_of_two and record is not records[-1]:
            continue
        added = ", ".join(map(_arrowed, record.added)) or "(one less)"
        if record.step == 0:
            added = "(every command is a rule)"
        text = Text(added, no_wrap=True, overflow="ellipsis")
        bits = f"{record.length.total:,.0f}"
        table.add_row(str(record.step), f"{record.rules:,}", bits, text)
    return table


def _say(text: str) -> None:
    """Print whole words on each line of a terminal; elsewhere, lines as they are."""
    out.print(text, soft_wrap=not out.is_terminal)


def _arrowed(rule: str) -> str:
    return rule.replace(" ### ", " → ")


def init(
    folder: Annotated[Path, argument("FOLDER", "A new folder, or an empty one.")],
) -> None:
    """Create a starter project: example pairs, settings, next commands.

    Example: nqg init mine

    The pairs are commands for a home assistant and their programs: 150 for
    training, 60 for testing. Replace them with your own.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        advice = "choose another name for the project"
        raise NqgError(f"{folder} already exists and is not empty; {advice}")
    make_folder(folder)
    starter = resources.files("nqg.data").joinpath("starter")
    for name in STARTER_FILES:
        write_text(folder / name, starter.joinpath(name).read_text(encoding="utf-8"))
    next_commands = commands(folder)
    values = {"folder": str(folder), "files": STARTER_FILES, "commands": next_commands}
    wrote = f"wrote {folder} with {', '.join(STARTER_FILES)}; to go on:\n"
    print_results(values, wrote, *(f"  {line}" for line in next_commands))


def commands(folder: Path) -> list[str]:
    sentence = "could you turn off the lamp in the attic at midnight"
    return [
        f"nqg train {folder}/train.tsv --settings {folder}/nqg.toml -o {folder}/model",
        f"nqg evaluate {folder}/model {folder}/test.tsv --breakdown",
        f'nqg parse {folder}/model "{sentence}" --explain',
    ]
