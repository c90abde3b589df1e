"""Pictures that only the page shows: the chart of spans, and what the grammar lacks. Derivations are in `pictures`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nqg.grammar.derivation import Tokens
from nqg.grammar.graph import Span
from nqg.grammar.markup import Markup, element
from nqg.grammar.pictures import rule_picture
from nqg.grammar.tree_layout import columns
from nqg.inference.gaps import Gaps
from nqg.web.span_chart import SpanCell

MOST_WORDS = 40  # of a sentence whose chart is drawn
ROW = 34.0
CHARACTER = 8.0


def chart_picture(source: Tokens, cells: Sequence[SpanCell]) -> Markup:
    """A triangle: over every span its share of the probability; and the same as a table for reading aloud."""
    if len(source) > MOST_WORDS:
        return element("p", f"The chart of {len(source)} words is too wide to draw; the JSON answer has it.")
    spans = len(source) * (len(source) + 1) // 2
    width = _cell_width(source)
    known = {cell.span: cell for cell in cells}
    picture = element(
        "svg",
        *(_place(span, known.get(span), len(source), width) for span in _spans(len(source))),
        *_words(source, width),
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {width * len(source):.0f} {ROW * len(source) + 30:.0f}",
        width=width * len(source),
        height=ROW * len(source) + 30,
        role="img",
        aria_label=f"Chart: the grammar derives {len(cells)} of {spans} spans",
    )
    scroll = element("div", picture, class_="scroll")
    return element("div", scroll, chart_table(source, cells), class_="nqg-chart")


def _spans(words: int) -> Iterator[Span]:
    return (Span(start, start + size) for size in range(words, 0, -1) for start in range(words - size + 1))


def _cell_width(source: Tokens) -> float:
    widest = max((columns(word) for word in source), default=0)
    return min(max(56.0, CHARACTER * widest + 12), 120.0)


def _place(span: Span, cell: SpanCell | None, words: int, width: float) -> Markup:
    x, y = width * (span.start + span.end) / 2, ROW * (words - (span.end - span.start))
    if cell is None:
        return element("circle", cx=x, cy=y + ROW / 2, r=2, class_="nothing")
    said = f"{cell.probability:.0%}" if cell.probability >= 0.005 else f"{cell.score:.1f}"
    box = {"x": x - width / 2 + 2, "y": y + 2, "width": width - 4, "height": ROW - 4, "rx": 6}
    return element(
        "g",
        element("title", f"{cell.rule}\nbest score {cell.score:.2f}, in {cell.probability:.2%} of the probability"),
        element("rect", **box, fill_opacity=round(0.08 + 0.82 * cell.probability, 3)),
        element("text", said, x=x, y=y + ROW / 2 + 4),
        class_="cell sure" if cell.probability >= 0.5 else "cell" if cell.probability >= 0.005 else "cell unused",
    )


def _words(source: Tokens, width: float) -> Iterator[Markup]:
    fits = int((width - 4) / CHARACTER)
    for at, word in enumerate(source):
        shown = word if columns(word) <= fits else f"{word[: fits - 1]}…"
        yield element("text", shown, x=width * (at + 0.5), y=ROW * len(source) + 18, class_="word")


def chart_table(source: Tokens, cells: Sequence[SpanCell]) -> Markup:
    """The derivable spans, one a row."""
    head = element("tr", *(element("th", name, scope="col") for name in ("words", "best rule", "score", "share")))
    rows = (
        element(
            "tr",
            element("td", " ".join(source[cell.span.start : cell.span.end])),
            element("td", rule_picture(cell.rule)),
            element("td", f"{cell.score:.2f}"),
            element("td", f"{cell.probability:.1%}"),
        )
        for cell in cells
    )
    table = element("table", element("thead", head), element("tbody", *rows))
    return element("details", element("summary", "The chart as a table"), element("div", table, class_="scroll"))


def gaps_picture(gaps: Gaps) -> Markup:
    """The sentence with its islands underlined and its unknown words marked, and the same in words."""
    pieces = sorted([*((span.start, span.end) for span in gaps.islands), *((at, at + 1) for at in gaps.uncovered)])
    shown = (_piece(" ".join(gaps.source[start:end]), _kind(start, gaps)) for start, end in pieces)
    said = str(gaps)
    return element(
        "div",
        element("p", *shown, class_="sentence"),
        element("p", f"{said[:1].upper()}{said[1:]}."),
        class_="nqg-gaps",
    )


def _kind(start: int, gaps: Gaps) -> str:
    if start in gaps.unknown:
        return "unknown"
    return "loose" if start in gaps.uncovered else "island"


def _piece(words: str, kind: str) -> Markup:
    titles = {"unknown": "no rule has this word", "loose": "known, but not used here", "island": "derivable"}
    return Markup(element("span", words, class_=kind, title=titles[kind]) + " ")
