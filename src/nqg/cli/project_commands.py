"""Commands about a project: `demo`, `init` and `check-data`."""

from __future__ import annotations

import random
import time
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Annotated

import torch
import typer
from rich.table import Table
from rich.text import Text

from nqg.cli import terminal
from nqg.cli.options import SettingsFile, TrainFile, argument, option
from nqg.cli.terminal import (
    err,
    make_folder,
    new_table,
    out,
    print_results,
    tracked,
)
from nqg.cli.training_display import TrainingDisplay
from nqg.data.example import Example, distinct_pairs, in_scope
from nqg.data.example_files import first_line, required_examples
from nqg.data.scan import length_split, scan_examples
from nqg.errors import FAILED, NqgError, SettingsError, counted
from nqg.evaluation.data_checks import (
    SERIOUS,
    Flaw,
    expected_derivability,
    flaws,
    singletons,
)
from nqg.evaluation.metrics import score
from nqg.files import write_text
from nqg.induction.corpus import shortest_first
from nqg.induction.search_log import StepRecord
from nqg.induction.settings import InductionSettings
from nqg.inference.explanation import drawn
from nqg.model.settings import TrainingSettings
from nqg.pipeline.advice import slot_steps
from nqg.pipeline.grammar import search_grammar
from nqg.pipeline.run import Run
from nqg.pipeline.settings import NONE, ConfidenceSettings, TrainSettings, TypeSettings
from nqg.pipeline.train import train as train_system
from nqg.preprocessing.preprocessor import Preprocessor
from nqg.preprocessing.training_text import fit_text, tokenized

FEW_DERIVABLE = (
    "show each construction two or three times, with different words: docs/your-data.md"
)
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
# People are shown so many flaws, and so many words of one line.
SHOWN_FLAWS = 20
SHOWN_SINGLETONS = 10
# What one line alone shows, by the key of `singletons`: what it is, and what holds it.
SINGLETONS = {
    "words": ("word", "sentence"),
    "program_words": ("word", "program"),
    "templates": ("construction", "program"),
}


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


def check_data(
    data: TrainFile,
    settings: SettingsFile = None,
    folds: Annotated[
        int,
        option(
            "--folds",
            "K",
            "Estimate coverage on K parts, each held out in turn; 0: do not.",
            min=0,
        ),
    ] = 4,
) -> None:
    """Check training data: faults with their lines, and what to expect of it.

    Example: nqg check-data train.tsv

    Faults are headings, unbalanced brackets, sentences with two programs, and
    duplicates. Words and templates that only one line shows are listed: show them
    twice. With --folds, a part of the data is held out, and a grammar is learned
    from the rest. The share of the part that it derives is an estimate for new
    sentences of the same kind. Codes, closed lists and words that stand for
    values (euros for EUR) are proposed as slots, in lines to paste. The exit
    code is 1 if there are faults other than duplicates.
    """
    # Check the lines one by one, and then what they teach together.
    chosen = TrainSettings.read(settings) if settings else TrainSettings()
    pairs = required_examples(data, allows_out_of_scope=True)
    # Equal pairs teach the same, however many they are.
    distinct = distinct_pairs(pairs)
    raw = in_scope(distinct)
    text = fit_text(raw, chosen.text, chosen.slots, settings)
    # Lines count sentences out of scope, too, and the heading of a .csv file.
    start = first_line(data)
    found = flaws(pairs, _tokens_of_all(pairs, distinct, text))
    faults = [flaw._replace(line=flaw.line + start - 1) for flaw in found]
    single = _lines_of_singletons(pairs, start, raw, text)
    derivable = _derivable_share(raw, text, folds) if folds else None

    # Tell people the beginning of each list, and programs everything.
    lines = _flaw_lines(data, faults)
    others = sum(pair.is_out_of_scope for pair in pairs)
    count = len(pairs) - others
    outside = f", {others:,} sentences out of scope" if others else ""
    lines.append(f"{counted(count, 'example')}{outside}, {len(faults):,} with a fault")
    for kind, lines_of_items in single.items():
        if lines_of_items:
            lines.append(_singleton_line(kind, lines_of_items))
    if derivable is not None:
        share = f"{100 * derivable:.1f} % of examples"
        lines.append(f"{share} are derivable with a grammar of the others")
        if derivable < 0.5:
            lines.append(FEW_DERIVABLE)
    slot_lines: list[str] = []
    for step in slot_steps(raw, text.slots.slots):
        lines.append(str(step))
        slot_lines += step.lines
    listed = [flaw._asdict() for flaw in faults] if terminal.output.as_json else []
    values = {
        "examples": count,
        "out_of_scope": others,
        "flaws": listed,
        **single,
        "derivable": derivable,
        "slots": slot_lines,
    }
    print_results(values, *lines)
    for flaw in faults:
        if flaw.kind in SERIOUS:
            raise typer.Exit(FAILED)


def _flaw_lines(data: Path, faults: Sequence[Flaw]) -> list[str]:
    """The first faults, a line each, and how many more there are."""
    lines = [f"{data}:{flaw.line}: {flaw}" for flaw in faults[:SHOWN_FLAWS]]
    if len(faults) > SHOWN_FLAWS:
        lines.append(f"… and {len(faults) - SHOWN_FLAWS:,} more; --json lists all")
    return lines


def _lines_of_singletons(
    pairs: Sequence[Example], start: int, raw: Sequence[Example], text: Preprocessor
) -> dict[str, dict[str, int]]:
    """The line of each item that one of the distinct pairs `raw` alone has; lines count from
    `start`.
    """
    first_lines: dict[tuple[str, str], int] = {}
    for line, pair in enumerate(pairs, start):
        first_lines.setdefault((pair.source, pair.target), line)
    lines: dict[str, dict[str, int]] = {}
    for kind, items in singletons(raw, text).items():
        lines[kind] = {}
        for item, number in items.items():
            pair = raw[number - 1]
            lines[kind][item] = first_lines[pair.source, pair.target]
    return lines


def _tokens_of_all(
    pairs: Sequence[Example], distinct: Sequence[Example], text: Preprocessor
) -> list[Example]:
    """The tokens of each pair; equal pairs are tokenised once."""
    tokens_of: dict[tuple[str, str], Example] = {}
    for pair, tokens in zip(distinct, tokenized(distinct, text)):
        tokens_of[pair.source, pair.target] = tokens
    return [tokens_of[pair.source, pair.target] for pair in pairs]


def _derivable_share(
    examples: Sequence[Example], text: Preprocessor, folds: int
) -> float | None:
    """The share of held-out examples that grammars derive; None where nothing can be held out."""
    grammars = expected_derivability(examples, text, folds)
    try:
        shares = list(tracked(grammars, "inducing grammars of folds", folds))
    except SettingsError as error:
        # The examples are too few, or too much alike.
        err.print(f"nothing can be held out: {error}")
        return None
    return sum(shares) / len(shares)


def _singleton_line(kind: str, lines: Mapping[str, int]) -> str:
    """What is told of items that one line alone shows."""
    noun, holder = SINGLETONS[kind]
    items = [f"{item} (line {line})" for item, line in lines.items()]
    if len(items) > SHOWN_SINGLETONS:
        items[SHOWN_SINGLETONS:] = ["… (--json lists all)"]
    return (
        f"{counted(len(lines), noun)} that one {holder} alone has: {', '.join(items)}"
    )
