"""`nqg plot`: pictures of what other commands write, PNG or SVG; what a file holds decides how it
is drawn.

Matplotlib, of the extra `paper`, loads when something is drawn.
"""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import groupby
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any

import typer

from nqg.cli.terminal import report_written
from nqg.errors import FormatError, MissingExtra, NqgError
from nqg.evaluation.error_analysis import Cause
from nqg.extensions import load_extension
from nqg.files import numbered_lines, read_json, strict_json, written_atomically
from nqg.induction.search import Phase
from nqg.induction.search_log import StepRecord, read_search_log
from nqg.paper.records import KIND, RESULTS_FILE, STYLES, Results, records
from nqg.paper.tables import drawn_recipes
from nqg.pipeline.learning_curve import CurvePoint
from nqg.training.records import TrainingStep, read_steps

PICTURE_FORMATS = (".png", ".svg")
DRAWABLE = (
    "a model folder or its training.jsonl, a log of `nqg induce`, what `nqg check-split --json` or "
    "`nqg evaluate --json` prints, or the records of `nqg reproduce`"
)
# Makes a figure with the class that it is given, Matplotlib's `Figure`.
Draw = Callable[[Any], Any]
# With a fixed salt for its ids, the same picture has the same bytes.
SETTINGS: Any = {
    "svg.hashsalt": "nqg",
    "axes.labelsize": 9,
    "axes.titlesize": 9,
    "figure.labelsize": 9,
    "figure.titlesize": 10,
    "legend.fontsize": 8,
    "legend.frameon": False,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
}
GREY, BLUE, RED, YELLOW, BLACK = "#bbbbcc", "#4477aa", "#ee6677", "#ccbb44", "#444455"
DARK_GREY = "#777788"


def plot(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE|FOLDER",
            help="What another command wrote or printed.",
            show_default=False,
        ),
    ],
    picture: Annotated[
        Path,
        typer.Option(
            "-o", "--output", metavar="PICTURE", help="Where to write it, .png or .svg."
        ),
    ],
) -> None:
    """Draw what another command wrote: a training, a search, splits, errors.

    Example: nqg plot models/mine -o training.png

    FILE is a model folder or its training.jsonl (loss and dev accuracy), a log of
    `nqg induce`, what `nqg check-split --json` prints (measures and lengths) or
    `nqg evaluate --json` (causes of errors, confidence), or a folder of results.
    """
    check_format(picture)
    write_picture(picture, drawing(file))
    report_written(picture)


def check_format(path: Path) -> None:
    if path.suffix not in PICTURE_FORMATS:
        formats = " or ".join(PICTURE_FORMATS)
        raise NqgError(f"{path}: a plot is written as {formats}, found '{path.suffix}'")


def check_picture(path: Path) -> None:
    """Refuse a picture that could not be drawn, before the work for it begins."""
    check_format(path)
    load_extension("matplotlib:rc_context", "drawing a plot")


def draw_learning_curve(path: Path, points: Sequence[CurvePoint]) -> None:
    """Write the learning curve of `nqg train --plot`."""
    write_picture(path, partial(learning_curve_figure, points))


def write_picture(path: Path, draw: Draw) -> None:
    """Draw a picture, in the format that the file's name says, whole or not at all."""
    check_format(path)
    raw = drawn(draw, path.suffix[1:])
    with written_atomically(path) as file:
        file.write(raw)


def drawn(draw: Draw, form: str) -> bytes:
    """The bytes of a picture."""
    try:
        import matplotlib
        import matplotlib.figure
    except ImportError as error:
        raise MissingExtra("drawing a plot", "paper") from error
    file = io.BytesIO()
    with matplotlib.rc_context(SETTINGS):
        metadata = {"Date": None} if form == "svg" else None
        draw(matplotlib.figure.Figure).savefig(
            file, format=form, dpi=150, metadata=metadata
        )
    return file.getvalue()


