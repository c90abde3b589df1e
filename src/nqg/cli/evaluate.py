"""`nqg evaluate`: how many examples a model or a file of predictions gets right."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from nqg.answers import System, in_percent
from nqg.cli.options import (
    DatabasePlace,
    Device,
    MinConfidence,
    NoSpellCorrection,
    Today,
    argument,
    command,
    option,
)
from nqg.cli.terminal import (
    checked_device,
    new_table,
    print_results,
    progress_bar,
    report_written,
    tracked,
)
from nqg.data.example import in_scope, out_of_scope
from nqg.data.example_files import read_examples, required_examples
from nqg.errors import counted
from nqg.evaluation.error_analysis import Breakdown, breakdown
from nqg.evaluation.evaluation import (
    Evaluation,
    Judge,
    ScopeEvaluation,
    judge_named,
)
from nqg.evaluation.metrics import expected_calibration_error, percent
from nqg.evaluation.prediction_file import PredictionFile
from nqg.extensions import load_extension
from nqg.files import write_text

if TYPE_CHECKING:
    from nqg.inference.parser import Parser

LACKS_SHOWN = 10
SENTENCES_SHOWN = 3  # of a function; --json lists all
# The most rows of a result when results are compared.
MOST_ROWS = 100_000
FIGURES = ("accuracy", "coverage", "precision")

PATHS_METAVAR = "[MODEL] TEST"
OTHER_SYSTEMS = "Other systems"
DETAILS = "Single predictions and causes of errors"


@dataclass(frozen=True)
class EvaluateOptions:
    """What is measured, on which examples, and what is told of it."""

    paths: Annotated[
        list[Path],
        argument(
            PATHS_METAVAR, "A folder that `nqg train` wrote, and examples to try it on."
        ),
    ]
    metric: Annotated[
        str,
        option(
            "--metric", "NAME", "What counts as correct: exact, spider or denotation."
        ),
    ] = "exact"
    database: DatabasePlace = None
    no_spell_correction: NoSpellCorrection = False
    min_confidence: MinConfidence = None
    today: Today = None
    device: Device = None
    score: Annotated[
        Path | None,
        option(
            "--score",
            "FILE",
            "Score these predictions, .tsv or .jsonl, instead of a model's.",
            OTHER_SYSTEMS,
        ),
    ] = None
    fallback: Annotated[
        Path | None,
        option(
            "--fallback",
            "FILE",
            "Predictions of another system, used where the first one abstains.",
            OTHER_SYSTEMS,
        ),
    ] = None
    breakdown: Annotated[
        bool,
        option(
            "--breakdown", "", "Explain why predictions are wrong or missing.", DETAILS
        ),
    ] = False
    data: Annotated[
        Path | None,
        option(
            "--data",
            "FILE",
            "Training examples, to explain errors of systems without a grammar.",
            DETAILS,
        ),
    ] = None
    write_predictions: Annotated[
        Path | None,
        option(
            "--write-predictions",
            "FILE",
            "Write every prediction to this file, one line of JSON each; with --breakdown, "
            "causes of errors, too.",
            DETAILS,
        ),
    ] = None


@command(EvaluateOptions)
def evaluate(options: EvaluateOptions) -> None:
    """Measure how many examples a model answers, and how many correctly.

    Example: nqg evaluate models/mine test.tsv --breakdown

    Accuracy is the share of examples answered correctly, coverage the share that
    is answered, precision the share of answers that are correct; ranges are 95 %
    confidence intervals. Sentences without a program are out of scope: none of
    them should be answered. With --breakdown, tables show which functions are not
    always right, and why. If the model has confidence, a table shows how often
    answers of each confidence are correct. A model with two readers is measured
    with each reader alone, and with both. The metrics `spider` and `denotation`
    need files of Spider and GeoQuery. With --database, another table shows
    execution accuracy: queries that give the rows of the reference.
    """
    # Read what is measured.
    model, test = _model_and_test(options)
    with progress_bar() as progress:
        judge = judge_named(options.metric, progress=progress)
    pairs = required_examples(test, allows_out_of_scope=True)
    examples = in_scope(pairs)
    system, parser, is_joint = _system(model, options)
    if options.breakdown and options.data is None and system is not parser:
        reason = "errors of a system without a grammar are explained by what its training data lacked"
        raise typer.BadParameter(
            f"{reason}; name the training examples", param_hint="--data"
        )
    database = None
    if options.database:
        open_database = load_extension("nqg.sql.database:Database").open
        database = open_database(options.database, most_rows=MOST_ROWS)
        system = load_extension("nqg.sql.execution:Executed")(system, database)

    # Sentences out of scope should have no answer.
    scope = ScopeEvaluation(
        list(system.answers(pair.source for pair in out_of_scope(pairs)))
    )
    if not examples:
        print_results({"out_of_scope": scope.to_dict()}, *_scope_texts(scope))
        return

    # Ask the system, and judge what it answers.
    answers = system.answers(example.source for example in examples)
    evaluation = Evaluation(
        judge,
        examples,
        list(tracked(answers, "answering", len(examples))),
        is_joint=is_joint,
    )
    values = {"metric": options.metric, **evaluation.to_dict()}
    texts = _score_texts(evaluation)
    if database:
        same_rows: Judge = load_extension("nqg.sql.execution:ExecutionJudge")(database)
        by_rows = Evaluation(same_rows, examples, evaluation.answers)
        values["execution"] = by_rows.to_dict()["systems"]
        texts += ["\nright if the rows are the same:", _table(by_rows)]
    if scope.answers:
        values["out_of_scope"] = scope.to_dict()
        texts += ["", *_scope_texts(scope)]
    causes = None
    if options.breakdown:
        texts += _function_texts(evaluation)
        train = []
        if options.data:
            train = in_scope(read_examples(options.data, allows_out_of_scope=True))
        explain = partial(
            breakdown, examples, evaluation.answers, train=train, judge=judge
        )
        causes = (
            explain(grammar=parser.grammar, text=parser.model.text)
            if parser
            else explain()
        )
        values |= _causes_to_dict(causes)
        texts += _cause_texts(causes)
    print_results(values, *texts)
    if options.write_predictions:
        _write_predictions(options.write_predictions, evaluation, causes)


def _model_and_test(options: EvaluateOptions) -> tuple[Path, Path]:
    """The folder of the model, which --score replaces, and the file of examples."""
    if len(options.paths) == (1 if options.score else 2):
        return options.paths[0], options.paths[-1]
    expected = "TEST alone beside --score" if options.score else "MODEL and TEST"
    reason = f"expected {expected}, found {counted(len(options.paths), 'path')}"
    raise typer.BadParameter(reason, param_hint=PATHS_METAVAR)


def _system(
    model: Path, options: EvaluateOptions
) -> tuple[System, Parser | None, bool]:
    """A model or a file of predictions, perhaps with a fallback, the parser in it, if any, and
    whether the programs of two readers compete.
    """
    device = checked_device(options.device)
    # Files of predictions must have one for every example.
    scored, fallback = (
        path and PredictionFile.read(path, refuses_unknown=True)
        for path in (options.score, options.fallback)
    )
    if scored and not fallback:
        return scored, None, False
    # These load PyTorch.
    from nqg.inference.decoding import DecodeOptions
    from nqg.inference.hybrid import Hybrid, load
    from nqg.inference.parser import Parser

    decoding = DecodeOptions(
        exact=options.no_spell_correction,
        least_confidence=options.min_confidence,
        today=options.today and options.today.date(),
    )
    system: System
    first: System
    if fallback:
        first = scored or Parser.load(model, device).with_options(decoding)
        system = Hybrid(
            first, fallback, asks_both=True, fallback_name=fallback.path.name
        )
    else:
        loaded = load(model, device)
        first = loaded.parser if isinstance(loaded, Hybrid) else loaded
        if isinstance(first, Parser) and decoding.today is None:
            decoding = replace(decoding, today=first.model.text.slots.today)
        system = loaded.with_options(decoding)
        if isinstance(system, Hybrid):
            system = replace(system, asks_both=True)
    parser: System = system
    is_joint = False
    if isinstance(system, Hybrid):
        parser = system.parser
        is_joint = system.calibrator is not None
    return system, parser if isinstance(parser, Parser) else None, is_joint


def _write_predictions(
    path: Path, evaluation: Evaluation, causes: Breakdown | None
) -> None:
    """Write a line of JSON for every prediction; errors have their causes, where they are known."""
    # Examples may be equal, so that findings belong to objects.
    findings = {}
    if causes:
        findings = {
            id(finding.example): finding.to_dict() for finding in causes.findings
        }
    lines = []
    for example, values in zip(evaluation.examples, evaluation.lines()):
        line = json.dumps(values | findings.get(id(example), {}), ensure_ascii=False)
        lines.append(f"{line}\n")
    write_text(path, "".join(lines))
    report_written(path)


def _table(evaluation: Evaluation) -> Table:
    table = new_table(counted(len(evaluation.examples), "example"), *FIGURES)
    for name, scores in evaluation.systems.items():
        cells = []
        for figure, interval in scores.intervals().items():
            cell = percent(getattr(scores, figure))
            cells.append(f"{cell} ({interval})" if interval else cell)
        table.add_row(name, *cells)
    return table


def _score_texts(evaluation: Evaluation) -> list[Any]:
    texts: list[Any] = [_table(evaluation)]
    if evaluation.gain:
        points = f"{evaluation.gain} points of accuracy"
        texts.append(f"\nboth minus the second alone: {points}")
    # Only answers that state a confidence fill bins; without them, leave the table out.
    bins = evaluation.reliability()
    if bins:
        table = new_table("confidence", "answers", "right")
        for row in bins:
            table.add_row(
                percent(row.confidence), f"{row.answers:,}", percent(row.precision)
            )
        # Bins of equal width may be nearly empty, so both kinds of bins are reported.
        error = expected_calibration_error(bins)
        adaptive = expected_calibration_error(evaluation.reliability(adaptive=True))
        with_equal_bins = f"with bins of equal size {adaptive:.3f}"
        texts += [
            "",
            table,
            f"expected calibration error {error:.3f}, {with_equal_bins}",
        ]
    if evaluation.report:
        for header, rows in evaluation.report.tables():
            table = new_table(*header)
            for cells in rows:
                table.add_row(*cells)
            texts += ["", table]
    return texts


def _scope_texts(scope: ScopeEvaluation) -> list[str]:
    texts = [str(scope)]
    for answer in scope.answered:
        sure = ""
        if answer.confidence is not None:
            sure = f" ({in_percent(answer.confidence)})"
        texts.append(f"  {answer.source}: {answer.target}{sure}")
    return texts


def _function_texts(evaluation: Evaluation) -> list[Any]:
    """A table of the functions that are not always right, the worst first."""
    reports = evaluation.functions
    failing = [report for report in reports if report.right < report.examples]
    if not failing:
        return []
    table = new_table("function", "right", "wrong", "abstained", "sentences")
    for report in failing:
        sentences = [*report.wrong, *report.abstained]
        more = len(sentences) - SENTENCES_SHOWN
        if more > 0:
            sentences[SENTENCES_SHOWN:] = [f"{more:,} more"]
        counts = (report.right, len(report.wrong), len(report.abstained))
        table.add_row(report.function, *map(str, counts), "; ".join(sentences))
    return ["", table]


def _cause_texts(causes: Breakdown) -> list[Any]:
    if not causes.findings:
        return ["", "no prediction is wrong or missing"]
    table = new_table("of", "cause", "errors", "share", "holds for", "for example")
    for row in causes.table():
        example = f"{row.example.example.source}: {row.example.detail}"
        counts = f"{row.errors:,}", percent(row.share), f"{row.holds:,}"
        table.add_row(row.by, row.cause, *counts, example)
    texts: list[Any] = ["", table]
    # The gaps that most sentences have come first, so the first few are enough.
    lacks = [f"{item} ({sentences:,})" for item, sentences in causes.lacks().items()]
    if lacks:
        needed = ", ".join(lacks[:LACKS_SHOWN])
        texts.append(f"\nthe grammar lacks most often (sentences): {needed}")
    return texts


def _causes_to_dict(causes: Breakdown) -> dict[str, Any]:
    rows = []
    for row in causes.table():
        cause = row.cause.name.lower()
        rows.append(
            {"by": row.by, "cause": cause, "errors": row.errors, "holds_for": row.holds}
        )
    return {"asked": causes.asked, "causes": rows, "lacks": causes.lacks()}
