"""Causes of errors as stacked bars, one bar a system."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nqg.errors import NqgError
from nqg.evaluation.breakdown import Breakdown, Cause
from nqg.plotting import write_picture

RIGHT, RIGHT_COLOUR = "right", "#dddddd"
COLOURS = {
    Cause.UNKNOWN_WORD: "#223b66",
    Cause.UNKNOWN_CONSTRUCTION: "#4477aa",
    Cause.TOO_LONG: "#88aacc",
    Cause.ILLEGAL_TARGET: "#66ccee",
    Cause.WITHHELD: "#aaddee",
    Cause.GOLD_NOT_DERIVABLE: "#228833",
    Cause.WRONG_DERIVATION: "#88bb66",
    Cause.NO_ANSWER: "#777788",
    Cause.LONGER_TARGET: "#aa3377",
    Cause.UNSEEN_ATOM: "#882255",
    Cause.UNSEEN_TRIGRAM: "#ee6677",
    Cause.RARE_ATOM: "#ffaabb",
    Cause.OTHER: "#ccbb44",
}


def write_plot(path: Path, breakdowns: Mapping[str, Breakdown]) -> None:
    """Draw the errors of all systems of named evaluations, as PNG or SVG by the name of the file.

    An evaluation that stands alone may have the empty name.
    """
    bars = list(_bars(breakdowns))
    if not bars:
        raise NqgError(f"{path}: expected at least one evaluation to draw, found none")
    write_picture(path, lambda figure_class: _drawn(bars, figure_class))


@dataclass(frozen=True, slots=True)
class _Bar:
    """A system in an evaluation: how many of the examples that it was asked are wrong for each cause."""

    label: str
    asked: int
    errors: Mapping[Cause, int]

    @property
    def right(self) -> int:
        return self.asked - sum(self.errors.values())


def _bars(breakdowns: Mapping[str, Breakdown]) -> Iterator[_Bar]:
    for name, found in breakdowns.items():
        table = found.table()
        for by, asked in found.asked.items():
            yield _Bar(
                f"{name}: {by}" if name else by, asked, {line.cause: line.errors for line in table if line.by == by}
            )


def _drawn(bars: list[_Bar], figure_class: Any) -> Any:
    figure = figure_class(figsize=(9, 2.4 + 0.45 * len(bars)), layout="constrained")
    panel = figure.subplots()
    left = _draw_part(panel, RIGHT, RIGHT_COLOUR, [100 * bar.right / bar.asked for bar in bars], [0.0] * len(bars))
    for cause, colour in COLOURS.items():
        shares = [100 * bar.errors.get(cause, 0) / bar.asked for bar in bars]
        if any(shares):
            left = _draw_part(panel, cause, colour, shares, left)
    panel.set_yticks(range(len(bars)), [f"{bar.label} ({bar.asked:,})" for bar in bars])
    panel.invert_yaxis()
    panel.set_xlim(0, 100)
    panel.set_xlabel("share of the examples that it was asked, %", fontsize=9)
    panel.tick_params(labelsize=8)
    panel.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside lower center", ncols=2, fontsize=7, frameon=False)
    return figure


def _draw_part(panel: Any, label: str, colour: str, widths: list[float], left: list[float]) -> list[float]:
    """One cause on all bars, and where the next one begins."""
    panel.barh(range(len(widths)), widths, left=left, color=colour, label=label)
    return [start + width for start, width in zip(left, widths, strict=True)]
