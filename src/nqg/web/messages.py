"""The JSON of the API: requests, checked, and responses with their drawings."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from rich.cells import cell_len

from nqg.answers import Answer, ChartSpan, Correction, Reading, exact_match, in_percent
from nqg.calls import calls_or_none
from nqg.data.example import OUT_OF_SCOPE, Example
from nqg.evaluation.active_learning import SURE, Suggestion
from nqg.grammar.derivation import Tokens
from nqg.grammar.hypergraph import Span
from nqg.inference.gaps import Gaps
from nqg.web.middleware import HTTPError, Limits
from nqg.web.render import (
    Markup,
    derivation_outline,
    derivation_picture,
    element,
    rule_picture,
    rule_side,
    table_picture,
)

MOST_READINGS = 10
MOST_DRAWN_WORDS = 40  # of a sentence whose chart is drawn
ROW_HEIGHT = 34.0
CHARACTER_WIDTH = 8.0


def chart_picture(source: Tokens, cells: Sequence[ChartSpan]) -> Markup:
    """A triangle: over every span its share of the probability; and the same as a table for reading
    aloud.
    """
    words = len(source)
    if words > MOST_DRAWN_WORDS:
        return element(
            "p",
            f"The chart of {words} words is too wide to draw; the JSON answer has it.",
        )
    # The longest word decides how wide a column is, within bounds.
    longest = max(map(cell_len, source), default=0)
    width = min(max(56.0, CHARACTER_WIDTH * longest + 12), 120.0)
    height = ROW_HEIGHT * words
    # Draw the widest span first: it is the top of the triangle.
    by_span = {cell.span: cell for cell in cells}
    drawn: list[Markup] = []
    for size in range(words, 0, -1):
        for start in range(words - size + 1):
            span = Span(start, start + size)
            drawn.append(cell_picture(span, by_span.get(span), words, width))
    caption = f"Chart: the grammar derives {len(cells)} of {len(drawn)} spans"
    # A word that is wider than its column would run into the next one.
    fits = int((width - 4) / CHARACTER_WIDTH)
    for at, word in enumerate(source):
        if cell_len(word) > fits:
            word = f"{word[: fits - 1]}…"
        middle = width * (at + 0.5)
        drawn.append(element("text", word, x=middle, y=height + 18, class_="word"))
    picture = element(
        "svg",
        *drawn,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {width * words:.0f} {height + 30:.0f}",
        width=width * words,
        height=height + 30,
        role="img",
        aria_label=caption,
    )
    return element(
        "div",
        element("div", picture, class_="scroll"),
        chart_table(source, cells),
        class_="nqg-chart",
    )


def cell_picture(
    span: Span, cell: ChartSpan | None, words: int, width: float
) -> Markup:
    """The place of a span in the triangle: a box with its probability or score, or a dot."""
    # A span stands over the middle of its words, and longer spans stand higher.
    x = width * (span.start + span.end) / 2
    y = ROW_HEIGHT * (words - (span.end - span.start))
    if cell is None:
        return element("circle", cx=x, cy=y + ROW_HEIGHT / 2, r=2, class_="nothing")
    # A share that would be shown as 0 % says nothing; the score is shown instead.
    kind = "cell"
    figure = f"{cell.probability:.0%}"
    if cell.probability >= 0.5:
        kind = "cell sure"
    elif cell.probability < 0.005:
        kind = "cell unused"
        figure = f"{cell.score:.1f}"
    rule = f"{rule_side(cell.rule.source)} → {rule_side(cell.rule.target)}"
    share = f"in {cell.probability:.2%} of the probability"
    box = {
        "x": x - width / 2 + 2,
        "y": y + 2,
        "width": width - 4,
        "height": ROW_HEIGHT - 4,
        "rx": 6,
    }
    return element(
        "g",
        element("title", f"{rule}\nbest score {cell.score:.2f}, {share}"),
        element("rect", **box, fill_opacity=round(0.08 + 0.82 * cell.probability, 3)),
        element("text", figure, x=x, y=y + ROW_HEIGHT / 2 + 4),
        class_=kind,
    )


def chart_table(source: Tokens, cells: Sequence[ChartSpan]) -> Markup:
    rows = [
        (
            " ".join(source[cell.span.start : cell.span.end]),
            rule_picture(cell.rule),
            f"{cell.score:.2f}",
            f"{cell.probability:.1%}",
        )
        for cell in cells
    ]
    table = table_picture(("words", "best rule", "score", "share"), rows)
    return element(
        "details",
        element("summary", "The chart as a table"),
        element("div", table, class_="scroll"),
    )


def gaps_picture(gaps: Gaps) -> Markup:
    """The sentence with its islands underlined and its unknown words marked, and a legend."""
    titles = {
        "island": "the grammar derives this part",
        "loose": "known, but it does not fit here",
        "unknown": "no rule knows it",
    }
    if not gaps.uncovered:
        titles["island"] = "the grammar derives each part, but no rule joins them"
    # Islands and uncovered words together are the sentence, once they are sorted.
    parts = [(span.start, span.end, "island") for span in gaps.islands]
    for at in gaps.uncovered:
        kind = "unknown" if at in gaps.unknown else "loose"
        parts.append((at, at + 1, kind))
    spans: list[str] = []
    for start, end, kind in sorted(parts):
        words = " ".join(gaps.source[start:end])
        spans += [element("span", words, class_=kind, title=titles[kind]), " "]
    # The legend explains only what occurs in this sentence.
    kinds = {kind for _, _, kind in parts}
    legend = (
        element("span", title, class_=kind)
        for kind, title in titles.items()
        if kind in kinds
    )
    shown = (
        element("p", *spans, class_="sentence"),
        element("p", *legend, class_="legend"),
    )
    return element("div", *shown, class_="nqg-gaps")


def without_surrogates(text: str) -> str:
    """`text`, unless it holds halves of characters, which JSON can write and nothing else can."""
    for character in text:
        if "\ud800" <= character <= "\udfff":
            raise ValueError(
                f"the text holds U+{ord(character):04X}, which is half a character"
            )
    return text


Text = Annotated[str, AfterValidator(without_surrogates)]


class Message(BaseModel):
    """Exact types, no unknown keys."""

    model_config = ConfigDict(extra="forbid", strict=True)


class ErrorResponse(Message):
    """Why a request was not answered."""

    error: str


class ParseRequest(Message):
    """A sentence to parse."""

    sentence: Text = Field(
        examples=["walk twice"], description="Words separated by spaces."
    )
    readings: Annotated[int, Field(ge=0, le=MOST_READINGS)] = 0
    explain: bool = Field(
        default=False, description="Also send derivations, the chart and the gaps."
    )
    drawings: bool = Field(default=False, description="Also send those as HTML.")
    exact: bool = Field(default=False, description="Do not correct typos.")


class BatchRequest(Message):
    """Sentences to parse: a list or, with programs to compare answers with, the text of a TSV file."""

    sentences: list[Text] | None = Field(
        default=None, examples=[["walk twice", "jump"]]
    )
    text: Text | None = Field(
        default=None,
        examples=["walk twice\tI_WALK I_WALK\njump\n"],
        description="In place of `sentences`: lines of sentence, or sentence<TAB>program.",
    )

    def lines(self, limits: Limits) -> list[BatchLine]:
        r"""The sentences, or the lines of the text; its blank ones are skipped.

        >>> BatchRequest(text="jump\tI_JUMP\n\nwalk twice\n").lines(Limits())
        [BatchLine(sentence='jump', expected='I_JUMP'), BatchLine(sentence='walk twice', expected=None)]
        """
        if (self.sentences is None) == (self.text is None):
            raise HTTPError(422, "expected either 'sentences' or 'text'")
        # Line numbers count blank lines too, so that errors name the line of the file.
        lines = list(map(BatchLine, self.sentences or ()))
        text = (self.text or "").removeprefix("\ufeff").replace("\r\n", "\n")
        for number, line in enumerate(text.split("\n"), start=1):
            if not line.strip():
                continue
            sentence, *programs = map(str.strip, line.split("\t"))
            if len(programs) > 1:
                columns = f"{len(programs) + 1} columns"
                raise HTTPError(
                    422,
                    f"line {number}: expected 'sentence' or 'sentence<TAB>program', found {columns}",
                )
            # A program that is left empty is not there.
            lines.append(BatchLine(sentence, "".join(programs) or None, number))
        # Blank lines are gone by now, so they do not count towards the limit.
        if len(lines) > limits.sentences:
            raise HTTPError(
                413,
                f"{len(lines):,} sentences; a batch holds at most {limits.sentences:,}",
            )
        for number, batch_line in enumerate(lines, start=1):
            prefix = f"sentence {number}: "
            if batch_line.line:
                prefix = f"line {batch_line.line}: "
            limits.check_length(batch_line.sentence, prefix)
        return lines


@dataclass(frozen=True, slots=True)
class BatchLine:
    """A sentence of a batch request and, perhaps, its program and its line in the text."""

    sentence: str
    expected: str | None = None
    line: int | None = field(default=None, repr=False)


class DerivationStep(Message):
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
    derivation: list[DerivationStep] | None = None
    drawing: str | None = Field(
        default=None, description="HTML with SVG; all text in it is escaped."
    )
    outline: str | None = Field(
        default=None, description="The derivation as a nested HTML list."
    )

    @classmethod
    def of(cls, reading: Reading, explain: bool, draw: bool) -> ReadingFound:
        message = cls(
            target=reading.target,
            probability=reading.probability,
            is_legal=reading.is_legal,
        )
        # Steps and drawings are large, so they are made only on demand.
        if explain:
            steps = zip(
                reading.derivation.hyperedges,
                reading.derivation.depths(),
                reading.scores,
                strict=True,
            )
            message.derivation = [
                DerivationStep(
                    rule=str(hyperedge.rule),
                    start=hyperedge.span.start,
                    end=hyperedge.span.end,
                    depth=depth,
                    score=score,
                )
                for hyperedge, depth, score in steps
            ]
        if draw:
            message.drawing = derivation_picture(
                reading.derivation, reading.scores, reading.target, reading.written
            )
            message.outline = derivation_outline(reading.derivation)
        return message


class ChartCell(Message):
    """A span that the grammar derives: its best rule and score, and how probable it is in a derivation of the whole."""

    start: int
    end: int
    rule: str
    score: float
    probability: float

    @classmethod
    def of(cls, cell: ChartSpan) -> ChartCell:
        start, end = cell.span.start, cell.span.end
        return cls(
            start=start,
            end=end,
            rule=str(cell.rule),
            score=cell.score,
            probability=cell.probability,
        )


class Missing(Message):
    """What the grammar lacks for a sentence: places of unknown words, and the spans [start, end) that it does know."""

    unknown: list[int]
    islands: list[tuple[int, int]]


class QueryRows(Message):
    """What a query gives on the database that is served; `is_cut`: there are more rows."""

    columns: list[str]
    rows: list[list[str | int | float | None]]
    is_cut: bool


class CallFound(Message):
    """A call of a function; arguments without a keyword are `positional`."""

    name: str
    arguments: dict[str, Any]
    positional: list[Any] = Field(default_factory=list)

    @classmethod
    def all_of(cls, answer: Answer) -> list[CallFound] | None:
        calls = calls_or_none(answer.target)
        if calls is None:
            return None
        return [cls.model_validate(call.to_json()) for call in calls]


class KnownPair(Message):
    """A sentence and a program, with how likely that is right."""

    source: str
    target: str
    confidence: float | None = None

    @classmethod
    def of(cls, answer: Answer | None) -> KnownPair | None:
        if answer is None or answer.target is None:
            return None
        return cls(
            source=answer.source, target=answer.target, confidence=answer.confidence
        )


class ParseResponse(Message):
    """The answer to a sentence; no `target` is an abstention, and `reason` says why."""

    source: list[str]
    target: str | None
    answered_by: str | None
    probability: float | None = Field(
        description="Of the grammar's program among all that it derives."
    )
    confidence: float | None = Field(
        description="How likely the grammar's program is right, where that was learned."
    )
    sureness: str = Field(description="The same in words.")
    calls: list[CallFound] | None = Field(
        description="The calls that the program is; null where it is something else."
    )
    reason: str
    kind: str = Field(description="'answered', or in a word why there is no program.")
    missing: list[str] = Field(
        description="Words that training does not have, or phrases that no rule joins."
    )
    withheld: KnownPair | None = Field(
        description="The program that is not sure enough to be the answer."
    )
    nearest: KnownPair | None = Field(
        description="Of an abstention: the training sentence that is most like it."
    )
    corrections: list[Correction] = Field(description="Typos, and how they were read.")
    best: ReadingFound | None
    readings: list[ReadingFound]
    chart: list[ChartCell] | None = None
    chart_drawing: str | None = None
    gaps: Missing | None = None
    gaps_drawing: str | None = None
    rows: QueryRows | None = None
    commands: list[ParseResponse] = Field(
        default_factory=list,
        description="The answer to each command, where the sentence holds several.",
    )

    @classmethod
    def of(
        cls, answer: Answer, request: ParseRequest, gaps: Gaps | None
    ) -> ParseResponse:
        # What the grammar said, whichever system answers in the end.
        first = answer.first
        explain, draw = request.explain, request.drawings
        readings = [
            ReadingFound.of(reading, explain, draw) for reading in first.readings
        ]
        response = cls(
            source=list(answer.source_tokens),
            sureness=sureness(judged(answer)),
            withheld=KnownPair.of(answer.withheld),
            nearest=KnownPair.of(answer.nearest),
            best=None,
            readings=readings,
            **shared_fields(answer),
        )
        reading = answer.reading or first.reading
        if reading:
            response.best = ReadingFound.of(reading, explain, draw)
        if answer.rows:
            response.rows = QueryRows(**answer.rows.to_dict())
        for command in answer.commands:
            shown = cls.of(command, request, command.first.gaps)
            response.commands.append(shown)
        # Charts and gaps are large, so they are sent only on demand.
        if first.chart is not None and explain:
            response.chart = list(map(ChartCell.of, first.chart))
        if gaps is not None and explain:
            islands = [(span.start, span.end) for span in gaps.islands]
            response.gaps = Missing(unknown=list(gaps.unknown), islands=islands)
        if draw and first.chart:
            response.chart_drawing = chart_picture(answer.source_tokens, first.chart)
        if draw and gaps:
            response.gaps_drawing = gaps_picture(gaps)
        return response


def judged(answer: Answer) -> Answer:
    """The answer that has probability and confidence: without those of both readers, the grammar's."""
    if answer.confidence is None:
        return answer.first
    return answer


