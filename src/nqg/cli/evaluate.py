"""`nqg evaluate`: how right a model, or another system's predictions, are on examples."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.table import Table

from nqg.cli.causes import BREAKDOWN, ERRORS, OUTCOMES, PLOT, TRAIN, Asked, broken_down, causes_facts, show_causes
from nqg.cli.data import MIRROR, drawn_downloads
from nqg.cli.device import DEVICE, checked_device
from nqg.cli.replies import Replies, hybrids_replies, parsers_replies, read_replies
from nqg.cli.terminal import out, report_written
from nqg.data.example import Example
from nqg.data.example_files import read_examples
from nqg.errors import NqgError
from nqg.files import write_text

if TYPE_CHECKING:
    from nqg.evaluation.evaluation import Evaluation
    from nqg.evaluation.metrics import Scores
    from nqg.evaluation.spider_report import SpiderReport

OTHERS = "Systems other than a model of nqg"
SHOWN = ("accuracy", "coverage", "precision")

PATHS = typer.Argument(
    metavar="[MODEL] TEST", help="A folder that `nqg train` wrote, and examples to try it on.", show_default=False
)
FROM = typer.Option(
    None,
    "--predictions-from",
    metavar="FILE",
    help="Score these predictions, .tsv or .jsonl, instead of a model's.",
    rich_help_panel=OTHERS,
)
FALLBACK = typer.Option(
    None,
    "--fallback",
    metavar="FILE",
    help="Predictions of another system, which answers where the first abstains.",
    rich_help_panel=OTHERS,
)
METRIC = typer.Option("exact", "--metric", metavar="NAME", help="What counts as right: exact, spider or denotation.")
ONLY_LEGAL = typer.Option(False, "--only-legal", help="Where the best program is illegal, take the best legal one.")
PREDICTIONS = typer.Option(
    None,
    "--predictions",
    metavar="FILE",
    help="Write every prediction there, a line of JSON each.",
    rich_help_panel=OUTCOMES,
)
JSON = typer.Option(False, "--json", help="Print JSON.")


def evaluate(
    paths: list[Path] = PATHS,
    predictions_from: Path | None = FROM,
    fallback: Path | None = FALLBACK,
    metric: str = METRIC,
    only_legal: bool = ONLY_LEGAL,
    device: str | None = DEVICE,
    predictions: Path | None = PREDICTIONS,
    breakdown: bool = BREAKDOWN,
    train: Path | None = TRAIN,
    errors: Path | None = ERRORS,
    plot: Path | None = PLOT,
    mirror: Path | None = MIRROR,
    as_json: bool = JSON,
) -> None:
    """Try a model on examples: how many it answers, and how many it gets right.

    Example: nqg evaluate models/mine test.tsv --breakdown

    Accuracy is the share that comes out right, coverage the share that is answered, precision the share of answers that
    are right. A prediction or a reason for every example is written by --predictions and --errors.
    Of a model with a fallback, both parts are tried on all examples, alone and together.
    Ranges are 95 % confidence intervals. The metrics `spider` and `denotation` need files of Spider and GeoQuery.
    """
    from nqg.evaluation.evaluation import Evaluation
    from nqg.evaluation.judges import judge_named

    *model, test = _checked_paths(paths, with_model=predictions_from is None)
    asked = Asked(breakdown, train, errors, plot)
    asked.check(only_a_grammar=fallback is None and bool(model) and not _is_hybrid(model[0]))
    with drawn_downloads() as report:
        judge = judge_named(metric, mirror, report)
    examples = read_examples(test)
    if not examples:
        raise NqgError(f"{test}: expected at least one example, found none")
    if predictions_from:
        replies = Replies(read_replies(predictions_from, examples))
    else:
        replies = _replies(model[0], examples, checked_device(device), only_legal, alone=fallback is not None)
    others = read_replies(fallback, examples) if fallback else replies.fallback
    found = Evaluation(judge, examples, replies.own, others)
    causes = broken_down(found, *model, asked=asked) if asked else None
    if as_json:
        out.print_json(data={"metric": metric, **found.facts(), **(causes_facts(causes) if causes else {})})
    else:
        _show(found)
        if causes and breakdown:
            show_causes(causes)
    if predictions:
        write_text(predictions, "".join(f"{json.dumps(line, ensure_ascii=False)}\n" for line in found.lines()))
        report_written(predictions)


def _checked_paths(paths: Sequence[Path], with_model: bool) -> Sequence[Path]:
    if len(paths) != 1 + with_model:
        expected = "MODEL and TEST" if with_model else "TEST alone beside --predictions-from"
        raise typer.BadParameter(f"expected {expected}, found {len(paths)} paths", param_hint="[MODEL] TEST")
    return paths


def _replies(model: Path, examples: Sequence[Example], device: str | None, only_legal: bool, alone: bool) -> Replies:
    """What the model in a folder says: a hybrid, unless its parser is to be taken `alone`."""
    from nqg.inference.hybrid import Hybrid
    from nqg.inference.parser import Parser

    if _is_hybrid(model) and not alone:
        return hybrids_replies(Hybrid.load(model, device), examples, only_legal=only_legal)
    return parsers_replies(Parser.load(model, device), examples, only_legal=only_legal)


def _is_hybrid(model: Path) -> bool:
    from nqg.inference.hybrid import has_fallback  # which loads PyTorch: not for predictions from a file

    return has_fallback(model)


def _show(found: Evaluation) -> None:
    table = Table(f"{len(found.examples):,} examples", *SHOWN, box=None, pad_edge=False)
    for name, scores in found.systems.items():
        table.add_row(name, *_cells(scores))
    out.print(table)
    if found.gain:
        out.print(f"\ntogether they are above the second alone by {found.gain} points of accuracy")
    if found.spider:
        _show_spider(found.spider)


def _cells(scores: Scores) -> Iterator[str]:
    """A share and its interval for each column."""
    from nqg.evaluation.metrics import percent

    intervals = scores.intervals()
    for name in SHOWN:
        interval = intervals[name]
        yield percent(getattr(scores, name)) + (f" ({interval})" if interval else "")


def _show_spider(report: SpiderReport) -> None:
    from nqg.evaluation.metrics import percent

    levels = Table("hardness", "examples", "accuracy", box=None, pad_edge=False)
    for level, scores in report.levels.items():
        levels.add_row(level, f"{scores.examples:,}", next(_cells(scores)))
    parts = Table("component", "precision", "recall", "F1", box=None, pad_edge=False)
    for each in report.components:
        parts.add_row(each.name, percent(each.precision), percent(each.recall), percent(each.f1))
    for table in (levels, parts):
        out.print()
        out.print(table)
