"""Derivations and grammars as HTML and SVG, for the web page and for notebooks alike.

Everything that can be lit up carries `data-node`, the number of its application; an application's box also carries
`data-last`, the last number under it, so that a subtree is the numbers from one to the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from importlib.resources import files
from itertools import groupby

from nqg.grammar.derivation import Application, Derivation
from nqg.grammar.grammar import Grammar
from nqg.grammar.markup import Markup, element, joined
from nqg.grammar.origins import Origins, origins
from nqg.grammar.rule import Rule
from nqg.grammar.tree_layout import BOX_HEIGHT, LEVEL, Box, TreeLayout, symbol_text, tree_layout

HUES = 6  # colours that the applications take in turn
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
    """The target on top, the tree of applications under it, the source words below; `scores` are a model's."""
    origin = origins(derivation)
    tree = (
        _tree(derivation, origin, scores)
        if len(derivation.applications) <= MOST_APPLICATIONS
        else element("p", f"{len(derivation.applications):,} applications: too many to draw.")
    )
    return element("div", target_picture(derivation, origin), element("div", tree, class_="scroll"), class_="nqg-tree")


def target_picture(derivation: Derivation, origin: Origins) -> Markup:
    """The tokens of the target, each in the colour of the application that writes it."""
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
    notes = [f", score {score:.2f}" for score in scores] or [""] * len(derivation.applications)
    numbered = enumerate(zip(derivation.applications, layout.boxes, notes, strict=True))
    return element(
        "svg",
        element("g", *_child_edges(derivation, layout), *_word_edges(origin, layout), class_="edges"),
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
    """Every (parent, child) pair of numbers of applications."""
    pending: list[int] = []
    for number, application in enumerate(derivation.applications):
        if pending:
            yield pending.pop(), number
        pending.extend([number] * application.rule.arity)


def _word_edges(origin: Origins, layout: TreeLayout) -> Iterator[Markup]:
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


def _box(number: int, application: Application, box: Box, last: int, note: str) -> Markup:
    source, target = box.lines
    spoken = f"{application.rule}, words {application.span.start + 1} to {application.span.end}{note}"
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
        data_rule=f"{application.rule}{note}",
    )


def derivation_outline(derivation: Derivation) -> Markup:
    """The derivation as nested lists, for reading aloud."""
    parts: list[str] = []
    depth = -1
    for level, application in zip(derivation.depths(), derivation.applications, strict=True):
        parts += ["<ul><li>" * (level - depth)] if level > depth else ["</li></ul>" * (depth - level), "</li><li>"]
        words = " ".join(derivation.source[application.span.start : application.span.end])
        parts.append(joined([element("q", words), " by ", rule_picture(application.rule)]))
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
