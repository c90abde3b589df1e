"""`nqg evaluate`: how many examples a model, or another system's predictions, get right, and why not the others."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.table import Table

from nqg.answers import PredictionFile, System
from nqg.cli.terminal import (
    DATABASE,
    DEVICE,
    EXACT,
    JSON,
    LEAST_CONFIDENCE,
    MIRROR,
    TODAY,
    checked_device,
    out,
    progress_bar,
    report_written,
    tracked,
)
from nqg.data.database import Database
from nqg.data.examples import read_examples, required_examples
from nqg.errors import counted
from nqg.evaluation.breakdown import Breakdown, breakdown, write_plot
from nqg.evaluation.evaluation import Evaluation, ExecutionJudge, judge_named
from nqg.evaluation.metrics import Scores, expected_calibration_error, percent
from nqg.files import write_text
from nqg.inference.execution import Executed
from nqg.text.preprocessing import Preprocessor

if TYPE_CHECKING:
    from nqg.inference.parser import Parser

LACKS_SHOWN = 10
MOST_ROWS = 100_000  # of a result, when results are compared
SHOWN = ("accuracy", "coverage", "precision")

PATHS = typer.Argument(
    metavar="[MODEL] TEST", help="A folder that `nqg train` wrote, and examples to try it on.", show_default=False
)
METRIC = typer.Option("exact", "--metric", metavar="NAME", help="What counts as correct: exact, spider or denotation.")
UNTYPED = typer.Option(False, "--untyped", metavar="", help="Parse without types, as the paper does.")
other_system = partial(typer.Option, None, metavar="FILE", rich_help_panel="Other systems")
FROM = other_system("--predictions-from", help="Score these predictions, .tsv or .jsonl, instead of a model's.")
FALLBACK = other_system("--fallback", help="Predictions of another system, used where the first one abstains.")
DETAILS = "Single predictions and causes of errors"
detail_option = partial(typer.Option, None, metavar="FILE", rich_help_panel=DETAILS)
PREDICTIONS = detail_option("--predictions", help="Write every prediction to this file, one line of JSON each.")
BREAKDOWN = typer.Option(
    False, "--breakdown", metavar="", help="Explain why predictions are wrong or missing.", rich_help_panel=DETAILS
)
TRAIN = detail_option("--train", help="Training examples, to explain errors of systems without a grammar.")
ERRORS = detail_option("--errors", help="Write wrong and missing predictions with their causes, one line of JSON each.")
PLOT = detail_option("--plot", help="Draw the causes as bars, .png or .svg.")


def evaluate(
    paths: list[Path] = PATHS,
    predictions_from: Path | None = FROM,
    fallback: Path | None = FALLBACK,
    metric: str = METRIC,
    database: str | None = DATABASE,
    untyped: bool = UNTYPED,
    exact: bool = EXACT,
    least_confidence: float | None = LEAST_CONFIDENCE,
    today: datetime | None = TODAY,
    device: str | None = DEVICE,
    predictions: Path | None = PREDICTIONS,
    show_causes: bool = BREAKDOWN,
    train: Path | None = TRAIN,
    errors: Path | None = ERRORS,
    plot: Path | None = PLOT,
    mirror: Path | None = MIRROR,
    as_json: bool = JSON,
) -> None:
    """Measure how many examples a model answers, and how many correctly.

    Example: nqg evaluate models/mine test.tsv --breakdown

    Accuracy is the share of examples answered correctly, coverage the share that
    is answered, precision the share of answers that are correct; ranges are 95 %
    confidence intervals. If the model has confidence, a table shows how often
    answers of each confidence are correct. Both parts of a model with a fallback
    are tried on all examples, alone and together. The metrics `spider` and
    `denotation` need files of Spider and GeoQuery. With --database, another table
    shows execution accuracy: queries that give the rows of the reference.
    """
    *models, test = paths
    if len(models) != (predictions_from is None):
        expected = "TEST alone beside --predictions-from" if predictions_from else "MODEL and TEST"
        raise typer.BadParameter(f"expected {expected}, found {len(paths)} paths", param_hint="[MODEL] TEST")
    needs_causes = show_causes or errors is not None or plot is not None
    with progress_bar() as progress:
        judge = judge_named(metric, mirror, progress)
    examples = required_examples(test)
    files = [path for path in (predictions_from, fallback) if path]
    options = {
        "typed": False if untyped else None,
        "exact": exact,
        "least_confidence": least_confidence,
        "today": today and today.date(),
    }
    system, parser = _system(models[0] if models else None, files, checked_device(device), options)
    if needs_causes and train is None and system is not parser:
        reason = "errors of a system without a grammar are explained by what its training data lacked"
        raise typer.BadParameter(f"{reason}; name the training examples", param_hint="--train")
    run_on = Database.open(database, most_rows=MOST_ROWS) if database else None
    system = Executed(system, run_on) if run_on else system
    answers = tracked(system.answers(example.source for example in examples), "answering", len(examples))
    found = Evaluation(judge, examples, list(answers))
    known, causes = read_examples(train) if train else [], None
    if needs_causes:
        grammar, text = (parser.grammar, parser.model.text) if parser else (None, Preprocessor())
        causes = breakdown(examples, found.answers, train=known, grammar=grammar, judge=judge, text=text)
    by_rows = Evaluation(ExecutionJudge(run_on), examples, found.answers) if run_on else None
    if as_json:
        more = {"execution": by_rows.to_dict()["systems"]} if by_rows else {}
        more |= _causes_to_dict(causes) if causes else {}
        out.print_json(data={"metric": metric, **found.to_dict(), **more})
    else:
        _print_scores(found)
        if by_rows:
            out.print("\nright if the rows are the same:")
            out.print(_table(by_rows))
        if causes and show_causes:
            _print_causes(causes)
    for path, lines in (
        (errors, (each.to_dict() for each in causes.findings) if causes else ()),
        (predictions, found.lines()),
    ):
        if path:
            write_text(path, "".join(f"{json.dumps(line, ensure_ascii=False)}\n" for line in lines))
            report_written(path)
    if causes and plot:
        write_plot(plot, {"": causes})
        report_written(plot)


def _system(
    model: Path | None, files: Sequence[Path], device: str | None, options: Mapping[str, Any]
) -> tuple[System, Parser | None]:
    """A model or a file of predictions, perhaps with a fallback; its parser, which may be all that it is."""
    predictions = [PredictionFile.read(path, refuses_unknown=True) for path in files]
    if model is None and len(files) == 1:
        return predictions[0], None
    from nqg.inference.hybrid import Hybrid, load_system  # which load PyTorch
    from nqg.inference.parser import DecodeOptions, Parser

    decoding = DecodeOptions(**options)
    system: System
    if model and not files:
        loaded = load_system(model, device)
        first = loaded.parser if isinstance(loaded, Hybrid) else loaded
        if isinstance(first, Parser):
            decoding = replace(decoding, today=decoding.today or first.model.text.slots.today)
        system = loaded.with_options(decoding)
        if isinstance(system, Hybrid):
            system = replace(system, asks_both=True)
    else:
        first = Parser.load(model, device).with_options(decoding) if model else predictions[0]
        system = Hybrid(first, predictions[-1], asks_both=True, fallback_name=files[-1].name)
    parser = system.parser if isinstance(system, Hybrid) else system
    return system, parser if isinstance(parser, Parser) else None


def _table(found: Evaluation) -> Table:
    table = Table(counted(len(found.examples), "example"), *SHOWN, box=None, pad_edge=False)
    for name, scores in found.systems.items():
        table.add_row(name, *_cells(scores))
    return table


def _print_scores(found: Evaluation) -> None:
    out.print(_table(found))
    if found.gain:
        out.print(f"\ntogether they are above the second alone by {found.gain} points of accuracy")
    if bins := found.reliability():
        shown = Table("confidence", "answers", "right", box=None, pad_edge=False)
        for bin_ in bins:
            shown.add_row(percent(bin_.confidence), f"{bin_.answers:,}", percent(bin_.precision))
        errors = map(expected_calibration_error, (bins, found.reliability(adaptive=True)))
        out.print()
        out.print(shown)
        out.print("expected calibration error {:.3f}, with bins of equal size {:.3f}".format(*errors))
    if found.spider:
        levels = Table("hardness", "examples", "accuracy", box=None, pad_edge=False)
        for level, scores in found.spider.levels.items():
            levels.add_row(level, f"{scores.examples:,}", next(_cells(scores)))
        parts = Table("component", "precision", "recall", "F1", box=None, pad_edge=False)
        for each in found.spider.components:
            parts.add_row(each.name, percent(each.precision), percent(each.recall), percent(each.f1))
        for table in (levels, parts):
            out.print()
            out.print(table)


def _cells(scores: Scores) -> Iterator[str]:
    for name in SHOWN:
        interval = scores.intervals()[name]
        yield percent(getattr(scores, name)) + (f" ({interval})" if interval else "")


def _print_causes(causes: Breakdown) -> None:
    table = Table("of", "cause", "errors", "share", "holds for", "for example", box=None, pad_edge=False)
    for line in causes.table():
        example = f"{line.example.example.source}: {line.example.detail}"
        table.add_row(line.by, line.cause, f"{line.errors:,}", percent(line.share), f"{line.holds:,}", example)
    out.print()
    out.print(table if causes.findings else "no prediction is wrong or missing")
    lacks = [f"{each.what} ({each.sentences:,})" for each in causes.lacks()[:LACKS_SHOWN]]
    if lacks:
        out.print(f"\nthe grammar lacks, by the sentences that need it: {', '.join(lacks)}")


def _causes_to_dict(causes: Breakdown) -> dict[str, Any]:
    lines = [
        {"by": line.by, "cause": line.cause.name.lower(), "errors": line.errors, "holds_for": line.holds}
        for line in causes.table()
    ]
    return {"causes": lines, "lacks": {each.what: each.sentences for each in causes.lacks()}}