def shared_fields(answer: Answer) -> dict[str, Any]:
    """The fields of an answer that a single response has and the row of a batch, too."""
    return {
        "target": answer.target,
        "answered_by": answer.answered_by,
        "probability": judged(answer).probability,
        "confidence": judged(answer).confidence,
        "calls": CallFound.all_of(answer),
        "reason": answer.reason,
        "kind": answer.kind,
        "missing": list(answer.missing),
        "corrections": list(answer.all_corrections),
    }


def sureness(answer: Answer) -> str:
    """How far to trust a program, in words: its confidence, or that nobody knows.

    >>> [sureness(Answer("run", "RUN", 1.0, confidence=confidence)) for confidence in (0.96, 0.914, 0.2)]
    ['sure: 96 %', 'likely, check it: 91 %', 'doubtful, check it: 20 %']
    >>> sureness(Answer("run", "RUN", 1.0)), sureness(Answer("run", "RUN", 0.7))
    ('the only reading', 'the most probable reading: 70 %')
    """
    if answer.target is None or answer.probability is None:
        return ""
    if answer.confidence is not None:
        words = "doubtful, check it"
        if answer.confidence >= SURE:
            words = "sure"
        elif answer.confidence >= 0.5:
            words = "likely, check it"
        return f"{words}: {in_percent(answer.confidence)}"
    # The sum of all readings is 1 but for rounding.
    if answer.probability > 1 - 1e-6:
        return "the only reading"
    return f"the most probable reading: {in_percent(answer.probability)}"


