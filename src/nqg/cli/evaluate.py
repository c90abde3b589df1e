"""`nqg evaluate`: how right a model, or another system's predictions, are on examples."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.table import Table

from nqg.cli.terminal import DEVICE, MIRROR, checked_device, out, progress_bar, report_written, tracked
from nqg.data.examples import read_examples
from nqg.errors import NqgError
from nqg.files import write_text

if TYPE_CHECKING:
    from nqg.answers import System
    from nqg.evaluation.breakdown import Breakdown
    from nqg.evaluation.evaluation import Evaluation
    from nqg.evaluation.metrics import Scores
    from nqg.evaluation.spider_match import SpiderReport


LACKS_SHOWN = 10
MOST_NON_TERMINALS = 9  # of a rule in a model folder
OUTCOMES = "Single predictions, and why they are wrong"
BREAKDOWN = typer.Option(
    False, "--breakdown", help="Say why predictions are wrong or missing.", rich_help_panel=OUTCOMES
)
TRAIN = typer.Option(
    None,
    "--train",
    metavar="FILE",
    help="The training examples; they explain errors of systems without a grammar.",
    rich_help_panel=OUTCOMES,
)
ERRORS = typer.Option(
    None,
    "--errors",
    metavar="FILE",
    help="Write every wrong or missing prediction and its cause, a line of JSON each.",
    rich_help_panel=OUTCOMES,
)
PLOT = typer.Option(
    None, "--plot", metavar="FILE", help="Draw the causes as bars, .png or .svg.", rich_help_panel=OUTCOMES
)


@dataclass(frozen=True, slots=True)
class Asked:
    """What the user wants to know about errors, and with what."""

    shown: bool
    train: Path | None
    errors: Path | None
    plot: Path | None

    def __bool__(self) -> bool:
        return self.shown or self.errors is not None or self.plot is not None

    def check(self, *, only_a_grammar: bool) -> None:
        """Refuse questions that cannot be answered, before any work is done."""
        if self and not only_a_grammar and self.train is None:
            raise typer.BadParameter(
                "errors of a system without a grammar are explained by what its training lacked; "
                "name the training examples",
                param_hint="--train",
            )


def broken_down(found: Evaluation, model: Path | None = None, *, asked: Asked) -> Breakdown:
    """The causes of an evaluation's errors, written to the files that were asked for."""
    from nqg.evaluation.breakdown import breakdown, write_plot
    from nqg.grammar.grammar import Grammar

    grammar = Grammar.read(model / "grammar.txt", max_non_terminals=MOST_NON_TERMINALS) if model else None
    train = read_examples(asked.train) if asked.train else []
    causes = breakdown(found.examples, found.answers, train=train, grammar=grammar, judge=found.judge)
    if asked.errors:
        lines = (finding.to_dict() for finding in causes.findings)
        write_text(asked.errors, "".join(f"{json.dumps(line, ensure_ascii=False)}\n" for line in lines))
        report_written(asked.errors)
    if asked.plot:
        write_plot(asked.plot, {"": causes})
        report_written(asked.plot)
    return causes


def show_causes(causes: Breakdown) -> None:
    """Print the table of causes, and what the grammar lacks."""
    from nqg.evaluation.metrics import percent

    table = Table("of", "cause", "errors", "share", "holds for", "for example", box=None, pad_edge=False)
    for line in causes.table():
        example = f"{line.example.example.source}: {line.example.detail}"
        table.add_row(line.by, line.cause, f"{line.errors:,}", percent(line.share), f"{line.holds:,}", example)
    out.print()
    out.print(table if causes.findings else "no prediction is wrong or missing")
    lacks = [f"{each.what} ({each.sentences:,})" for each in causes.lacks()[:LACKS_SHOWN]]
    if lacks:
        out.print(f"\nthe grammar lacks, by the sentences that need it: {', '.join(lacks)}")


def causes_facts(causes: Breakdown) -> dict[str, Any]:
    """The table of causes, for JSON."""
    lines = [
        {"by": line.by, "cause": line.cause.name.lower(), "errors": line.errors, "holds_for": line.holds}
        for line in causes.table()
    ]
    return {"causes": lines, "lacks": {each.what: each.sentences for each in causes.lacks()}}


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
JSON = typer.Option(False, "--json", metavar="", help="Print JSON.")


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
    """Measure how many examples a model answers, and how many correctly.

    Example: nqg evaluate models/mine test.tsv --breakdown

    Accuracy is the share of examples answered correctly, coverage the share that
    is answered, precision the share of answers that are correct; ranges are 95 %
    confidence intervals. Both parts of a model with a fallback are tried on all
    examples, alone and together. The metrics `spider` and `denotation` need files
    of Spider and GeoQuery.
    """
    from nqg.evaluation.evaluation import Evaluation, judge_named

    *model, test = _checked_paths(paths, with_model=predictions_from is None)
    asked = Asked(breakdown, train, errors, plot)
    asked.check(only_a_grammar=fallback is None and bool(model) and not _is_hybrid(model[0]))
    with progress_bar() as progress:
        judge = judge_named(metric, mirror, progress)
    examples = read_examples(test)
    if not examples:
        raise NqgError(f"{test}: expected at least one example, found none")
    system = _system(
        model[0] if model else None,
        [path for path in (predictions_from, fallback) if path],
        checked_device(device),
        only_legal,
    )
    answers = tracked(system.answers(example.source for example in examples), "answering", len(examples))
    found = Evaluation(judge, examples, list(answers))
    causes = broken_down(found, *model, asked=asked) if asked else None
    if as_json:
        out.print_json(data={"metric": metric, **found.to_dict(), **(causes_facts(causes) if causes else {})})
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


def _system(model: Path | None, files: Sequence[Path], device: str | None, only_legal: bool) -> System:
    """Who answers: a model or a file of predictions, and perhaps another file where the first abstains."""
    from nqg.answers import PredictionFile

    systems: list[System] = [PredictionFile.read(path, refuses_unknown=True) for path in files]
    if model is None and len(files) == 1:
        return systems[0]
    from nqg.inference.hybrid import Hybrid, load_model  # which load PyTorch
    from nqg.inference.parser import DecodeOptions, Parser

    options = DecodeOptions(only_legal=only_legal)
    if model and not files:
        system = load_model(model, device).with_options(options)
        return replace(system, asks_both=True) if isinstance(system, Hybrid) else system
    if model:
        systems.insert(0, Parser.load(model, device).with_options(options))
    return Hybrid(systems[0], systems[1], asks_both=True, fallback_name=files[-1].name)


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