def drawing(path: Path) -> Draw:
    """How the contents of a file, or of a folder, are drawn."""
    if path.is_dir():
        # A folder of results has records, a model folder its training.
        records_file = path / RESULTS_FILE
        return _lines(
            records_file if records_file.exists() else path / "training.jsonl"
        )
    if path.suffix == ".jsonl":
        return _lines(path)
    values = read_json(path)
    if isinstance(values, list) and {*map(type, values)} == {dict}:
        return partial(_checked, splits_figure, values, path)
    if isinstance(values, dict) and ("asked" in values or "reliability" in values):
        return partial(_checked, evaluation_figure, values, path)
    raise FormatError(f"expected {DRAWABLE}", path)


def _checked(
    figure: Callable[[Any, Any], Any], values: Any, path: Path, figure_class: Any
) -> Any:
    """The figure of printed values; where they are not what was printed, an error says so."""
    try:
        return figure(values, figure_class)
    except (
        AttributeError,
        KeyError,
        TypeError,
        ValueError,
        ZeroDivisionError,
    ) as error:
        reason = f"expected {DRAWABLE}; found other keys or values ({error})"
        raise FormatError(reason, path) from error


def _lines(path: Path) -> Draw:
    """How a file of JSON lines is drawn: its first one tells what it is."""
    for place, line in numbered_lines(path):
        match strict_json(line, place):
            case {"loss": _}:
                return partial(training_figure, read_steps(path))
            case {"grammar_bits": _}:
                return partial(search_figure, read_search_log(path))
            case {"kind": kind} if kind == KIND:
                return partial(results_figure, Results.collected(records(path.parent)))
        break
    raise FormatError(f"expected {DRAWABLE}", path)


def _hide_spines(panel: Any) -> None:
    panel.spines[["top", "right"]].set_visible(False)


# --- A training: losses above, dev examples that are right below.

DEV_LINE: dict[str, Any] = {
    "color": RED,
    "marker": "o",
    "markersize": 3,
    "clip_on": False,
}
# How many windows of the running mean a whole training has; chosen by eye.
WINDOWS = 20


def training_figure(steps: Sequence[TrainingStep], figure_class: Any) -> Any:
    figure = figure_class(figsize=(9, 5.5), layout="constrained")
    evaluated = [step for step in steps if step.dev]
    panels = figure.subplots(1 + bool(evaluated), 1, sharex=True, squeeze=False)[:, 0]
    _draw_losses(panels[0], steps)
    last = steps[-1]
    title = f"{last.number:,} steps, loss {last.loss:.4f} in the last"
    # Below, the accuracy on dev examples, if there were any.
    if evaluated:
        shares = {step.number: step.dev.exact_match for step in evaluated if step.dev}
        percents = [100 * share for share in shares.values()]
        panels[1].plot(list(shares), percents, **DEV_LINE)
        panels[1].set_ylim(0, 100)
        panels[1].set_ylabel("dev examples right, per cent")
        title += f"; at best {max(shares.values()):.1%} of the dev examples right"
    for panel in panels:
        panel.set_xlim(0, last.number)
        _hide_spines(panel)
    panels[-1].set_xlabel("step")
    figure.suptitle(title)
    return figure


