"""Derivations and grammars as HTML and SVG, for the web page and for notebooks alike.

Everything that can be lit up carries `data-node`, the number of its hyperedge; a hyperedge's box also carries
`data-last`, the last number under it, so that a subtree is the numbers from one to the other.
"""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from itertools import accumulate, groupby, pairwise

from nqg.grammar.derivation import Derivation, Hyperedge, Origins, origins
from nqg.grammar.grammar import Grammar
from nqg.grammar.rule import NonTerminal, Rule, Symbols

CHARACTER = 8.0  # pixels: a monospaced character at 13 px, with a little air
GAP = 18.0  # between neighbours in a row
PADDING = 12.0  # inside a box, left and right
BOX_HEIGHT = 44.0
LEVEL = 84.0  # from one row of boxes to the next
MARGIN = 8.0
LONGEST_SIDE = 30  # characters of a rule's side that a box shows


@dataclass(frozen=True, slots=True)
class Box:
    """A hyperedge as it is drawn: two short lines, around a centre."""

    lines: tuple[str, str]
    x: float
    y: float
    width: float


@dataclass(frozen=True, slots=True)
class TreeLayout:
    """Boxes by number of hyperedge, and the middle of every word."""

    boxes: tuple[Box, ...]
    words: tuple[float, ...]
    word_line: float
    width: float
    height: float


def tree_layout(derivation: Derivation, origin: Origins) -> TreeLayout:
    """A place for every word and every hyperedge of `derivation`."""
    lines = [shortened_rule(hyperedge) for hyperedge in derivation.hyperedges]
    widths = [2 * PADDING + CHARACTER * max(map(columns, pair)) for pair in lines]
    edges = _word_edges(derivation, widths)
    top = max(origin.heights)
    boxes = tuple(
        Box(pair, (edges[each.span.start] + edges[each.span.end]) / 2, MARGIN + LEVEL * (top - height), width)
        for pair, each, height, width in zip(lines, derivation.hyperedges, origin.heights, widths, strict=True)
    )
    words = tuple((low + high) / 2 for low, high in pairwise(edges))
    word_line = MARGIN + LEVEL * (top + 1) + 6
    return TreeLayout(boxes, words, word_line, edges[-1] + MARGIN, word_line + 24)


def _word_edges(derivation: Derivation, box_widths: Sequence[float]) -> list[float]:
    """Where words begin and end: as wide as they are, and as the boxes over them ask for."""
    widths = [CHARACTER * columns(word) + GAP for word in derivation.source]
    for hyperedge, box in reversed(list(zip(derivation.hyperedges, box_widths, strict=True))):
        covered = range(hyperedge.span.start, hyperedge.span.end)
        missing = box + GAP - sum(widths[at] for at in covered)
        for at in covered if missing > 0 else ():
            widths[at] += missing / len(covered)
    return list(accumulate(widths, initial=MARGIN))


def shortened_rule(hyperedge: Hyperedge) -> tuple[str, str]:
    """Both sides of the hyperedge's rule, as a box shows them."""
    return shortened_side(hyperedge.rule.source), shortened_side(hyperedge.rule.target)


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


# Control characters, halves of surrogate pairs and non-characters: XML has no way to write them.
_UNPRINTABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


class Markup(str):
    """Text that is markup already; every other string is user text and gets escaped."""

    __slots__ = ()


def escaped(text: str) -> Markup:
    """`text` as markup that shows it, and does nothing else.

    >>> escaped('<b> "NT_1" & \\x00')
    '&lt;b&gt; &quot;NT_1&quot; &amp; \\ufffd'
    """
    return text if isinstance(text, Markup) else Markup(html.escape(_UNPRINTABLE.sub("\ufffd", text)))


