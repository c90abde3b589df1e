"""`nqg evaluate`: how many examples a model, or another system's predictions, get right, and why not the others."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from nqg.answers import System
from nqg.cli.options import DatabasePlace, Device, MinConfidence, NoSpellCorrection, Today, command
from nqg.cli.terminal import checked_device, out, output, progress_bar, report_written, tracked
from nqg.data.example_files import read_examples, required_examples
from nqg.errors import counted
from nqg.evaluation.error_analysis import Breakdown, breakdown
from nqg.evaluation.evaluation import Evaluation, Judge, judge_named
from nqg.evaluation.metrics import Scores, expected_calibration_error, percent
from nqg.evaluation.prediction_file import PredictionFile
from nqg.extensions import load_extension
from nqg.files import write_text
from nqg.preprocessing.preprocessor import Preprocessor

if TYPE_CHECKING:
    from nqg.inference.parser import Parser

LACKS_SHOWN = 10
MOST_ROWS = 100_000  # of a result, when results are compared
SHOWN = ("accuracy", "coverage", "precision")

PATHS_METAVAR = "[MODEL] TEST"
OTHER_SYSTEMS = "Other systems"
DETAILS = "Single predictions and causes of errors"


@dataclass(frozen=True, kw_only=True)
class EvaluateOptions:
    """What is measured, on which examples, and what is told of it."""

    paths: Annotated[
        list[Path],
        typer.Argument(
            metavar=PATHS_METAVAR,
            help="A folder that `nqg train` wrote, and examples to try it on.",
            show_default=False,
        ),
    ]
    metric: Annotated[
        str,
        typer.Option(
            "--metric", metavar="NAME", help="What counts as correct: exact, spider or denotation."
        ),
    ] = "exact"
    database: DatabasePlace = None
    no_spell_correction: NoSpellCorrection = False
    min_confidence: MinConfidence = None
    today: Today = None
    device: Device = None
    score: Annotated[
        Path | None,
        typer.Option(
            "--score",
            metavar="FILE",
            help="Score these predictions, .tsv or .jsonl, instead of a model's.",
            rich_help_panel=OTHER_SYSTEMS,
        ),
    ] = None
    fallback: Annotated[
        Path | None,
        typer.Option(
            "--fallback",
            metavar="FILE",
            help="Predictions of another system, used where the first one abstains.",
            rich_help_panel=OTHER_SYSTEMS,
        ),
    ] = None
    breakdown: Annotated[
        bool,
        typer.Option(
            "--breakdown",
            metavar="",
            help="Explain why predictions are wrong or missing.",
            rich_help_panel=DETAILS,
        ),
    ] = False
    data: Annotated[
        Path | None,
        typer.Option(
            "--data",
            metavar="FILE",
            help="Training examples, to explain errors of systems without a grammar.",
            rich_help_panel=DETAILS,
        ),
    ] = None
    write_predictions: Annotated[
        Path | None,
        typer.Option(
            "--write-predictions",
            metavar="FILE",
            help="Write every prediction to this file, one line of JSON each; with --breakdown, causes of errors, too.",
            rich_help_panel=DETAILS,
        ),
    ] = None


@command(EvaluateOptions)
def evaluate(options: EvaluateOptions) -> None:
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
    model, test = _model_and_test(options)
    with progress_bar() as progress:
        judge = judge_named(options.metric, progress=progress)
    examples = required_examples(test)
    system, parser = _system(model, options)
    if options.breakdown and options.data is None and system is not parser:
        reason = (
            "errors of a system without a grammar are explained by what its training data lacked"
        )
        raise typer.BadParameter(f"{reason}; name the training examples", param_hint="--data")
    database = None
    if options.database:
        database = load_extension("nqg.sql.database:Database").open(
            options.database, most_rows=MOST_ROWS
        )
        system = load_extension("nqg.sql.execution:Executed")(system, database)

    # Ask the system, and judge what it answers.
    answers = tracked(
        system.answers(example.source for example in examples), "answering", len(examples)
    )
    evaluation = Evaluation(judge, examples, list(answers))
    by_rows = None
    if database:
        same_rows: Judge = load_extension("nqg.sql.execution:ExecutionJudge")(database)
        by_rows = Evaluation(same_rows, examples, evaluation.answers)
    causes = None
    if options.breakdown:
        train = read_examples(options.data) if options.data else []
        grammar, text = (parser.grammar, parser.model.text) if parser else (None, Preprocessor())
        causes = breakdown(
            examples, evaluation.answers, train=train, grammar=grammar, judge=judge, text=text
        )

    # Tell what came of it.
    if output.as_json:
        values = {"metric": options.metric, **evaluation.to_dict()}
        if by_rows:
            values["execution"] = by_rows.to_dict()["systems"]
        if causes:
            values |= _causes_to_dict(causes)
        out.print_json(data=values)
    else:
        _print_scores(evaluation)
        if by_rows:
            out.print("\nright if the rows are the same:")
            out.print(_table(by_rows))
        if causes:
            _print_causes(causes)
    if options.write_predictions:
        _write_predictions(options.write_predictions, evaluation, causes)


def _model_and_test(options: EvaluateOptions) -> tuple[Path | None, Path]:
    """The folder of the model, unless predictions of a file are scored, and the file of examples."""
    paths = options.paths
    if options.score:
        if len(paths) != 1:
            reason = f"expected TEST alone beside --score, found {counted(len(paths), 'path')}"
            raise typer.BadParameter(reason, param_hint=PATHS_METAVAR)
        return None, paths[0]
    if len(paths) != 2:
        reason = f"expected MODEL and TEST, found {counted(len(paths), 'path')}"
        raise typer.BadParameter(reason, param_hint=PATHS_METAVAR)
    return paths[0], paths[1]


def _system(model: Path | None, options: EvaluateOptions) -> tuple[System, Parser | None]:
    """A model or a file of predictions, perhaps with a fallback; its parser, which may be all that it is."""
    device = checked_device(options.device)
    files = [path for path in (options.score, options.fallback) if path]
    predictions = [PredictionFile.read(path, refuses_unknown=True) for path in files]
    if model is None and len(files) == 1:
        return predictions[0], None
    from nqg.inference.decoding import DecodeOptions
    from nqg.inference.hybrid import Hybrid, load  # which load PyTorch
    from nqg.inference.parser import Parser

    decoding = DecodeOptions(
        exact=options.no_spell_correction,
        least_confidence=options.min_confidence,
        today=options.today.date() if options.today else None,
    )
    system: System
    if model and not files:
        loaded = load(model, device)
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


def _write_predictions(path: Path, evaluation: Evaluation, causes: Breakdown | None) -> None:
    """Write a line of JSON for every prediction; that of an error has its causes, where they are known."""
    findings = (
        {id(finding.example): finding.to_dict() for finding in causes.findings} if causes else {}
    )
    lines = []
    for example, values in zip(evaluation.examples, evaluation.lines(), strict=True):
        line = json.dumps(values | findings.get(id(example), {}), ensure_ascii=False)
        lines.append(f"{line}\n")
    write_text(path, "".join(lines))
    report_written(path)


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
        out.print(
            "expected calibration error {:.3f}, with bins of equal size {:.3f}".format(*errors)
        )
    if found.report:
        for header, rows in found.report.tables():
            table = Table(*header, box=None, pad_edge=False)
            for row in rows:
                table.add_row(*row)
            out.print()
            out.print(table)


def _cells(scores: Scores) -> Iterator[str]:
    for name in SHOWN:
        interval = scores.intervals()[name]
        yield percent(getattr(scores, name)) + (f" ({interval})" if interval else "")


def _print_causes(causes: Breakdown) -> None:
    table = Table(
        "of", "cause", "errors", "share", "holds for", "for example", box=None, pad_edge=False
    )
    for line in causes.table():
        example = f"{line.example.example.source}: {line.example.detail}"
        table.add_row(
            line.by, line.cause, f"{line.errors:,}", percent(line.share), f"{line.holds:,}", example
        )
    out.print()
    out.print(table if causes.findings else "no prediction is wrong or missing")
    lacks = [f"{each.what} ({each.sentences:,})" for each in causes.lacks()[:LACKS_SHOWN]]
    if lacks:
        out.print(f"\nthe grammar lacks, by the sentences that need it: {', '.join(lacks)}")


def _causes_to_dict(causes: Breakdown) -> dict[str, Any]:
    lines = [
        {
            "by": line.by,
            "cause": line.cause.name.lower(),
            "errors": line.errors,
            "holds_for": line.holds,
        }
        for line in causes.table()
    ]
    return {
        "asked": dict(causes.asked),
        "causes": lines,
        "lacks": {each.what: each.sentences for each in causes.lacks()},
    }