def _draw_losses(panel: Any, steps: Sequence[TrainingStep]) -> None:
    numbers, losses = [step.number for step in steps], [step.loss for step in steps]
    # Batches differ so much that only their mean shows a trend.
    window = max(1, len(losses) // WINDOWS)
    panel.plot(numbers, losses, color=GREY, linewidth=0.8, label="a batch")
    means = running_means(losses, window)
    panel.plot(
        numbers, means, color=BLUE, linewidth=1.6, label=f"mean of {window:,} batches"
    )
    dev = [
        (step.number, step.dev.loss)
        for step in steps
        if step.dev and step.dev.loss is not None
    ]
    if dev:
        panel.plot(*zip(*dev), **DEV_LINE, label="dev examples")
    panel.set_ylim(bottom=0)
    panel.set_ylabel("loss, nats a sentence")
    panel.legend()


def running_means(values: Sequence[float], window: int) -> list[float]:
    """For every value the mean of the last `window`, itself included; at the beginning of as many
    as there are.

    >>> running_means([4.0, 2.0, 0.0], window=2)
    [4.0, 3.0, 1.0]
    """
    ends = range(1, len(values) + 1)
    return [fmean(values[max(0, end - window) : end]) for end in ends]


# --- A learning curve: what is answered, and what of it is right, over the number of examples.


def learning_curve_figure(points: Sequence[CurvePoint], figure_class: Any) -> Any:
    figure = figure_class(figsize=(6, 3.6), layout="constrained")
    panel = figure.subplots()
    counts, coverage, precision, accuracy = [], [], [], []
    for point in points:
        counts.append(point.examples)
        coverage.append(100 * point.scores.coverage)
        precision.append(100 * (point.scores.precision or math.nan))
        accuracy.append(100 * point.scores.accuracy)
    panel.plot(counts, coverage, marker="o", color=BLUE, label="coverage: answered")
    panel.plot(
        counts, precision, marker="s", color=YELLOW, label="precision: answers right"
    )
    # Where all answers are right, accuracy is coverage: the dashes leave both visible.
    panel.plot(
        counts,
        accuracy,
        marker="^",
        linestyle="--",
        color=RED,
        label="accuracy: right of all",
    )
    panel.set_xticks(counts)
    panel.set_ylim(0, 105)
    panel.set_xlabel("examples learned from")
    panel.set_ylabel("per cent of held-out sentences")
    panel.legend()
    _hide_spines(panel)
    held_out = points[-1].scores.examples
    figure.suptitle(f"{held_out:,} held-out sentences, without a threshold")
    return figure


# --- A search for rules: description length above, the number of rules below, phases as shades.

# Colours and their names, but for that of the phase with which every search begins.
SHADES = {
    Phase.SPLITTING: ("#ffffff", ""),
    Phase.FACTORING: ("#fdf0c8", "yellow"),
    Phase.PRUNING: ("#d5ead5", "green"),
    Phase.RETURNING: ("#f3d9e8", "pink"),
    Phase.SAMPLING: ("#d3e3f5", "blue"),
    Phase.FRAMING: ("#777788", "grey"),
}


def search_figure(log: Sequence[StepRecord], figure_class: Any) -> Any:
    figure = figure_class(figsize=(9, 5.5), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=[3, 1])
    # The objective and its two terms; a term of 0 cannot be shown on a logarithmic scale.
    totals, grammar_bits, data_bits, rules = [], [], [], []
    for record in log:
        totals.append(record.length.total)
        grammar_bits.append(record.grammar_bits)
        data_bits.append(record.data_bits or math.nan)
        rules.append(record.rules)
    above.plot(totals, color=GREY, linewidth=4.0, label="total")
    above.plot(grammar_bits, color=BLUE, linewidth=1.4, label="grammar")
    above.plot(data_bits, color=RED, linewidth=1.4, label="data")
    above.set_ylabel("description length, bits")
    above.legend()
    above.set_yscale("log")
    below.plot(rules, color=BLACK, linewidth=1.2)
    below.set_ylim(bottom=0)
    below.set_ylabel("rules")
    # The label of the steps explains the shades of their phases.
    label = "step"
    phases = {record.phase for record in log}
    for phase, (_, name) in SHADES.items():
        if name and phase in phases:
            label += f"; {name}: {phase}"
    below.set_xlabel(label)
    for panel in (above, below):
        panel.yaxis.set_major_formatter("{x:,.0f}")
        panel.set_xlim(0, max(1, len(log) - 1))
        _hide_spines(panel)
        # Steps of the same phase in a row have one shade.
        end = 0
        for phase_name, steps in groupby(record.phase for record in log[1:]):
            start, end = end, end + len(list(steps))
            panel.axvspan(start, end, color=SHADES[Phase(phase_name)][0], zorder=-1)
    last = log[-1]
    figure.suptitle(
        f"{last.rules:,} rules, {last.length.total:,.0f} bits after {last.step:,} steps"
    )
    return figure


# --- Splits: a bar for each measure and split, and lengths of sentences and programs.

COLOURS = {"train": BLUE, "dev": YELLOW, "test": RED}
DRAWN_SIDES = ("source", "target")
# What is drawn as bars, and how the figures beside them are written.
SPLIT_MEASURES = {
    "compound divergence": "%.3f",
    "atom divergence": "%.3f",
    "test examples with unseen atoms, %": "%.1f",
    "test templates seen in train, %": "%.1f",
}


def split_measures(split: Mapping[str, Any]) -> tuple[float, ...]:
    """The measures of a split, in the order of `SPLIT_MEASURES`."""
    return (
        split["compound_divergence"],
        split["atom_divergence"],
        100 * split["unseen_atom_share"],
        100 * split["shared_templates"] / split["test_templates"],
    )


def splits_figure(splits: Sequence[Mapping[str, Any]], figure_class: Any) -> Any:
    """The measures of splits, as `Audit.to_dict` writes them."""
    # Heights in inches that leave room for a line of text beside each bar; chosen by eye.
    count = len(splits)
    figure = figure_class(figsize=(12, 2.2 + 2.2 * count), layout="constrained")
    above, below = figure.subfigures(
        2, 1, height_ratios=[1.6 + 0.3 * count, 1.9 * count]
    )
    panels = above.subplots(1, len(SPLIT_MEASURES), sharey=True)
    measures = zip(SPLIT_MEASURES.items(), zip(*map(split_measures, splits)))
    for panel, ((title, written), values) in zip(panels, measures):
        # A bar for each split, the first on top, with its value beside it.
        bars = panel.barh(range(count), values, color=DARK_GREY)
        panel.bar_label(bars, fmt=written, padding=3, fontsize=8)
        panel.set_yticks(range(count), [split["name"] for split in splits])
        panel.set_xlim(0, max(values) * 1.25 or 1)
        panel.locator_params(axis="x", nbins=5)
        panel.set_title(title)
        if not panel.yaxis_inverted():
            panel.invert_yaxis()
    # A row of histograms for each split.
    rows = below.subplots(count, len(DRAWN_SIDES), squeeze=False, sharex="col")
    for row, split in zip(rows, splits):
        for panel, side in zip(row, DRAWN_SIDES):
            _draw_lengths(panel, split, side)
    below.supxlabel("length in tokens")
    return figure


def _draw_lengths(panel: Any, split: Mapping[str, Any], side: str) -> None:
    """The share of examples at every length, train, dev and test over each other."""
    for name, lengths in split["lengths"].items():
        histogram = {int(length): count for length, count in lengths[side].items()}
        if histogram:
            total = sum(histogram.values())
            # From length 0 on, and an empty column after the last.
            columns = range(max(histogram) + 2)
            shares = [histogram.get(length, 0) / total for length in columns]
            colour = COLOURS[name]
            panel.fill_between(columns, shares, step="mid", alpha=0.35, color=colour)
            panel.step(
                columns, shares, where="mid", color=colour, linewidth=1, label=name
            )
    panel.set_title(f"{split['name']}: {side} length, share of examples")
    panel.legend()


# --- An evaluation: causes of errors as bars, and how often answers of each confidence are right.

RIGHT_SHARE = "right"
BLUES = ("#223b66", "#4477aa", "#88aacc", "#66ccee", "#77bbdd", "#aaddee", "#cceeff")
GREENS = ("#228833", "#88bb66")
REDS = ("#aa3377", "#882255", "#ee6677", "#ffaabb")
CAUSE_COLOURS = dict(
    zip(Cause, (*BLUES, *GREENS, DARK_GREY, *REDS, YELLOW), strict=True)
)


def evaluation_figure(evaluation: Mapping[str, Any], figure_class: Any) -> Any:
    """What `nqg evaluate --json` prints: errors by their causes, confidence, or both."""
    totals, bins = evaluation.get("asked", {}), evaluation.get("reliability", [])
    heights = []
    if totals:
        heights.append(2.4 + 0.45 * len(totals))
    if bins:
        heights.append(4.0)
    figure = figure_class(figsize=(9, sum(heights)), layout="constrained")
    grid = figure.subfigures(len(heights), 1, squeeze=False, height_ratios=heights)
    figures = grid[:, 0]
    if totals:
        _draw_causes(figures[0], totals, evaluation["causes"])
    if bins:
        _draw_reliability(figures[-1], bins)
    return figure


def _draw_causes(
    figure: Any, asked: Mapping[str, int], causes: Sequence[Mapping[str, Any]]
) -> None:
    """A bar for each system: the share of right answers, and that of each cause of errors."""
    # What is not an error is right.
    counts = {system: {RIGHT_SHARE: total} for system, total in asked.items()}
    for line in causes:
        of_system = counts[line["by"]]
        of_system[Cause[line["cause"].upper()]] = line["errors"]
        of_system[RIGHT_SHARE] -= line["errors"]
    # Bars of the same system are put next to each other, beginning with the right answers.
    panel = figure.subplots()
    rows = range(len(asked))
    left = [0.0] * len(asked)
    for cause, colour in [(RIGHT_SHARE, "#dddddd"), *CAUSE_COLOURS.items()]:
        widths = [
            100 * counts[system].get(cause, 0) / total
            for system, total in asked.items()
        ]
        if cause == RIGHT_SHARE or any(widths):
            panel.barh(rows, widths, left=left, color=colour, label=cause)
            left = list(map(sum, zip(left, widths)))
    panel.set_yticks(rows, [f"{system} ({total:,})" for system, total in asked.items()])
    panel.invert_yaxis()
    panel.set_xlim(0, 100)
    panel.set_xlabel("share of the examples that it was asked, %")
    _hide_spines(panel)
    figure.legend(loc="outside lower center", ncols=2, fontsize=7)


def _draw_reliability(figure: Any, bins: Sequence[Mapping[str, Any]]) -> None:
    """How often answers of each confidence are right; those of a calibrated model lie on the
    diagonal.
    """
    panel = figure.subplots()
    # The diagonal, the points, and how many answers each stands for.
    points = [(bin_["confidence"], bin_["precision"]) for bin_ in bins]
    panel.plot([0, 1], [0, 1], color=GREY, linewidth=1)
    panel.plot(*zip(*points), color=BLUE, marker="o", clip_on=False)
    for point, bin_ in zip(points, bins):
        panel.annotate(f"{bin_['answers']:,}", point, fontsize=7)
    panel.set_xlim(0, 1)
    panel.set_ylim(0, 1)
    panel.set_xlabel("confidence")
    panel.set_ylabel("share of answers that are right")
    _hide_spines(panel)


# --- Results of recipes: accuracies as bars, the paper's figures as marks on them.


def results_figure(results: Results, figure_class: Any) -> Any:
    """A panel for each recipe, its first series on top; whiskers are standard deviations over
    seeds.
    """
    recipes = drawn_recipes(results)
    sizes = [len(accuracies) for _, accuracies in recipes]
    height = 1 + 0.35 * len(recipes) + 0.22 * sum(sizes)
    figure = figure_class(figsize=(9, height), layout="constrained")
    ratios = [size + 1 for size in sizes] or [1]
    panels = figure.subplots(
        len(ratios), 1, sharex=True, squeeze=False, height_ratios=ratios
    )
    for panel, (recipe, accuracies) in zip(panels[:, 0], recipes):
        for row, (series, accuracy) in enumerate(accuracies):
            style = STYLES[series.system]
            whisker = {"xerr": 100 * accuracy.deviation} if accuracy.deviation else {}
            bar = panel.barh(
                row, 100 * accuracy.mean, color=style.colour, height=0.75, **whisker
            )
            panel.bar_label(bar, fmt="%.1f", padding=4, fontsize=7)
            paper = recipe.paper.accuracy.get(style.paper)
            if paper is not None:
                panel.plot(
                    [paper, paper], [row - 0.42, row + 0.42], color="black", linewidth=2
                )
        panel.set_yticks(
            range(len(accuracies)), [series.title for series, _ in accuracies]
        )
        panel.set_title(recipe.title, loc="left")
        panel.set_xlim(0, 108)
        panel.invert_yaxis()
        _hide_spines(panel)
        panel.tick_params(labelsize=7)
    figure.supxlabel("accuracy in per cent; a black mark is the paper's figure")
    return figure