def element(name: str, *content: str, **attributes: str | float | None) -> Markup:
    """An element with its content; of attributes' names `_` becomes `-`, a last `_` goes, and None leaves one out.

    >>> element("a", "1 < 2", class_="word", data_node=3, title=None)
    '<a class="word" data-node="3">1 &lt; 2</a>'
    """
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escaped(_spelled(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    return Markup(f"<{name}{written}>{joined(content)}</{name}>")


def joined(parts: Iterable[str]) -> Markup:
    """Several pieces one after the other, those that are no markup escaped."""
    return Markup("".join(map(escaped, parts)))


def _spelled(value: str | float) -> str:
    return value if isinstance(value, str) else f"{value:.6g}"


HUES = 6  # colours that the hyperedges take in turn
MOST_TOKENS = 600  # of a target that are drawn
MOST_APPLICATIONS = 400  # of a derivation that are drawn as a tree
MOST_RULES = 200  # of a grammar that a notebook shows
STYLE = "pictures.css"


def style() -> str:
    """The style sheet of all pictures."""
    return files("nqg.grammar").joinpath(STYLE).read_text(encoding="utf-8")


def in_notebook(*pictures: str) -> str:
    """Pictures with their style sheet, as a cell of a notebook shows them."""
    return element("div", element("style", Markup(style())), *pictures, class_="nqg")


def derivation_picture(derivation: Derivation, scores: Sequence[float] = ()) -> Markup:
    """The target on top, the tree of hyperedges under it, the source words below; `scores` are a model's."""
    origin = origins(derivation)
    tree = (
        _tree(derivation, origin, scores)
        if len(derivation.hyperedges) <= MOST_APPLICATIONS
        else element("p", f"{len(derivation.hyperedges):,} applications: too many to draw.")
    )
    return element("div", target_picture(derivation, origin), element("div", tree, class_="scroll"), class_="nqg-tree")


def target_picture(derivation: Derivation, origin: Origins) -> Markup:
    """The tokens of the target, each in the colour of the hyperedge that writes it."""
    target = derivation.target
    tokens = (
        element("span", token, class_=f"token hue-{number % HUES}", data_node=number)
        for token, number in zip(target[:MOST_TOKENS], origin.tokens, strict=False)
    )
    rest = [f" … and {len(target) - MOST_TOKENS:,} more tokens"] if len(target) > MOST_TOKENS else []
    return element("p", joined(_spaced(tokens)), *rest, class_="target", aria_label="Program, token by token")


def _spaced(parts: Iterable[Markup]) -> Iterator[Markup]:
    return (Markup(f"{part} ") for part in parts)


def _tree(derivation: Derivation, origin: Origins, scores: Sequence[float]) -> Markup:
    layout = tree_layout(derivation, origin)
    notes = [f", score {score:.2f}" for score in scores] or [""] * len(derivation.hyperedges)
    numbered = enumerate(zip(derivation.hyperedges, layout.boxes, notes, strict=True))
    return element(
        "svg",
        element("g", *_child_edges(derivation, layout), *_pictures_word_edges(origin, layout), class_="edges"),
        *(_word(word, at, origin, layout) for at, word in enumerate(derivation.source)),
        *(_box(number, each, box, origin.lasts[number], note) for number, (each, box, note) in numbered),
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {layout.width:.1f} {layout.height:.1f}",
        width=layout.width,
        height=layout.height,
        role="group",
        aria_label="Derivation tree",
    )


def _child_edges(derivation: Derivation, layout: TreeLayout) -> Iterator[Markup]:
    for parent, child in _families(derivation):
        box = layout.boxes[child]
        yield _edge(layout.boxes[parent], box.x, box.y, child)


def _families(derivation: Derivation) -> Iterator[tuple[int, int]]:
    """Every (parent, child) pair of numbers of hyperedges."""
    pending: list[int] = []
    for number, hyperedge in enumerate(derivation.hyperedges):
        if pending:
            yield pending.pop(), number
        pending.extend([number] * hyperedge.rule.arity)


def _pictures_word_edges(origin: Origins, layout: TreeLayout) -> Iterator[Markup]:
    for x, number in zip(layout.words, origin.words, strict=True):
        yield _edge(layout.boxes[number], x, layout.word_line - 14, number)


def _edge(box: Box, x: float, y: float, number: int) -> Markup:
    """A line that bends in the gap under `box` and then goes straight down, so that it crosses no other box."""
    top = box.y + BOX_HEIGHT
    turn = min(y, box.y + LEVEL)
    middle = (top + turn) / 2
    path = f"M{box.x:.1f} {top:.1f}C{box.x:.1f} {middle:.1f} {x:.1f} {middle:.1f} {x:.1f} {turn:.1f}V{y:.1f}"
    return element("path", d=path, class_=f"hue-{number % HUES}", data_node=number)


def _word(word: str, at: int, origin: Origins, layout: TreeLayout) -> Markup:
    number = origin.words[at]
    place = {"x": layout.words[at], "y": layout.word_line}
    return element("text", word, **place, class_=f"word hue-{number % HUES}", data_node=number)


def _box(number: int, hyperedge: Hyperedge, box: Box, last: int, note: str) -> Markup:
    source, target = box.lines
    spoken = f"{hyperedge.rule}, words {hyperedge.span.start + 1} to {hyperedge.span.end}{note}"
    return element(
        "g",
        element("title", spoken),
        element("rect", x=box.x - box.width / 2, y=box.y, width=box.width, height=BOX_HEIGHT, rx=8),
        element("text", source, x=box.x, y=box.y + 18, class_="source"),
        element("text", target, x=box.x, y=box.y + 35, class_="yield"),
        class_=f"node hue-{number % HUES}",
        tabindex=0,
        role="img",
        aria_label=spoken,
        data_node=number,
        data_last=last,
        data_rule=f"{hyperedge.rule}{note}",
    )


def derivation_outline(derivation: Derivation) -> Markup:
    """The derivation as nested lists, for reading aloud."""
    parts: list[str] = []
    depth = -1
    for level, hyperedge in zip(derivation.depths(), derivation.hyperedges, strict=True):
        parts += ["<ul><li>" * (level - depth)] if level > depth else ["</li></ul>" * (depth - level), "</li><li>"]
        words = " ".join(derivation.source[hyperedge.span.start : hyperedge.span.end])
        parts.append(joined([element("q", words), " by ", rule_picture(hyperedge.rule)]))
        depth = level
    return Markup("".join(parts) + "</li></ul>" * (depth + 1))


def rule_picture(rule: Rule) -> Markup:
    """Source → target, the non-terminals as ① ②."""
    source, target = (" ".join(map(symbol_text, side)) for side in (rule.source, rule.target))
    arrow = element("span", " → ", class_="arrow")
    return element("code", element("span", source, class_="source"), arrow, element("span", target, class_="yield"))


def grammar_picture(grammar: Grammar, most: int = MOST_RULES) -> Markup:
    """The rules in a table, grouped by how many non-terminals they have, the first `most` of them."""
    ordered = sorted(grammar.rules[:most], key=lambda rule: -rule.arity)
    bodies = (_rules_of_arity(arity, rules) for arity, rules in groupby(ordered, key=lambda rule: rule.arity))
    left = [element("p", f"… and {len(grammar) - most:,} more rules")] if len(grammar) > most else []
    caption = element("caption", f"{len(grammar):,} {'rule' if len(grammar) == 1 else 'rules'}")
    return element("div", element("table", caption, *bodies), *left, class_="nqg-grammar")


def _rules_of_arity(arity: int, rules: Iterable[Rule]) -> Markup:
    heading = {0: "words", 1: "one part"}.get(arity, f"{arity} parts")
    rows = (element("tr", element("td", rule_picture(rule))) for rule in rules)
    return element("tbody", element("tr", element("th", heading, scope="rowgroup")), *rows)
