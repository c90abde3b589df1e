"""Commands about a project: `demo`, `init`, `check-data`, `suggest` and `check-model`."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, cast

import torch
import typer
from rich.table import Table
from rich.text import Text

from nqg.answers import exact_match
from nqg.cli.options import Device, Model, SettingsFile, TrainFile, command
from nqg.cli.terminal import checked_device, err, make_folder, out, output, report_written, tracked
from nqg.cli.training_display import TrainingDisplay
from nqg.data.example import Example
from nqg.data.example_files import required_examples
from nqg.data.scan import length_split, scan_examples
from nqg.errors import FAILED, NqgError, SettingsError, counted
from nqg.evaluation.active_learning import Suggestion, suggested
from nqg.evaluation.data_checks import SERIOUS, Flaw, expected_derivability, flaws, thin_places
from nqg.files import write_text
from nqg.induction.search_log import StepRecord
from nqg.induction.settings import InductionSettings
from nqg.inference.explanation import drawn
from nqg.inference.hybrid import Hybrid, TokenSystem, load, load_with_grammar
from nqg.inference.parser import Parser
from nqg.model.settings import TrainingSettings
from nqg.model_folder import check_digest, folder_digest
from nqg.pipeline.grammar import search_grammar
from nqg.pipeline.run import Run
from nqg.pipeline.settings import NONE, ConfidenceSettings, TrainSettings, TypeSettings
from nqg.pipeline.train import train as train_system
from nqg.preprocessing.training_text import fit_text, tokenized
from nqg.run_config import DataFingerprint

DEMO_SENTENCE = "walk twice after jump around left thrice"
NEXT = """
What next?
  nqg init my-parser                           a small project of your own to start from
  nqg train my-pairs.tsv -o models/mine        a parser for your own pairs: sentence, tab, program
  nqg parse models/mine "a sentence" --explain
  nqg --help                                   everything else
