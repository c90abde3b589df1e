"""Where the parts of a drawn derivation go: words in a row, every application centred over the words that it covers."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from nqg.grammar.derivation import Application, Derivation
from nqg.grammar.origins import Origins
from nqg.grammar.rule import Symbols
from nqg.grammar.symbols import NonTerminal

CHARACTER = 8.0  # pixels: a monospaced character at 13 px, with a little air
GAP = 18.0  # between neighbours in a row
PADDING = 12.0  # inside a box, left and right
BOX_HEIGHT = 44.0
LEVEL = 84.0  # from one row of boxes to the next
MARGIN = 8.0
LONGEST_SIDE = 30  # characters of a rule's side that a box shows


@dataclass(frozen=True, slots=True)
class Box:
    """An application as it is drawn: two short lines, around a centre."""

    lines: tuple[str, str]
    x: float
    y: float
    width: float


@dataclass(frozen=True, slots=True)
class TreeLayout:
    """Boxes by number of application, and the middle of every word."""

    boxes: tuple[Box, ...]
    words: tuple[float, ...]
    word_line: float
    width: float
    height: float


def tree_layout(derivation: Derivation, origin: Origins) -> TreeLayout:
    """A place for every word and every application of `derivation`."""
    lines = [shortened_rule(application) for application in derivation.applications]
    widths = [2 * PADDING + CHARACTER * max(map(columns, pair)) for pair in lines]
    edges = _word_edges(derivation, widths)
    top = max(origin.heights)
    boxes = tuple(
        Box(pair, (edges[each.span.start] + edges[each.span.end]) / 2, MARGIN + LEVEL * (top - height), width)
        for pair, each, height, width in zip(lines, derivation.applications, origin.heights, widths, strict=True)
    )
    words = tuple((low + high) / 2 for low, high in pairwise(edges))
    word_line = MARGIN + LEVEL * (top + 1) + 6
    return TreeLayout(boxes, words, word_line, edges[-1] + MARGIN, word_line + 24)


def _word_edges(derivation: Derivation, box_widths: Sequence[float]) -> list[float]:
    """Where words begin and end: as wide as they are, and as the boxes over them ask for."""
    widths = [CHARACTER * columns(word) + GAP for word in derivation.source]
    for application, box in reversed(list(zip(derivation.applications, box_widths, strict=True))):
        covered = range(application.span.start, application.span.end)
        missing = box + GAP - sum(widths[at] for at in covered)
        for at in covered if missing > 0 else ():
            widths[at] += missing / len(covered)
    return list(accumulate(widths, initial=MARGIN))


def shortened_rule(application: Application) -> tuple[str, str]:
    """Both sides of the application's rule, as a box shows them."""
    return shortened_side(application.rule.source), shortened_side(application.rule.target)


def shortened_side(side: Symbols, longest: int = LONGEST_SIDE) -> str:
    """A side of a rule in few characters.

    >>> from nqg.grammar.rule import Rule
    >>> shortened_side(Rule.parse("NT_1 and NT_2 ### NT_2 NT_1").target)
    '② ①'
    """
    text = " ".join(map(symbol_text, side))
    return text if len(text) <= longest else f"{text[: longest - 1].rstrip()}…"


def symbol_text(symbol: str | NonTerminal) -> str:
    """A symbol as people see it: the non-terminals as ① ② …"""
    if isinstance(symbol, NonTerminal):
        return chr(ord("①") + symbol.index - 1) if symbol.index <= 20 else str(symbol)
    return symbol


def columns(text: str) -> int:
    """How many columns of a monospaced font `text` takes.

    >>> columns("jump"), columns("飛ぶ")
    (4, 4)
    """
    return sum(2 if unicodedata.east_asian_width(each) in "WF" else 1 for each in text)