class BatchRow(Message):
    """A line of a batch and its answer."""

    sentence: str
    expected: str | None
    target: str | None
    answered_by: str | None
    probability: float | None
    confidence: float | None
    calls: list[CallFound] | None
    reason: str
    kind: str = Field(description="'answered', or in a word why there is no program.")
    missing: list[str]
    withheld: str | None = Field(description="A program that is not sure enough.")
    corrections: list[Correction]
    is_right: bool | None

    @classmethod
    def of(cls, line: BatchLine, answer: Answer) -> BatchRow:
        is_right = None
        if line.expected == OUT_OF_SCOPE:
            is_right = answer.target is None
        elif line.expected is not None:
            is_right = exact_match(answer.target, line.expected)
        withheld = None
        if answer.withheld:
            withheld = answer.withheld.target
        return cls(
            sentence=line.sentence,
            expected=line.expected,
            withheld=withheld,
            is_right=is_right,
            **shared_fields(answer),
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
    async def written(
        cls,
        lines: Sequence[BatchLine],
        answers: Sequence[Answer] | None,
        parts: AsyncIterator[Sequence[Answer]],
    ) -> AsyncIterator[str]:
        """The JSON of the response, from the first answers and further parts as they come; none is
        kept for long.
        """
        rest, answered, expected, right = iter(lines), 0, 0, 0
        # The text before a row opens the object at first, and is a comma from then on.
        separator = '{"rows":['
        while answers is not None:
            for answer in answers:
                row = BatchRow.of(next(rest), answer)
                answered += row.target is not None
                expected += row.expected is not None
                right += row.is_right is True
                yield separator + row.model_dump_json()
                separator = ","
            answers = await anext(parts, None)
        summary = cls(
            rows=[],
            sentences=len(lines),
            answered=answered,
            expected=expected,
            right=right,
            coverage=answered / len(lines) if lines else None,
            exact_match=right / expected if expected else None,
        )
        # Without rows nothing has opened the object; the summary drops its own brace.
        opening = "" if lines else separator
        yield f"{opening}],{summary.model_dump_json(exclude={'rows'})[1:]}"


class RuleFound(Message):
    """A rule of the grammar, and how often it was part of a best derivation."""

    number: int
    source: str
    target: str
    arity: int
    uses: int
    examples: list[str]
    by_hand: bool = Field(description="Written by hand, not learned from examples.")
    group: str = Field(description="The function that it writes, or its kind.")
    drawing: str


class RulesResponse(Message):
    """A page of the grammar: `found` rules match, `rules` are those from `offset` on."""

    found: int
    offset: int
    rules: list[RuleFound]


class SuggestedSentence(Message):
    """A sentence to annotate, why, the nearest rule as HTML and, perhaps, a program to accept or to correct.

    The program is legal. A guess is not sure enough to be an answer, or it is the program of another sentence or of a
    part of this one, which `guess_of` names.
    """

    source: str
    why: str
    program: str | None
    nearest: str | None
    guess_of: str | None
    is_guess: bool
    confidence: float | None

    @classmethod
    def of(cls, found: Suggestion) -> SuggestedSentence:
        nearest = rule_picture(found.nearest) if found.nearest else None
        return cls(
            source=found.source,
            why=found.why,
            program=found.program,
            nearest=nearest,
            guess_of=found.guess_of,
            is_guess=found.is_guess,
            confidence=found.confidence,
        )


class SuggestionsResponse(Message):
    """The sentences of the log that would teach most, best first."""

    suggestions: list[SuggestedSentence]


class Pair(Message):
    """A sentence and its program."""

    source: Text
    target: Text

    def example(self) -> Example:
        return Example(self.source.strip(), self.target.strip())


class ExampleRequest(Pair):
    """A pair for the training file."""

    allows_new: bool = Field(
        default=False, description="Take a program outside of the model's types, too."
    )


class ExampleResponse(Message):
    """The training file, which has a pair more or less now."""

    file: str


class CheckResponse(Message):
    """What is wrong with a pair: nothing, a mistake, or that its program is `new` to the model's types."""

    problem: str
    new: str


class SampleAnswer(Message):
    """A sentence to try and its program, as soon as that is known."""

    sentence: str
    target: str | None


class ModelResponse(Message):
    """What is being served, and its limits."""

    name: str
    digest: str | None = Field(
        description="The digest of the model folder, as `nqg check-model` prints it."
    )
    rules: int
    by_hand: int = Field(description="How many of the rules were written by hand.")
    examples: int | None = Field(
        description="How many examples it learned from, where that is known."
    )
    has_target_grammar: bool
    has_fallback: bool
    has_review: bool = Field(description="Whether sentences of a log can be annotated.")
    suggestions: list[SampleAnswer]
    most_tokens: int
    most_sentences: int
    most_bytes: int
