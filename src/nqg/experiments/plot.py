"""Results as pictures: our accuracy beside the paper's, split by split."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nqg.evaluation.seeds import Spread
from nqg.experiments.recipe import Recipe
from nqg.experiments.summary import Results
from nqg.experiments.tables import GEOQUERY, SCAN, SPIDER, recipes_run
from nqg.plotting import svg, write_picture

COLOURS = {"nqg": "#4477aa", "seq2seq": "#ccbb44", "hybrid": "#228833", "gated": "#66ccee"}
PAPER = {"nqg": "NQG", "seq2seq": "T5-Base", "hybrid": "NQG-T5-Base", "gated": "NQG-T5-Base"}
GROUPS = {"SCAN": SCAN, "GeoQuery": GEOQUERY, "Spider-SSP": SPIDER}


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar of ours and the mark of the paper's figure on it."""

    title: str
    colour: str
    figure: Spread
    paper: float | None


def write_plot(path: Path, results: Results) -> None:
    """Draw accuracies as bars, the paper's figures as marks on them, as PNG or SVG by the name of the file."""
    write_picture(path, lambda figure_class: _drawn(results, figure_class))


def pictures(results: Results) -> list[str]:
    """The same picture as SVG for a page; none where nothing was run."""
    return [svg(lambda figure_class: _drawn(results, figure_class))] if results.records else []


def _drawn(results: Results, figure_class: Any) -> Any:
    recipes = [recipe for names in GROUPS.values() for recipe in recipes_run(results, names)]
    bars = [list(_bars(results, recipe)) for recipe in recipes]
    figure = figure_class(figsize=(9, 1 + 0.35 * len(recipes) + 0.22 * sum(map(len, bars))), layout="constrained")
    panels = figure.subplots(max(len(recipes), 1), 1, sharex=True, squeeze=False, height_ratios=_heights(bars))
    for panel, recipe, drawn in zip(panels[:, 0], recipes, bars, strict=False):
        _draw(panel, recipe, drawn)
    figure.supxlabel("accuracy in per cent; a black mark is the paper's figure", fontsize=9)
    return figure


def _heights(bars: Sequence[Sequence[Bar]]) -> list[int]:
    return [len(group) + 1 for group in bars] or [1]


def _bars(results: Results, recipe: Recipe) -> Iterator[Bar]:
    for series in results.series([recipe.name]):
        figure = results.figure(recipe.name, series, "accuracy")
        if figure:
            paper = recipe.paper.accuracy.get(PAPER[series.system])
            yield Bar(series.title, COLOURS[series.system], figure, paper)


def _draw(panel: Any, recipe: Recipe, bars: Sequence[Bar]) -> None:
    """The bars of one recipe, the first on top; whiskers are standard deviations over seeds."""
    for place, bar in enumerate(bars):
        whisker = {"xerr": 100 * bar.figure.deviation} if bar.figure.deviation else {}
        drawn = panel.barh(place, 100 * bar.figure.mean, color=bar.colour, height=0.75, **whisker)
        panel.bar_label(drawn, fmt="%.1f", padding=4, fontsize=7)
        if bar.paper is not None:
            panel.plot([bar.paper, bar.paper], [place - 0.42, place + 0.42], color="black", linewidth=2)
    panel.set_yticks(range(len(bars)), [bar.title for bar in bars])
    panel.set_title(recipe.title, fontsize=9, loc="left")
    panel.set_xlim(0, 108)
    panel.invert_yaxis()
    panel.tick_params(labelsize=7)
    panel.spines[["top", "right"]].set_visible(False)