"""
STARTER_FILES = ("README.md", "nqg.toml", "test.tsv", "train.tsv")
SHOWN_FLAWS = 20  # where people read
SHOWN_RARE = 10
# What one line alone shows, by the field of `thin_places`: what it is, and what holds it.
RARE = {
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
    torch.set_num_threads(
        1
    )  # so small a model gains little from more, and loses much on a busy machine
    try:
        lesson(
            parts.train,
            parts.test,
            TrainingSettings(steps=128, batch_size=128, learned=0.0, warm_up=32),
        )
    finally:
        torch.set_num_threads(threads)
    _say(f"\nAll of this took {time.monotonic() - started:.0f} seconds.")
    _say(NEXT.rstrip())


def lesson(train: Sequence[Example], test: Sequence[Example], training: TrainingSettings) -> None:
    """Induce a grammar from some commands of SCAN, train a parser with it, and try it on others."""
    _say(
        f"SCAN, length split: {len(train):,} commands to learn from, {len(test):,} longer ones to test on.\n"
    )
    records: list[StepRecord] = []
    with TrainingDisplay() as display:
        run = Run(listener=display)
        grammar = search_grammar(
            train, InductionSettings.named("scan"), run=run, on_step=records.append
        ).grammar
    out.print(_search_table(records))
    _say(f"\n{len(grammar)} rules are left:\n")
    for rule in grammar:
        _say(f"  {_arrowed(str(rule))}")
    settings = TrainSettings(
        types=TypeSettings(target_grammar=NONE),
        training=training,
        confidence=ConfidenceSettings(folds=0),
    )
    with TrainingDisplay() as display:
        parser = train_system(train, settings=settings, grammar=grammar, listener=display)
    assert isinstance(parser, Parser), "there is no fallback"
    _say(f"\nA parser learned in {training.steps} steps which of their derivations to prefer.")
    answers = tracked(parser.answers(example.source for example in test), "parsing", len(test))
    right = sum(
        exact_match(answer.target, example.target)
        for answer, example in zip(answers, test, strict=True)
    )
    _say(
        f"It gets {right:,} of the {len(test):,} longer commands right ({right / len(test):.1%}), such as this one:\n"
    )
    reading = parser.parse(DEMO_SENTENCE).reading
    assert reading is not None, "every grammar of SCAN derives the demo's sentence"
    out.print(drawn(reading, out.width if out.is_terminal else None))
    _say(f"\n= {reading.target}")


def _search_table(records: Sequence[StepRecord]) -> Table:
    """The beginning of a search, the steps whose number is a power of two, and the last."""
    table = Table("step", "rules", "bits", "new rule", box=None, pad_edge=False)
    for column in table.columns[:3]:
        column.justify = "right"
    for record in records:
        is_power_of_two = record.step & (record.step - 1) == 0
        if is_power_of_two or record is records[-1]:
            added = ", ".join(map(_arrowed, record.added)) or "(one less)"
            if record.step == 0:
                added = "(every command is a rule)"
            text = Text(added, no_wrap=True, overflow="ellipsis")
            table.add_row(
                str(record.step), f"{record.rules:,}", f"{record.length.total:,.0f}", text
            )
    return table


def _say(text: str) -> None:
    """Print whole words on each line of a terminal; elsewhere, lines as they are."""
    out.print(text, soft_wrap=not out.is_terminal)


def _arrowed(rule: str) -> str:
    return rule.replace(" ### ", " → ")


@dataclass(frozen=True, kw_only=True)
class InitOptions:
    """Where a project begins."""

    folder: Annotated[
        Path,
        typer.Argument(metavar="FOLDER", help="A new folder, or an empty one.", show_default=False),
    ]


@command(InitOptions)
def init(options: InitOptions) -> None:
    """Create a starter project: example pairs, settings, next commands.

    Example: nqg init mine

    The pairs are commands for a home assistant and their programs: 150 for
    training, 60 for testing. Replace them with your own.
    """
    folder = options.folder
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise NqgError(
            f"{folder} already exists and is not empty; choose another name for the project"
        )
    make_folder(folder)
    for name in STARTER_FILES:
        write_text(
            folder / name,
            resources.files("nqg.data").joinpath("starter", name).read_text(encoding="utf-8"),
        )
    if output.as_json:
        out.print_json(
            data={"folder": str(folder), "files": list(STARTER_FILES), "commands": commands(folder)}
        )
        return
    out.print(f"wrote {folder} with {', '.join(STARTER_FILES)}; to go on:\n")
    for line in commands(folder):
        out.print(f"  {line}")


def commands(folder: Path) -> list[str]:
    return [
        f"nqg train {folder}/train.tsv --settings {folder}/nqg.toml -o {folder}/model",
        f"nqg evaluate {folder}/model {folder}/test.tsv --breakdown",
        f'nqg parse {folder}/model "could you turn off the lamp in the attic at midnight" --explain',
    ]


@dataclass(frozen=True, kw_only=True)
class CheckDataOptions:
    """Which data is checked, and how thoroughly."""

    data: TrainFile
    settings: SettingsFile = None
    folds: Annotated[
        int,
        typer.Option(
            "--folds",
            metavar="K",
            min=0,
            help="Hold out a K-th each time, and derive it; 0: leave that out.",
        ),
    ] = 4


@command(CheckDataOptions)
def check_data(options: CheckDataOptions) -> None:
    """Check training data: faults with their lines, and what to expect of it.

    Example: nqg check-data train.tsv

    Faults are headings, unbalanced brackets, sentences with two programs, and
    duplicates. Words and templates that one line alone shows are listed, because
    nothing else can teach them. With --folds, grammars of a part of the data are
    induced: the share of the rest that they derive is what a parser can expect of
    new sentences of the same kind. The exit code is 1 where there are faults
    other than duplicates.
    """
    chosen = TrainSettings.read(options.settings) if options.settings else None
    raw = required_examples(options.data)
    text = fit_text(raw, chosen.text, chosen.slots, options.settings) if chosen else fit_text(raw)
    faults = list(flaws(raw, tokenized(raw, text)))
    rare = asdict(thin_places(raw, text))
    shares: list[float] = []
    if options.folds:
        grammars = expected_derivability(raw, text, options.folds)
        try:
            shares = list(tracked(grammars, "inducing grammars of folds", options.folds))
        except SettingsError as error:  # of examples too few, or too much alike
            err.print(f"nothing can be held out: {error}")
    derivable = sum(shares) / len(shares) if shares else None
    if output.as_json:
        listed = [flaw._asdict() for flaw in faults]
        out.print_json(data={"examples": len(raw), "flaws": listed, **rare, "derivable": derivable})
    else:
        _print_faults(options.data, len(raw), faults)
        _print_rare(rare)
        if derivable is not None:
            out.print(
                f"{100 * derivable:.1f} % of examples are derivable with a grammar of the others"
            )
            if derivable < 0.5:
                out.print(
                    "show each construction two or three times, with different words: docs/your-data.md"
                )
    if any(flaw.kind in SERIOUS for flaw in faults):
        raise typer.Exit(FAILED)


def _print_faults(path: Path, examples: int, faults: Sequence[Flaw]) -> None:
    for flaw in faults[:SHOWN_FLAWS]:
        out.print(f"{path}:{flaw.line}: {flaw}")
    if len(faults) > SHOWN_FLAWS:
        out.print(f"… and {len(faults) - SHOWN_FLAWS:,} more; --json lists all")
    out.print(f"{counted(examples, 'example')}, {len(faults):,} with a fault")


def _print_rare(rare: Mapping[str, Mapping[str, int]]) -> None:
    """What one line alone shows, with the number of that line."""
    for kind, lines in rare.items():
        if not lines:
            continue
        noun, holder = RARE[kind]
        shown = [f"{name} (line {line})" for name, line in lines.items()][:SHOWN_RARE]
        if len(lines) > SHOWN_RARE:
            shown.append("…")
        out.print(f"{counted(len(lines), noun)} that one {holder} alone has: {', '.join(shown)}")


@dataclass(frozen=True, kw_only=True)
class SuggestOptions:
    """Whose sentences are suggested, and how many."""

    model: Model
    log: Annotated[
        Path,
        typer.Argument(
            metavar="LOG",
            help="Sentences: a line each, or what --log of nqg parse and serve wrote.",
            show_default=False,
        ),
    ]
    count: Annotated[
        int,
        typer.Option("-n", "--count", metavar="N", min=1, help="How many sentences to suggest."),
    ] = 20
    data: Annotated[
        Path | None,
        typer.Option(
            "--data",
            metavar="FILE",
            help="Leave out what these examples have already; guess programs like theirs.",
        ),
    ] = None
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            metavar="FILE.tsv",
            help="Write pairs to correct; a guess has a third column, to be removed with it.",
        ),
    ] = None
    device: Device = None


@command(SuggestOptions)
def suggest(options: SuggestOptions) -> None:
    """Suggest which sentences to annotate next: those that would teach most.

    Example: nqg suggest models/mine asked.txt -o new.tsv

    Sentences without an answer and those with unsure ones are ranked by what is
    new in them, how many others lack the same, and what better ones teach
    already. Each comes with the reason, the nearest rule and a program to accept
    or to correct: the parser's or, marked as a guess, that of the most similar
    training sentence. Add the corrected pairs to the training file, and train
    again: nqg train TRAIN --from MODEL.
    """
    loaded = load_with_grammar(options.model, checked_device(options.device))
    parser = loaded.parser if isinstance(loaded, Hybrid) else loaded
    if not isinstance(parser, Parser):
        raise NqgError(
            f"{options.model}: expected a model with a grammar, whose gaps sentences could fill"
        )
    suggestions = suggested(parser, options.log, options.data, options.count)
    if output.as_json:
        rows = [
            asdict(suggestion) | {"nearest": suggestion.nearest and str(suggestion.nearest)}
            for suggestion in suggestions
        ]
        out.print_json(data=rows)
    elif suggestions:
        _print_suggestions(suggestions)
    else:
        err.print("nothing to suggest: every sentence has an answer that is sure")
    if options.output:
        lines = []
        for suggestion in suggestions:
            columns = [suggestion.source, suggestion.program or ""]
            if suggestion.guess_of:
                columns.append("guess")
            lines.append("\t".join(columns) + "\n")
        write_text(options.output, "".join(lines))
        report_written(options.output)


def _print_suggestions(suggestions: Sequence[Suggestion]) -> None:
    for number, suggestion in enumerate(suggestions, start=1):
        out.print(f"{number}. {suggestion.source}\n   {suggestion.why}")
        if suggestion.program:
            origin = (
                f"a guess, that of '{suggestion.guess_of}'" if suggestion.guess_of else "perhaps"
            )
            out.print(f"   {origin}: {suggestion.program}")
        if suggestion.nearest:
            out.print(f"   nearest rule: {suggestion.nearest}")


@dataclass(frozen=True, kw_only=True)
class CheckModelOptions:
    """Which model is checked, and what it must be."""

    model: Model
    digest: Annotated[
        str | None,
        typer.Option("--digest", metavar="SHA256", help="Fail unless this is the model's digest."),
    ] = None


@command(CheckModelOptions)
def check_model(options: CheckModelOptions) -> None:
    """Check that a model folder is whole, and print what it promises and its digest.

    Example: nqg check-model models/mine

    Every file is compared with its checksum, the model is loaded, and it has to
    score a sentence. The digest covers all files that are read; publish it beside
    the model, and compare it with --digest, here or with `nqg serve`.
    """
    check_digest(options.model, options.digest)
    promises = _promises(load(options.model, "cpu")) | {"digest": folder_digest(options.model)}
    if output.as_json:
        out.print_json(data=promises)
        return
    out.print(
        f"{options.model} is whole: its files are those that were saved, and it scores a sentence"
    )
    for name, value in promises.items():
        out.print(f"{name:12} {'not recorded' if value is None else value}")


def _promises(loaded: Parser | Hybrid | TokenSystem) -> dict[str, Any]:
    if isinstance(loaded, TokenSystem):
        return {"rules": None, "system": cast(Any, loaded.system).settings.model}
    parser = cast(Parser, loaded.parser) if isinstance(loaded, Hybrid) else loaded
    provenance, calibrator = parser.model.provenance, parser.model.calibrator
    measured = [
        f"{dict(each.scores)} on {_in_words(each.data)}" for each in provenance.measurements
    ]
    return {
        "rules": len(parser.grammar),
        "by hand": len(parser.model.by_hand),
        "fallback": isinstance(loaded, Hybrid),
        "made from": provenance.data and _in_words(provenance.data),
        "measured": measured or None,
        "calibrated": calibrator
        and f"on {calibrator.trials:,} answers, {calibrator.right:,} of them right",
    }


def _in_words(data: DataFingerprint) -> str:
    facts = f"{counted(data.examples, 'example')}, SHA-256 {data.fingerprint}"
    return f"{data.name}: {facts}" if data.name else facts
