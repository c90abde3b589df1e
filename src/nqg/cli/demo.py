"""`nqg demo`: the shortest way to see what this is about; nothing to download."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.table import Table
from rich.text import Text

from nqg.cli.induction_run import StopRequest, search_line
from nqg.cli.terminal import Stopwatch, out, tracked
from nqg.errors import NqgError
from nqg.files import write_text

if TYPE_CHECKING:
    from nqg.data.examples import Example
    from nqg.grammar.grammar import Grammar
    from nqg.grammar.rule import Rule
    from nqg.induction.induce import Induction, Step
    from nqg.inference.parser import Parser
    from nqg.model.settings import TrainingSettings


SENTENCE = "walk twice after jump around left thrice"
NEXT = """
What next?
  nqg init my-parser                           a small project of your own to start from
  nqg train my-pairs.tsv -o models/mine        a parser for pairs of yours: sentence, tab, program
  nqg parse models/mine "a sentence" --explain
  nqg --help                                   everything else
"""


def demo() -> None:
    """Learn SCAN's short commands and parse its long ones; offline, two minutes.

    Example: nqg demo

    Shows the steps of the search, the grammar that it ends with, the accuracy on
    commands longer than any in training, and how one of them was understood.
    """
    from nqg import load_dataset
    from nqg.model.settings import TrainingSettings

    watch = Stopwatch()
    train, test = load_dataset("scan").split("length")
    with _one_thread():
        lesson(train, test, TrainingSettings(steps=128, batch_size=128, warm_up=32))
    _say(f"\nAll of this took {watch.seconds:.0f} seconds.")
    _say(NEXT.rstrip())


@contextmanager
def _one_thread() -> Iterator[None]:
    """Let torch compute in one thread: so small a model gains little from more, and loses much on a busy machine."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def lesson(train: Sequence[Example], test: Sequence[Example], training: TrainingSettings) -> None:
    """Induce a grammar from some commands of SCAN, train a parser with it, and try it on others."""
    from nqg import Induction, InductionSettings

    _say(f"SCAN, length split: {len(train):,} commands to learn from, {len(test):,} longer ones to test on.\n")
    induction = Induction(train, InductionSettings.named("scan"))
    out.print(_steps_table(induction))
    grammar = induction.grammar
    _say(f"\n{len(grammar)} rules are left:\n")
    for rule in grammar:
        _say(f"  {_arrowed(rule)}")
    parser = _trained(grammar, train, training)
    _say(f"\nA parser learned in {training.steps} steps which of their derivations to prefer.")
    right = _right(parser, test)
    _say(f"It gets {right:,} of the {len(test):,} longer commands right ({right / len(test):.1%}), such as this one:\n")
    _show_derivation(parser)


def _trained(grammar: Grammar, train: Sequence[Example], training: TrainingSettings) -> Parser:
    from nqg.inference.fitting import Fitting
    from nqg.model.forests import PART_SIZE, forest_parts, joined

    parts = tracked(forest_parts(grammar, train), "building forests", -(-len(train) // PART_SIZE))
    fitting = Fitting(grammar, train, forests=joined(parts), training=training)
    for _ in tracked(fitting.steps(), "training", training.steps):
        pass
    return fitting.parser


def _right(parser: Parser, test: Sequence[Example]) -> int:
    """How many examples the parser gets right."""
    from nqg.answers import exact_match

    answers = tracked(parser.answers(example.source for example in test), "parsing", len(test))
    return sum(exact_match(answer.target, example.target) for answer, example in zip(answers, test, strict=True))


def _steps_table(induction: Induction) -> Table:
    """Run the search; the steps whose number is a power of two, and the last."""
    table = Table("step", "rules", "bits", "new rule", box=None, pad_edge=False)
    for column in table.columns[:3]:
        column.justify = "right"
    table.add_row("0", f"{induction.searched_rules:,}", f"{induction.length.total:,.0f}", "(every command is a rule)")
    steps = _watched(induction)
    for number, step in enumerate(steps, start=1):
        if number & (number - 1) == 0 or number == len(steps):
            table.add_row(str(number), f"{step.rules:,}", f"{step.length.total:,.0f}", _added(step))
    return table


def _watched(induction: Induction) -> list[Step]:
    steps, watch = [], Stopwatch()
    with search_line(StopRequest()) as line:
        for step in induction.steps():
            line.show(step.phase, step.rules, step.length.total, watch.seconds)
            steps.append(step)
    return steps


def _say(text: str) -> None:
    """Print whole words a line; where there is no terminal, lines as they are."""
    if out.is_terminal:
        out.print(text, soft_wrap=False)
    else:
        out.print(text)


def _added(step: Step) -> Text:
    return Text(", ".join(map(_arrowed, step.added)) or "(one less)", no_wrap=True, overflow="ellipsis")


def _arrowed(rule: Rule) -> str:
    return str(rule).replace(" ### ", " → ")


def _show_derivation(parser: Parser) -> None:
    from nqg.cli.drawing import drawn

    reading = parser.parse(SENTENCE, marginals=True).reading
    assert reading is not None, "every grammar of SCAN derives the demo's sentence"
    out.print(drawn(reading, out.width if out.is_terminal else None))
    _say(f"\n= {' '.join(reading.target)}")


FILES = ("README.md", "nqg.toml", "test.tsv", "train.tsv")

FOLDER = typer.Argument(metavar="FOLDER", help="A new folder, or an empty one.", show_default=False)
JSON = typer.Option(False, "--json", metavar="", help="Print JSON.")


def init(folder: Path = FOLDER, as_json: bool = JSON) -> None:
    """Create a starter project: example pairs, settings, next commands.

    Example: nqg init mine

    The pairs are commands for a home assistant and their programs: 150 for
    training, 60 for testing. Replace them with your own.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise NqgError(f"{folder} is there already and not empty; choose another name for the project")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise NqgError(f"{folder}: cannot be made ({error.strerror})") from error
    for name in FILES:
        write_text(folder / name, resources.files("nqg.data").joinpath("starter", name).read_text(encoding="utf-8"))
    if as_json:
        out.print_json(data={"folder": str(folder), "files": list(FILES), "commands": commands(folder)})
        return
    out.print(f"wrote {folder} with {', '.join(FILES)}; to go on:\n")
    for line in commands(folder):
        out.print(f"  {line}")


def commands(folder: Path) -> list[str]:
    """What a newcomer types next."""
    return [
        f"nqg train {folder}/train.tsv --settings {folder}/nqg.toml -o {folder}/model",
        f"nqg evaluate {folder}/model {folder}/test.tsv --breakdown",
        f'nqg parse {folder}/model "could you turn off the lamp in the attic at midnight" --explain',
    ]
