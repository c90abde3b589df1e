"""The steps of a search as a picture."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from nqg.induction.search import Phase
from nqg.induction.trace import Trace
from nqg.plotting import write_picture

COLOURS = {"total": "#bbbbcc", "grammar": "#4477aa", "data": "#ee6677", "rules": "#444455"}
WIDTHS = {"total": 4.0, "grammar": 1.4, "data": 1.4}
SHADES = {
    Phase.SPLITTING: "#ffffff",
    Phase.FACTORING: "#fdf0c8",
    Phase.PRUNING: "#d5ead5",
    Phase.SAMPLING: "#d3e3f5",
}
SHADE_NAMES = {Phase.FACTORING: "yellow", Phase.PRUNING: "green", Phase.SAMPLING: "blue"}


def write_plot(path: Path, trace: Trace) -> None:
    """Draw description length and number of rules over the steps, as PNG or SVG by the name of the file."""
    write_picture(path, lambda figure_class: _drawn(trace, figure_class))


def _drawn(trace: Trace, figure_class: Any) -> Any:
    figure = figure_class(figsize=(9, 5.5), layout="constrained")
    _draw(figure, trace)
    return figure


def _draw(figure: Any, trace: Trace) -> None:
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=[3, 1])
    _draw_bits(above, trace)
    _draw_rules(below, trace)
    above.set_yscale("log")
    below.set_ylim(bottom=0)
    for panel in (above, below):
        panel.yaxis.set_major_formatter("{x:,.0f}")
        panel.set_xlim(0, max(1, len(trace.steps)))
        panel.spines[["top", "right"]].set_visible(False)
        panel.tick_params(labelsize=8)
        for run in _phase_runs(trace):
            panel.axvspan(run.start, run.end, color=SHADES[run.phase], zorder=-1)
    figure.suptitle(_title(trace), fontsize=10)


def _title(trace: Trace) -> str:
    origin = trace.header.origin
    shortest = origin.settings.get("shortest")
    searched = "" if shortest is None or shortest >= origin.examples else f"the {shortest:,} shortest of "
    reached = f"{trace.rules:,} rules, {trace.length.total:,.0f} bits after {len(trace.steps):,} steps"
    return f"{reached} on {searched}{origin.examples:,} examples"


def _draw_bits(panel: Any, trace: Trace) -> None:
    """The objective and its two parts; where a part is 0 it has no place on a logarithmic scale."""
    lengths = [trace.header.length, *(traced.step.length for traced in trace.steps)]
    parts = {
        "total": [length.total for length in lengths],
        "grammar": [length.grammar_bits for length in lengths],
        "data": [length.data_bits or math.nan for length in lengths],
    }
    for part, bits in parts.items():
        panel.plot(range(len(bits)), bits, color=COLOURS[part], linewidth=WIDTHS[part], label=part)
    panel.set_ylabel("description length, bits", fontsize=9)
    panel.legend(fontsize=8, frameon=False)


def _draw_rules(panel: Any, trace: Trace) -> None:
    counts = [trace.header.rules, *(traced.step.rules for traced in trace.steps)]
    panel.plot(range(len(counts)), counts, color=COLOURS["rules"], linewidth=1.2)
    panel.set_ylabel("rules", fontsize=9)
    panel.set_xlabel("step" + _legend_of_shades(trace), fontsize=9)


def _legend_of_shades(trace: Trace) -> str:
    phases = [phase for phase in Phase if phase in {run.phase for run in _phase_runs(trace)}]
    return "".join(f"; {SHADE_NAMES[phase]}: {phase}" for phase in phases if phase in SHADE_NAMES)


@dataclass(frozen=True, slots=True)
class PhaseRun:
    """Steps `start` (not included) to `end` of one phase."""

    phase: Phase
    start: int
    end: int


def _phase_runs(trace: Trace) -> Iterator[PhaseRun]:
    end = 0
    for phase, steps in groupby(traced.step.phase for traced in trace.steps):
        start, end = end, end + len(list(steps))
        yield PhaseRun(phase, start, end)
