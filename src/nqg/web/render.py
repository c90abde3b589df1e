"""Answers, derivations and grammars as HTML and SVG, for the web page and for notebooks alike.

Notebooks need nothing of the extra `web`: they find `notebook_html` by name (`nqg.extensions`).

Everything that can be lit up carries `data-node`, the number of its hyperedge; a hyperedge's box
also carries `data-last`, the last number under it, so that a subtree is the numbers from one to the
other.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
from itertools import accumulate, groupby, pairwise

from rich.cells import cell_len

from nqg.answers import Answer, Reading, in_percent
from nqg.errors import counted
from nqg.grammar.derivation import Derivation, Tokens
from nqg.grammar.grammar import Grammar, NonTerminal, Rule, SlotInstance, Symbols
from nqg.text.json_calls import WrittenToken
from nqg.web.json_layout import indented

CHARACTER = 8.0  # pixels: a monospaced character at 13 px, with a little air
GAP = 18.0  # between neighbours in a row
BOX_PADDING = 12.0  # inside a box, left and right
BOX_HEIGHT = 44.0
LEVEL_HEIGHT = 84.0  # from one row of boxes to the next
MARGIN = 8.0
LONGEST_SIDE = 30  # characters of a rule's side that a box shows
HUES = 8  # colours that the hyperedges take in turn
PLAIN = "plain"  # the class of what has no colour


@dataclass(frozen=True)
class Alignment:
    """Which hyperedges read the words and write the tokens; hyperedges are numbered as the
    derivation lists them.

    >>> alignment(Derivation.parse('''
    ... [0:2] NT_1 twice ### NT_1 NT_1
    ...   [0:1] jump ### I_JUMP
    ... '''))
    Alignment(words=(1, 0), tokens=(1, 1), lasts=(1, 1), heights=(1, 0))
    """

    # For every word of the source, the hyperedge that reads it.
    words: tuple[int, ...]
    # For every token of the target, the hyperedge that writes it.
    tokens: tuple[int, ...]
    # For every hyperedge, the last one under it, itself at a leaf: a subtree is a run.
    lasts: tuple[int, ...]
    # For every hyperedge, how far it is above its deepest leaf.
    heights: tuple[int, ...]

    @cached_property
    def hues(self) -> Sequence[str]:
        """The class of each hyperedge that names its colour.

        Those that read words and write tokens take the colours in turn, in the order of the words.
        Rules that only join others, or only leave words out, have none.
        """
        classes = [PLAIN] * len(self.lasts)
        writers = set(self.tokens)
        readers = [number for number in dict.fromkeys(self.words) if number in writers]
        for rank, number in enumerate(readers):
            classes[number] = f"hue-{rank % HUES}"
        return classes


def alignment(derivation: Derivation) -> Alignment:
    """Which hyperedge reads each word and writes each token of `derivation`."""
    # From the leaves up: what is under each hyperedge, and the tokens that it writes.
    hyperedges, root = derivation.hyperedges, derivation.root.span
    lasts, heights = list(range(len(hyperedges))), [0] * len(hyperedges)
    tokens: list[list[int]] = [[] for _ in hyperedges]
    for number, children in reversed(list(enumerate(derivation.child_numbers()))):
        for child in children:
            lasts[number] = lasts[child]
            heights[number] = max(heights[number], heights[child] + 1)
        for symbol in hyperedges[number].rule.target:
            if isinstance(symbol, NonTerminal):
                tokens[number] += tokens[children[symbol.index - 1]]
            else:
                tokens[number].append(number)
        # The parent holds the tokens of its children now.
        for child in children:
            tokens[child] = []
    # What children read is taken out of what their parents cover.
    words = [0] * (root.end - root.start)
    for number, hyperedge in enumerate(hyperedges):
        for position in range(hyperedge.span.start, hyperedge.span.end):
            words[position - root.start] = number
    return Alignment(tuple(words), tuple(tokens[0]), tuple(lasts), tuple(heights))


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


def tree_layout(derivation: Derivation, aligned: Alignment) -> TreeLayout:
    """A place for every word, as wide as it and the boxes over it ask for, and for every
    hyperedge.
    """
    # A box is as wide as the longer one of its two lines.
    lines: list[tuple[str, str]] = []
    box_widths: list[float] = []
    for hyperedge in derivation.hyperedges:
        source = shortened(source_text(hyperedge.rule))
        target = shortened(rule_side(hyperedge.rule.target))
        lines.append((source, target))
        longest = max(cell_len(source), cell_len(target))
        box_widths.append(2 * BOX_PADDING + CHARACTER * longest)
    widths = [CHARACTER * cell_len(word) + GAP for word in derivation.source]
    # From the leaves up, a box that is wider than the words under it makes them wider.
    for number in reversed(range(len(box_widths))):
        span = derivation.hyperedges[number].span
        start, end = span.start, span.end
        missing = box_widths[number] + GAP - sum(widths[start:end])
        if missing > 0:
            for at in range(start, end):
                widths[at] += missing / (end - start)
    # Boxes stand over the middle of their words, in the row of their height.
    edges = list(accumulate(widths, initial=MARGIN))
    top = max(aligned.heights)
    boxes = []
    for number, hyperedge in enumerate(derivation.hyperedges):
        middle = (edges[hyperedge.span.start] + edges[hyperedge.span.end]) / 2
        row = MARGIN + LEVEL_HEIGHT * (top - aligned.heights[number])
        boxes.append(Box(lines[number], middle, row, box_widths[number]))
    words = tuple((low + high) / 2 for low, high in pairwise(edges))
    word_line = MARGIN + LEVEL_HEIGHT * (top + 1) + 6
    return TreeLayout(
        tuple(boxes), words, word_line, edges[-1] + MARGIN, word_line + 24
    )


def rule_side(side: Symbols) -> str:
    """A side of a rule as people see it.

    >>> from nqg.grammar.grammar import Rule
    >>> rule_side(Rule.parse("NT_1 and NT_2 ### NT_2 NT_1").target)
    '② ①'
    """
    return " ".join(map(symbol_text, side))


def shortened(text: str) -> str:
    if len(text) <= LONGEST_SIDE:
        return text
    return f"{text[: LONGEST_SIDE - 1].rstrip()}…"


def slot_name(rule: Rule) -> str:
    """The slot whose value a rule reads, `time` for `half past six ### 6:30`; nothing for other
    rules.
    """
    return rule.slot if isinstance(rule, SlotInstance) else ""


def source_text(rule: Rule) -> str:
    """The source of a rule, after the slot whose value it reads."""
    slot = slot_name(rule)
    return f"{slot}: {rule_side(rule.source)}" if slot else rule_side(rule.source)


def symbol_text(symbol: str | NonTerminal) -> str:
    """A symbol as people see it: the non-terminals as ① ② …"""
    # Unicode has circles around the numbers up to 20.
    if isinstance(symbol, NonTerminal) and symbol.index <= 20:
        return chr(ord("①") + symbol.index - 1)
    return str(symbol)


# Control characters, halves of surrogate pairs and non-characters: XML has no way to write them.
_UNPRINTABLE = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]"
)


class Markup(str):
    """Text that is markup already; every other string is user text and gets escaped."""

    __slots__ = ()


def escaped(text: str) -> Markup:
    """`text` as markup that shows it, and does nothing else.

    >>> escaped('<b> "NT_1" & \\x00')
    '&lt;b&gt; &quot;NT_1&quot; &amp; \\ufffd'
    """
    if isinstance(text, Markup):
        return text
    return Markup(html.escape(_UNPRINTABLE.sub("\ufffd", text)))


def element(name: str, *content: str, **attributes: str | float | None) -> Markup:
    """An element with its content; of attributes' names `_` becomes `-`, a last `_` goes, and None
    leaves one out.

    >>> element("a", "1 < 2", class_="word", data_node=3, title=None)
    '<a class="word" data-node="3">1 &lt; 2</a>'
    """
    tag = name
    for key, value in attributes.items():
        if value is None:
            continue
        if not isinstance(value, str):
            value = f"{value:.6g}"
        tag += f' {key.rstrip("_").replace("_", "-")}="{escaped(value)}"'
    return Markup(f"<{tag}>{joined(content)}</{name}>")


def joined(texts: Iterable[str]) -> Markup:
    """Several texts one after the other, those that are not markup escaped."""
    return Markup("".join(map(escaped, texts)))


MAX_DRAWN_TOKENS = 600  # of a target that are drawn
_WHITE_SPACE = re.compile(r"\s*")
MAX_DRAWN_HYPEREDGES = 400  # of a derivation that are drawn as a tree
MAX_DRAWN_RULES = 200  # of a grammar that a notebook shows


def style() -> str:
    return files("nqg.web").joinpath("render.css").read_text(encoding="utf-8")


def in_notebook(*pictures: str) -> str:
    """Pictures with their style sheet, as a cell of a notebook shows them."""
    return element("div", element("style", Markup(style())), *pictures, class_="nqg")


def derivation_picture(
    derivation: Derivation,
    scores: Sequence[float] = (),
    program: str = "",
    written: Sequence[WrittenToken[str]] = (),
) -> Markup:
    """The sentence and the program in the same colours, and the tree of hyperedges under them;
    `scores` are a model's.

    `program` is the target as training data writes it, and `written` its tokens, where these are
    others than those of the derivation. What the value of a slot wrote is named after the slot.
    """
    aligned = alignment(derivation)
    if len(derivation.hyperedges) <= MAX_DRAWN_HYPEREDGES:
        tree = _tree(derivation, aligned, scores)
    else:
        tree = element(
            "p", f"{len(derivation.hyperedges):,} applications: too many to draw."
        )
    return element(
        "div",
        sentence_line(derivation, aligned),
        program_line(derivation, aligned, program, written),
        element("div", tree, class_="scroll"),
        class_="nqg-tree",
    )


def sentence_line(derivation: Derivation, aligned: Alignment) -> Markup:
    """The words of the sentence, in the colours of the rules that read them."""
    words: list[str] = []
    for word, number in zip(derivation.source, aligned.words, strict=True):
        kind = f"read {aligned.hues[number]}"
        words += [element("span", word, class_=kind, data_node=number), " "]
    return element(
        "p", *words[:-1], class_="words", aria_label="Sentence, word by word"
    )


def program_line(
    derivation: Derivation,
    aligned: Alignment,
    program: str,
    written: Sequence[WrittenToken[str]] = (),
) -> Markup:
    """The program, token by token, in the colours of the rules that wrote them."""
    target, origins = derivation.target, list(range(len(aligned.tokens)))
    if written:
        target = tuple(token.symbol for token in written)
        origins = [token.origin for token in written]
    pieces = program_pieces(indented(program), target)
    writers = [aligned.tokens[origins[at]] for _, _, at in pieces]
    tokens: list[str] = []
    for at, (gap, token, _) in enumerate(pieces[:MAX_DRAWN_TOKENS]):
        number = writers[at]
        slot = slot_name(derivation.hyperedges[number].rule)
        kind, name = f"token {aligned.hues[number]}", None
        if slot:
            kind += " slot"
            # The last of the tokens that the value wrote names the slot.
            if at + 1 == len(pieces) or writers[at + 1] != number:
                name = slot
        tokens += [
            gap,
            element("span", token, class_=kind, data_node=number, data_slot=name),
        ]
    if len(target) > MAX_DRAWN_TOKENS:
        tokens.append(f" … and {len(target) - MAX_DRAWN_TOKENS:,} more tokens")
    return element("p", *tokens, class_="target", aria_label="Program, token by token")


def program_pieces(program: str, target: Tokens) -> list[tuple[str, str, int]]:
    """The tokens of a target where they stand in a program: the gap before each, the token, its
    number.

    Tokens that are written as white space are left out. Where a program is not made of them, they
    are set apart.

    >>> program_pieces("on( lamp)", ("on", "(", "␣", "lamp", ")"))
    [('', 'on', 0), ('', '(', 1), (' ', 'lamp', 3), ('', ')', 4)]
    >>> program_pieces("", ("on", "lamp"))
    [('', 'on', 0), (' ', 'lamp', 1)]
    """
    pieces: list[tuple[str, str, int]] = []
    end = 0
    for number, token in enumerate(target):
        start = _WHITE_SPACE.match(program, end).end()  # type: ignore[union-attr] # which matches always
        if program.startswith(token, start):
            pieces.append((program[end:start], token, number))
            end = start + len(token)
    if program and not program[end:].strip():
        return pieces
    return [
        (" " if number else "", token, number) for number, token in enumerate(target)
    ]


def _tree(
    derivation: Derivation, aligned: Alignment, scores: Sequence[float]
) -> Markup:
    layout = tree_layout(derivation, aligned)
    children, hyperedges = derivation.child_numbers(), derivation.hyperedges
    boxes = layout.boxes
    edges, labels, nodes = list[Markup](), list[Markup](), list[Markup]()
    parents: dict[int, int] = {}
    for parent, below in enumerate(children):
        parents.update(dict.fromkeys(below, parent))
    # The root is number 0 and has no edge above it.
    for at in range(1, len(boxes)):
        box, hue = boxes[at], aligned.hues[at]
        edges.append(_edge(boxes[parents[at]], box.x, box.y, at, hue))
    for word, x, number in zip(
        derivation.source, layout.words, aligned.words, strict=True
    ):
        hue = aligned.hues[number]
        edges.append(_edge(boxes[number], x, layout.word_line - 14, number, hue))
        kind = f"word {hue}"
        label = element(
            "text", word, x=x, y=layout.word_line, class_=kind, data_node=number
        )
        labels.append(label)
    for number, hyperedge in enumerate(hyperedges):
        caption = rule_caption(derivation, number, children[number], scores)
        last = aligned.lasts[number]
        box, hue = boxes[number], aligned.hues[number]
        nodes.append(_box(number, hyperedge.rule, box, last, caption, hue))
    # Edges come first, because what SVG draws later lies on top.
    return element(
        "svg",
        element("g", *edges, class_="edges"),
        *labels,
        *nodes,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {layout.width:.1f} {layout.height:.1f}",
        width=layout.width,
        height=layout.height,
        role="group",
        aria_label="Derivation tree",
    )


def _edge(box: Box, x: float, y: float, number: int, hue: str) -> Markup:
    """A line that bends in the gap under `box` and then goes straight down, so that it crosses no
    other box.
    """
    top, turn = box.y + BOX_HEIGHT, min(y, box.y + LEVEL_HEIGHT)
    middle = (top + turn) / 2
    bend = f"C{box.x:.1f} {middle:.1f} {x:.1f} {middle:.1f} {x:.1f} {turn:.1f}"
    path = f"M{box.x:.1f} {top:.1f}{bend}V{y:.1f}"
    return element("path", d=path, class_=hue, data_node=number)


def rule_caption(
    derivation: Derivation,
    number: int,
    children: Sequence[int],
    scores: Sequence[float],
) -> str:
    """A rule of a derivation in the language of the boxes, what its parts stand for, and its score.

    >>> derivation = Derivation.parse('[0:2] NT_1 twice ### NT_1 NT_1\\n  [0:1] jump ### I_JUMP')
    >>> rule_caption(derivation, 0, [1], [0.5, -1.25])
    '① twice → ① ①, where ① is “jump”; score 0.50'
    """
    rule, words = derivation.hyperedges[number].rule, derivation.source
    # The nonterminals of a rule are numbered from 1, in the order of its children.
    arguments = []
    for index, child in enumerate(children, start=1):
        span = derivation.hyperedges[child].span
        covered = shortened(" ".join(words[span.start : span.end]))
        arguments.append(f"{symbol_text(NonTerminal(index))} is “{covered}”")
    caption = f"{source_text(rule)} → {rule_side(rule.target)}"
    if arguments:
        caption += f", where {', '.join(arguments)}"
    if scores:
        caption += f"; score {scores[number]:.2f}"
    return caption


def _box(
    number: int, rule: Rule, box: Box, last: int, caption: str, hue: str
) -> Markup:
    source, target = box.lines
    left, kind = box.x - box.width / 2, f"node {hue}"
    if isinstance(rule, SlotInstance):
        kind += " slot"
    frame = element("rect", x=left, y=box.y, width=box.width, height=BOX_HEIGHT, rx=8)
    content = [
        element("title", caption),
        frame,
        element("text", source, x=box.x, y=box.y + 18, class_="source"),
        element("text", target, x=box.x, y=box.y + 35, class_="yield"),
    ]
    return element(
        "g",
        *content,
        class_=kind,
        tabindex=0,
        role="img",
        aria_label=caption,
        data_node=number,
        data_last=last,
    )


def derivation_outline(derivation: Derivation) -> Markup:
    """The derivation as nested lists, for reading aloud."""
    pieces, depth = list[str](), -1
    for level, hyperedge in zip(
        derivation.depths(), derivation.hyperedges, strict=True
    ):
        if level > depth:
            pieces.append("<ul><li>" * (level - depth))
        else:
            pieces += ["</li></ul>" * (depth - level), "</li><li>"]
        words = " ".join(derivation.source[hyperedge.span.start : hyperedge.span.end])
        pieces.append(
            joined([element("q", words), " by ", rule_picture(hyperedge.rule)])
        )
        depth = level
    return Markup("".join(pieces) + "</li></ul>" * (depth + 1))


def rule_picture(rule: Rule) -> Markup:
    """Source → target, the non-terminals as ① ②."""
    source = element("span", rule_side(rule.source), class_="source")
    arrow = element("span", " → ", class_="arrow")
    target = element("span", rule_side(rule.target), class_="yield")
    return element("code", source, arrow, target)


def grammar_picture(grammar: Grammar, most: int = MAX_DRAWN_RULES) -> Markup:
    """The rules in a table, grouped by how many non-terminals they have, the first `most` of
    them.
    """
    ordered = sorted(grammar.rules[:most], key=lambda rule: -rule.arity)
    bodies = []
    for arity, rules in groupby(ordered, key=lambda rule: rule.arity):
        title = {0: "words", 1: "one part"}.get(arity, f"{arity} parts")
        heading = element("th", title, scope="rowgroup")
        rows = (element("tr", element("td", rule_picture(rule))) for rule in rules)
        bodies.append(element("tbody", element("tr", heading), *rows))
    caption = element("caption", counted(len(grammar), "rule"))
    drawn = [element("table", caption, *bodies)]
    if len(grammar) > most:
        drawn.append(element("p", f"… and {len(grammar) - most:,} more rules"))
    return element("div", *drawn, class_="nqg-grammar")


def answer_picture(answer: Answer) -> Markup:
    """The derivation of an answer, or the reason of an abstention, and a table of the readings;
    then the same for each command of a sequence.
    """
    reading = answer.reading
    if answer.target is None:
        sentence = element("q", " ".join(answer.source.split()))
        reason = f": {answer.reason}."
        drawn = [element("p", "No answer to ", sentence, reason, class_="abstention")]
    elif reading is None:
        drawn = [element("p", element("code", answer.target), f" {answer.credit}")]
    else:
        figures = f"probability within the grammar {reading.probability:.4g}"
        if answer.confidence is not None:
            figures = f"confidence {in_percent(answer.confidence)}, {figures}"
        remarks = "; ".join([figures, *map(str, answer.corrections)])
        picture = derivation_picture(
            reading.derivation, reading.scores, reading.target, reading.written
        )
        drawn = [element("div", picture, element("p", remarks))]
    if answer.readings:
        drawn.append(_readings_table(answer.readings))
    if answer.commands:
        commands = []
        for command in answer.commands:
            source = element("q", " ".join(command.source.split()))
            commands.append(element("li", source, answer_picture(command)))
        drawn.append(element("ol", *commands))
    return element("div", *drawn)


def _readings_table(readings: Iterable[Reading]) -> Markup:
    rows = []
    for reading in readings:
        remark = "" if reading.is_legal else "not a legal program"
        program = element("code", reading.target)
        rows.append((f"{reading.probability:.4g}", program, remark))
    return table_picture(("probability", "program", ""), rows)


def table_picture(header: Iterable[str], rows: Iterable[Iterable[str]]) -> Markup:
    """A table with names over its columns."""
    names = (element("th", name, scope="col") for name in header)
    head = element("thead", element("tr", *names))
    body = []
    for row in rows:
        cells = [element("td", cell) for cell in row]
        body.append(element("tr", *cells))
    return element("table", head, element("tbody", *body))


def notebook_html(shown: Answer | Derivation | Grammar) -> str:
    """What a cell of a notebook shows of a value, with the style sheet."""
    if isinstance(shown, Answer):
        picture = answer_picture(shown)
    elif isinstance(shown, Derivation):
        picture = derivation_picture(shown)
    else:
        picture = grammar_picture(shown)
    return in_notebook(picture)
