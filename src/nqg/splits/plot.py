"""Audits as a picture that compares several splits of a dataset."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from nqg.plotting import write_picture
from nqg.splits.audit import Audit, Histogram
from nqg.splits.length import Side

COLOURS = {"train": "#4477aa", "dev": "#ccbb44", "test": "#ee6677"}
BAR_COLOUR = "#777788"
MEASURES: dict[str, tuple[str, Callable[[Audit], float]]] = {
    "compound divergence": ("%.3f", lambda audit: audit.compound_divergence),
    "atom divergence": ("%.3f", lambda audit: audit.atom_divergence),
    "test examples with unseen atoms, %": ("%.1f", lambda audit: 100 * audit.unseen_atom_share),
    "test templates seen in train, %": ("%.1f", lambda audit: 100 * audit.shared_templates / audit.test_templates),
}
"""What is drawn as bars, and how the figures beside them are written."""


def write_plot(path: Path, audits: Sequence[Audit]) -> None:
    """Draw the figures and the lengths of all `audits`, as PNG or SVG by the name of the file."""
    write_picture(path, lambda figure_class: _drawn(audits, figure_class))


def _drawn(audits: Sequence[Audit], figure_class: Any) -> Any:
    figure = figure_class(figsize=(12, 2.2 + 0.3 * len(audits) + 1.9 * len(audits)), layout="constrained")
    above, below = figure.subfigures(2, 1, height_ratios=[1.6 + 0.3 * len(audits), 1.9 * len(audits)])
    for panel, title in zip(above.subplots(1, len(MEASURES), sharey=True), MEASURES, strict=True):
        _draw_bars(panel, title, audits)
    rows = below.subplots(len(audits), len(Side), squeeze=False, sharex="col")
    for row, audit in zip(rows, audits, strict=True):
        for panel, side in zip(row, Side, strict=True):
            _draw_lengths(panel, audit, side)
    below.supxlabel("length in tokens", fontsize=9)
    return figure


def _draw_bars(panel: Any, title: str, audits: Sequence[Audit]) -> None:
    """A bar for each split, the first on top, with its value beside it."""
    written, measure = MEASURES[title]
    values = [measure(audit) for audit in audits]
    drawn = panel.barh(range(len(audits)), values, color=BAR_COLOUR)
    panel.bar_label(drawn, fmt=written, padding=3, fontsize=8)
    panel.set_yticks(range(len(audits)), [audit.name for audit in audits])
    panel.set_xlim(0, max(values, default=0) * 1.25 or 1)
    panel.locator_params(axis="x", nbins=5)
    panel.set_title(title, fontsize=9)
    panel.tick_params(labelsize=8)
    if not panel.yaxis_inverted():
        panel.invert_yaxis()


def _draw_lengths(panel: Any, audit: Audit, side: Side) -> None:
    """The share of each part's examples at every length, the parts over each other."""
    for part, lengths in audit.lengths.items():
        histogram = lengths.of(side)
        if histogram:
            shares = _shares(histogram)
            panel.fill_between(range(len(shares)), shares, step="mid", alpha=0.35, color=COLOURS[part])
            panel.step(range(len(shares)), shares, where="mid", color=COLOURS[part], linewidth=1, label=part)
    panel.set_title(f"{audit.name}: {side} length, share of examples", fontsize=9)
    panel.tick_params(labelsize=8)
    panel.legend(fontsize=8, frameon=False)


def _shares(histogram: Histogram) -> list[float]:
    """The share of examples at every length from 0 on, and an empty place after the last."""
    total = sum(histogram.values())
    return [histogram.get(length, 0) / total for length in range(max(histogram) + 2)]
