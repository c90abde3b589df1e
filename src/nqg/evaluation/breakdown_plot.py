"""Causes of errors as stacked bars, one bar a system; Matplotlib is optional and loads late."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nqg.errors import MissingExtra, NqgError
from nqg.evaluation.breakdown import Breakdown, Cause
from nqg.files import written_atomically

FORMATS = (".png", ".svg")
UNDATED = {".svg": {"Date": None}}
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
    """Draw the errors of all systems of named evaluations, as PNG or SVG by the name of the file."""
    if path.suffix not in FORMATS:
        raise NqgError(f"{path}: a plot is written as {' or '.join(FORMATS)}, found '{path.suffix}'")
    bars = list(_bars(breakdowns))
    if not bars:
        raise NqgError(f"{path}: expected at least one evaluation to draw, found none")
    try:
        import matplotlib
        import matplotlib.figure
    except ImportError as error:
        raise MissingExtra("drawing a plot", "plots") from error
    # Without a date and with a fixed salt for its ids, the same breakdowns give the same bytes.
    with matplotlib.rc_context({"svg.hashsalt": "nqg"}), written_atomically(path) as file:
        figure = matplotlib.figure.Figure(figsize=(9, 2.4 + 0.45 * len(bars)), layout="constrained")
        _draw(figure, bars)
        figure.savefig(file, format=path.suffix[1:], dpi=150, metadata=UNDATED.get(path.suffix))


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
            yield _Bar(f"{name}: {by}", asked, {line.cause: line.errors for line in table if line.by == by})


def _draw(figure: Any, bars: list[_Bar]) -> None:
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


def _draw_part(panel: Any, label: str, colour: str, widths: list[float], left: list[float]) -> list[float]:
    """One cause on all bars, and where the next one begins."""
    panel.barh(range(len(widths)), widths, left=left, color=colour, label=label)
    return [start + width for start, width in zip(left, widths, strict=True)]
