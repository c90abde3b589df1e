"""`nqg check-data`: faults of training data, and what to expect of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Self

import typer

from nqg.cli import terminal
from nqg.cli.options import SettingsFile, TrainFile, option
from nqg.cli.terminal import err, print_results, tracked
from nqg.data.example import Example, distinct_pairs, in_scope
from nqg.data.example_files import first_line, required_examples
from nqg.errors import FAILED, SettingsError, counted
from nqg.evaluation.data_checks import (
    SERIOUS,
    Flaw,
    expected_derivability,
    flaws,
    singletons,
)
from nqg.pipeline.advice import slot_steps
from nqg.pipeline.settings import TrainSettings
from nqg.preprocessing.preprocessor import Preprocessor
from nqg.preprocessing.training_text import fit_text, tokenized

FEW_DERIVABLE = (
    "show each construction two or three times, with different words: docs/your-data.md"
)
# People are shown so many flaws, and so many words of one line.
SHOWN_FLAWS = 20
SHOWN_SINGLETONS = 10
# What one line alone shows, by the key of `singletons`: what it is, and what holds it.
SINGLETONS = {
    "words": ("word", "sentence"),
    "program_words": ("word", "program"),
    "templates": ("construction", "program"),
}


@dataclass
class Faults:
    """How many faults a file has, and those that are shown: a file may have millions."""

    count: int = 0
    is_serious: bool = False
    kept: list[Flaw] = field(default_factory=list)

    @classmethod
    def of(cls, found: Iterable[Flaw]) -> Self:
        """Programs are told every fault, people the first ones."""
        faults = cls()
        for flaw in found:
            faults.count += 1
            faults.is_serious |= flaw.kind in SERIOUS
            if terminal.output.as_json or len(faults.kept) < SHOWN_FLAWS:
                faults.kept.append(flaw)
        return faults

    def lines(self, data: Path) -> list[str]:
        """The first faults, a line each, and how many more there are."""
        shown = self.kept[:SHOWN_FLAWS]
        lines = [f"{data}:{flaw.line}: {flaw}" for flaw in shown]
        if self.count > len(shown):
            lines.append(f"… and {self.count - len(shown):,} more; --json lists all")
        return lines


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
    faults = Faults.of(flaw._replace(line=flaw.line + start - 1) for flaw in found)
    single = _lines_of_singletons(pairs, start, raw, text)
    derivable = _derivable_share(raw, text, folds) if folds else None

    # Tell people the beginning of each list, and programs everything.
    lines = faults.lines(data)
    others = sum(pair.is_out_of_scope for pair in pairs)
    count = len(pairs) - others
    outside = f", {others:,} sentences out of scope" if others else ""
    lines.append(f"{counted(count, 'example')}{outside}, {faults.count:,} with a fault")
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
    values = {
        "examples": count,
        "out_of_scope": others,
        "flaws": [flaw._asdict() for flaw in faults.kept],
        **single,
        "derivable": derivable,
        "slots": slot_lines,
    }
    print_results(values, *lines)
    if faults.is_serious:
        raise typer.Exit(FAILED)


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
