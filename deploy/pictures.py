"""The drawings of docs/images that explain: `python deploy/pictures.py` writes them, and a test compares.

Figures are read from the tables of the pages that show them, and the steps of induction from a search.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

from nqg import Example
from nqg.induction.induce import Induction
from nqg.induction.settings import InductionSettings

PROJECT = Path(__file__).resolve().parent.parent
DOCS = PROJECT / "docs"
IMAGES = DOCS / "images"
INK, FAINT, ACCENT, GOOD, BAD = "#1f2430", "#8a90a2", "#3949ab", "#1b7f4b", "#b3261e"
FRAME_SECONDS = 3.0  # for which a step of the animation stays; chosen by eye
# The pairs of docs/induction.md.
PAIRS = (
    ("jump", "JUMP"),
    ("walk", "WALK"),
    ("jump twice", "JUMP JUMP"),
    ("walk twice", "WALK WALK"),
    ("look twice", "LOOK LOOK"),
    ("walk after jump", "JUMP WALK"),
    ("look after walk twice", "WALK WALK LOOK"),
)
# A derivation of docs/tutorial.md's grammar: the first and last word of each rule, and the rule.
WORDS = ["turn", "off", "the", "lamp", "in", "the", "attic", "at", "midnight"]
SPANS = (
    (0, 8, "NT_1 at NT_2 → schedule(NT_2, NT_1)"),
    (0, 6, "turn off NT_1 → turn_off(NT_1)"),
    (2, 6, "the NT_1 in the NT_2 → NT_2.NT_1"),
    (3, 3, "lamp → lamp"),
    (6, 6, "attic → attic"),
    (8, 8, "midnight → 0:00"),
)


@dataclass
class Drawing:
    """An SVG under construction: shapes on a white card."""

    width: int
    height: int
    label: str
    shapes: list[str] = field(default_factory=list)

    def text(
        self, x: float, y: float, words: str, colour: str = INK, extra: str = ""
    ) -> None:
        """Words at a point."""
        self.shapes.append(
            f'<text x="{x:g}" y="{y:g}" fill="{colour}" {extra}>{escape(words)}</text>'
        )

    def line(self, x: float, y: float, x2: float, y2: float, extra: str) -> None:
        """A line between two points."""
        self.shapes.append(
            f'<line x1="{x:g}" y1="{y:g}" x2="{x2:g}" y2="{y2:g}" {extra}/>'
        )

    def box(self, x: float, y: float, width: float, height: float, extra: str) -> None:
        """A rectangle with round corners."""
        self.shapes.append(
            f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="6" {extra}/>'
        )

    def svg(self) -> str:
        """The whole file."""
        body = "\n".join(self.shapes)
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" '
            f'role="img" aria-label="{escape(self.label)}" font-family="DejaVu Sans,Verdana,sans-serif" '
            f'font-size="14">\n<rect width="{self.width}" height="{self.height}" rx="8" fill="#fff"/>\n'
            f"{body}\n</svg>\n"
        )


def induction_steps() -> str:
    """The search on seven pairs, a frame for each step: what a step removes is struck out."""
    examples = [Example(source, target) for source, target in PAIRS]
    search = Induction(examples, InductionSettings.named("scan"))
    first = search.length.total
    frames: list[tuple[list[str], list[str], float]] = [([], [], first)]
    for step in search.steps():
        added = [str(rule).replace("###", "→") for rule in step.added]
        removed = [str(rule).replace("###", "→") for rule in step.removed]
        frames.append((added, removed, step.length.total))
    drawing = Drawing(
        720, 290, "Induction step by step: from seven pairs to five rules"
    )
    rules = [f"{source} → {target}" for source, target in PAIRS]
    total = FRAME_SECONDS * len(frames)
    for number, (added, removed, bits) in enumerate(frames):
        begin, end = number / len(frames), (number + 1) / len(frames)
        # The last frame is what a reader without animation sees.
        is_last = number == len(frames) - 1
        drawing.shapes.append(f'<g visibility="{"visible" if is_last else "hidden"}">')
        drawing.shapes.append(
            f'<animate attributeName="visibility" dur="{total:g}s" repeatCount="indefinite" '
            f'calcMode="discrete" values="{_switched(begin, end)}"/>'
        )
        title = f"step {number}" if number else "every pair is a rule"
        drawing.text(24, 36, title, ACCENT, 'font-weight="bold"')
        drawing.text(470, 36, f"{bits:,.0f} bits", ACCENT, 'font-weight="bold"')
        drawing.box(470, 48, 220 * bits / first, 14, f'fill="{ACCENT}"')
        _draw_rules(drawing, rules, added, removed)
        drawing.shapes.append("</g>")
        rules = [rule for rule in rules if rule not in removed] + added
    return drawing.svg()


def _switched(begin: float, end: float) -> str:
    """The values of a frame that is visible from one share of the time to another, and their times."""
    states = [(0.0, "hidden"), (begin, "visible"), (end, "hidden")]
    if begin == 0:
        states = states[1:]
    if end == 1:
        states = states[:-1]
    times = ";".join(f"{time:.4f}" for time, _ in states)
    return f'{";".join(state for _, state in states)}" keyTimes="{times}'


def _draw_rules(
    drawing: Drawing, rules: Sequence[str], added: Sequence[str], removed: Sequence[str]
) -> None:
    y = 72
    for rule in rules:
        if rule in removed:
            drawing.text(24, y, rule, BAD, 'text-decoration="line-through"')
        else:
            drawing.text(24, y, rule)
        y += 28
    for rule in added:
        drawing.text(24, y, f"+ {rule}", GOOD, 'font-weight="bold"')
        y += 28


def derivation() -> str:
    """A sentence, and under its words the rules that derive it."""
    drawing = Drawing(760, 290, "A derivation: rules under the words that they cover")
    starts = [24]
    for word in WORDS:
        starts.append(starts[-1] + 9 * len(word) + 14)
    for start, word in zip(starts, WORDS):
        drawing.text(start, 36, word, INK, 'font-weight="bold"')
    for row, (first, last, rule) in enumerate(SPANS):
        y = 56 + 34 * row
        left, right = starts[first], starts[last + 1] - 14
        drawing.line(left, y, right, y, f'stroke="{ACCENT}" stroke-width="3"')
        drawing.text(462, y + 5, rule, ACCENT if row == 0 else INK, 'font-size="13"')
    drawing.text(24, 275, "schedule(0:00, turn_off(attic.lamp))", GOOD, MONOSPACED)
    return drawing.svg()


MONOSPACED = 'font-family="DejaVu Sans Mono,monospace"'
READINGS = (
    ("both agree", "off(lamp)", "off(lamp)", "off(lamp)", GOOD),
    ("they differ, one is sure", "on(lamp)", "off(lamp)", "off(lamp)", GOOD),
    ("nobody is sure enough", "no derivation", "play(jazz)", "abstains", BAD),
)


def two_readers() -> str:
    """What grammar and T5 say, and what becomes of it."""
    drawing = Drawing(760, 210, "Two readers: what they propose and what is answered")
    heads = ("", "grammar", "T5", "answer")
    for column, head in enumerate(heads):
        drawing.text(24 + 200 * column, 34, head, FAINT)
    for row, (case, grammar, second, answer, colour) in enumerate(READINGS):
        y = 52 + 50 * row
        drawing.text(24, y + 22, case)
        for column, program in enumerate((grammar, second), start=1):
            drawing.box(16 + 200 * column, y, 170, 34, f'fill="none" stroke="{FAINT}"')
            drawing.text(28 + 200 * column, y + 22, program, INK, MONOSPACED)
        drawing.box(616, y, 130, 34, f'fill="{colour}"')
        drawing.text(628, y + 22, answer, "#fff", MONOSPACED)
    return drawing.svg()


def axes(drawing: Drawing, below: str, left: str) -> None:
    """Axes from 0 to 100 % in a square of 240 points."""
    for share in range(0, 101, 25):
        at = 2.4 * share
        drawing.line(60, 270 - at, 300, 270 - at, 'stroke="#dde0ea"')
        drawing.text(
            52, 275 - at, str(share), FAINT, 'text-anchor="end" font-size="11"'
        )
    drawing.text(180, 308, below, FAINT, 'text-anchor="middle" font-size="12"')
    drawing.text(60, 20, left, FAINT, 'font-size="12"')


def reliability() -> str:
    """The last table of confidence on docs/evaluation.md: a disc for each bin, as large as it is full."""
    page = (DOCS / "evaluation.md").read_text(encoding="utf-8")
    bins = re.findall(r"^([\d.]+) % +(\d+) +([\d.]+) %$", page, flags=re.MULTILINE)
    drawing = Drawing(320, 320, "Reliability diagram")
    axes(drawing, "confidence, %", "right, %")
    for share in range(0, 101, 25):
        x = 60 + 2.4 * share
        drawing.text(x, 288, str(share), FAINT, 'text-anchor="middle" font-size="11"')
    drawing.line(60, 270, 300, 30, f'stroke="{FAINT}" stroke-dasharray="4"')
    # The first bin is the only one above the threshold; those of all answers follow.
    for confidence, count, right in bins[1:]:
        x, y = 60 + 2.4 * float(confidence), 270 - 2.4 * float(right)
        radius = 3 + int(count) ** 0.5
        drawing.shapes.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}" fill="{ACCENT}" fill-opacity="0.6"/>'
        )
    return drawing.svg()


def learning_curve() -> str:
    """The table of docs/your-data.md: coverage and precision by the number of pairs."""
    page = (DOCS / "your-data.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d+) \| ([\d.]+) % \| ([\d.]+) % \|$", page, re.MULTILINE)
    drawing = Drawing(
        460, 320, "Learning curve: coverage and precision by training pairs"
    )
    axes(drawing, "training pairs", "%")
    most = max(int(pairs) for pairs, _, _ in rows)
    for column, (name, colour) in enumerate(
        (("coverage", ACCENT), ("precision", GOOD))
    ):
        points = [
            (60 + 240 * int(row[0]) / most, 270 - 2.4 * float(row[1 + column]))
            for row in rows
        ]
        joined = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        drawing.shapes.append(
            f'<polyline points="{joined}" fill="none" stroke="{colour}" stroke-width="2.5"/>'
        )
        drawing.text(316, 60 + 24 * column, name, colour)
    for pairs, _, _ in rows:
        x = 60 + 240 * int(pairs) / most
        drawing.text(x, 288, pairs, FAINT, 'text-anchor="middle" font-size="11"')
    return drawing.svg()


def pictures() -> Iterator[tuple[Path, str]]:
    """Every drawing with its file."""
    for draw in (induction_steps, derivation, two_readers, reliability, learning_curve):
        yield IMAGES / f"{draw.__name__.replace('_', '-')}.svg", draw()


if __name__ == "__main__":
    for path, text in pictures():
        path.write_text(text, encoding="utf-8")
