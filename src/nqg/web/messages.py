"""The JSON of the API: what comes in, checked, and what goes out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from nqg.grammar.derivation import Tokens
from nqg.grammar.hypergraph import Span
from nqg.grammar.pictures import Markup, columns, derivation_outline, derivation_picture, element, rule_picture
from nqg.grammar.rule import spelled
from nqg.inference.gaps import Gaps
from nqg.inference.reading import Reading
from nqg.web.service import Explained, Listed, Row, Score, SpanCell

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


MOST_READINGS = 10
By = Literal["grammar", "fallback"]


def _whole(text: str) -> str:
    """`text`, unless it holds halves of characters, which JSON can write and nothing else can."""
    for character in text:
        if "\ud800" <= character <= "\udfff":
            raise ValueError(f"the text holds U+{ord(character):04X}, which is half a character")
    return text


Text = Annotated[str, AfterValidator(_whole)]


class Message(BaseModel):
    """Exact types, no unknown keys."""

    model_config = ConfigDict(extra="forbid", strict=True)


class Problem(Message):
    """Why a request was not answered."""

    error: str


class ParseRequest(Message):
    """A sentence to parse."""

    sentence: Text = Field(examples=["walk twice"], description="Words separated by spaces.")
    readings: Annotated[int, Field(ge=0, le=MOST_READINGS)] = 0
    explain: bool = Field(default=False, description="Also send derivations, drawings, the chart and the gaps.")


class BatchRequest(Message):
    """Sentences to parse, as the text of a TSV file."""

    text: Text = Field(examples=["walk twice\tI_WALK I_WALK\njump\n"], description="sentence, or sentence<TAB>program.")


class Step(Message):
    """A rule, the words [start, end) that it covers, and the model's score of it there; `depth` 0 is the root."""

    rule: str
    start: int
    end: int
    depth: int
    score: float


class ReadingFound(Message):
    """A program that the sentence may mean."""

    target: str
    probability: float
    is_legal: bool
    derivation: list[Step] | None = None
    drawing: str | None = Field(default=None, description="HTML with SVG; all text in it is escaped.")
    outline: str | None = Field(default=None, description="The derivation as a nested HTML list.")

    @classmethod
    def of(cls, reading: Reading, explain: bool) -> ReadingFound:
        """The message about `reading`."""
        facts = cls(target=" ".join(reading.target), probability=reading.probability, is_legal=reading.is_legal)
        if not explain:
            return facts
        facts.derivation = list(_steps(reading))
        facts.drawing = derivation_picture(reading.derivation, reading.scores)
        facts.outline = derivation_outline(reading.derivation)
        return facts


def _steps(reading: Reading) -> Iterator[Step]:
    hyperedges, depths = reading.derivation.hyperedges, reading.derivation.depths()
    for each, depth, score in zip(hyperedges, depths, reading.scores, strict=True):
        yield Step(rule=str(each.rule), start=each.span.start, end=each.span.end, depth=depth, score=score)


class Cell(Message):
    """A span that the grammar derives: its best rule and score, and how probable it is in a derivation of the whole."""

    start: int
    end: int
    rule: str
    score: float
    probability: float

    @classmethod
    def of(cls, cell: SpanCell) -> Cell:
        """The message about `cell`."""
        start, end = cell.span.start, cell.span.end
        return cls(start=start, end=end, rule=str(cell.rule), score=cell.score, probability=cell.probability)


class Missing(Message):
    """What the grammar lacks for a sentence: places of unknown words, and the spans [start, end) that it does know."""

    unknown: list[int]
    islands: list[tuple[int, int]]


class Geobase(Message):
    """What GeoQuery's database answers: the program with its names put back, and the answer in words."""

    program: str
    answer: str


class ParseResponse(Message):
    """The answer to a sentence; no `target` is an abstention, and `reason` says why."""

    source: list[str]
    target: str | None
    answered_by: By | None
    probability: float | None = Field(description="Of the grammar's program among all that it derives.")
    reason: str
    best: ReadingFound | None
    readings: list[ReadingFound]
    chart: list[Cell] | None = None
    chart_drawing: str | None = None
    gaps: Missing | None = None
    gaps_drawing: str | None = None
    geobase: Geobase | None = None

    @classmethod
    def of(cls, found: Explained, explain: bool) -> ParseResponse:
        """The message about an answer."""
        answer, parse = found.answer, found.answer.parse
        response = cls(
            source=list(parse.source),
            target=answer.target,
            answered_by=answer.by,
            probability=parse.probability,
            reason=answer.reason,
            best=ReadingFound.of(parse.best, explain) if parse.best else None,
            readings=[ReadingFound.of(reading, explain) for reading in parse.readings],
        )
        if found.chart is not None:
            response.chart = [Cell.of(cell) for cell in found.chart]
            response.chart_drawing = chart_picture(parse.source, found.chart)
        if found.gaps is not None:
            islands = [(span.start, span.end) for span in found.gaps.islands]
            response.gaps = Missing(unknown=list(found.gaps.unknown), islands=islands)
            response.gaps_drawing = gaps_picture(found.gaps)
        if found.looked_up is not None:
            response.geobase = Geobase(program=found.looked_up.program, answer=found.looked_up.answer)
        return response


class BatchRow(Message):
    """A line of a batch and its answer."""

    sentence: str
    expected: str | None
    target: str | None
    answered_by: By | None
    probability: float | None
    reason: str
    is_right: bool | None

    @classmethod
    def of(cls, row: Row) -> BatchRow:
        """The message about `row`."""
        line, answer = row.line, row.answer
        return cls(
            sentence=line.sentence,
            expected=line.expected,
            target=answer.target,
            answered_by=answer.by,
            probability=answer.parse.probability,
            reason=answer.reason,
            is_right=row.is_right,
        )


class BatchResponse(Message):
    """The answers to a batch, and how it went; rates are null where there is nothing to divide by."""

    rows: list[BatchRow]
    sentences: int
    answered: int
    expected: int
    right: int
    coverage: float | None
    exact_match: float | None

    @classmethod
    def of(cls, rows: list[Row]) -> BatchResponse:
        """The message about a batch."""
        score = Score.of(rows)
        return cls(
            rows=[BatchRow.of(row) for row in rows],
            sentences=score.sentences,
            answered=score.answered,
            expected=score.expected,
            right=score.right,
            coverage=score.coverage,
            exact_match=score.exact_match,
        )


class RuleFound(Message):
    """A rule of the grammar, and how often it was part of a best derivation."""

    number: int
    source: str
    target: str
    arity: int
    uses: int
    examples: list[str]
    drawing: str

    @classmethod
    def of(cls, listed: Listed) -> RuleFound:
        """The message about a rule."""
        source, target = (" ".join(map(spelled, side)) for side in (listed.rule.source, listed.rule.target))
        return cls(
            number=listed.number,
            source=source,
            target=target,
            arity=listed.rule.arity,
            uses=listed.use.count,
            examples=list(listed.use.examples),
            drawing=rule_picture(listed.rule),
        )


class RulesResponse(Message):
    """A page of the grammar: `found` rules match, `rules` are those from `offset` on."""

    found: int
    offset: int
    rules: list[RuleFound]


class ModelResponse(Message):
    """What is being served, and its limits."""

    name: str
    rules: int
    has_target_grammar: bool
    has_fallback: bool
    suggestions: list[str]
    most_tokens: int
    most_sentences: int
    most_bytes: int
