"""What the routes ask for: answers with their explanations, whole files, and rules with their uses."""

from __future__ import annotations

import asyncio
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, Literal, Protocol, TypeVar, cast

import numpy as np

from nqg.data.geobase import Geography, read_geobase
from nqg.data.geoquery import AnonymisedSentence, EntityNames, anonymised
from nqg.errors import FormatError, NqgError
from nqg.evaluation.denotations import denotation
from nqg.grammar.arrays import FloatArray
from nqg.grammar.chart import charts
from nqg.grammar.derivation import Tokens
from nqg.grammar.grammar import Grammar
from nqg.grammar.hypergraph import Hypergraph, NodeId, Span
from nqg.grammar.rule import Rule
from nqg.grammar.semirings import marginals, max_inside
from nqg.inference.gaps import Gaps, gaps
from nqg.inference.hybrid import Answer, Hybrid, has_fallback
from nqg.inference.parser import Parser
from nqg.inference.reading import Parse
from nqg.web.middleware import Busy, Limits, Refused, checked_sentence


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a batch: a sentence and, perhaps, its program."""

    sentence: str
    expected: str | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """A line and its answer."""

    line: Line
    answer: Answer

    @property
    def is_right(self) -> bool | None:
        """Whether the program is the expected one, token by token; None where none is expected."""
        if self.line.expected is None:
            return None
        return self.answer.target is not None and self.answer.target.split() == self.line.expected.split()


@dataclass(frozen=True, slots=True)
class Score:
    """How a batch went."""

    sentences: int
    answered: int
    expected: int  # sentences whose program is known
    right: int

    @classmethod
    def of(cls, rows: Sequence[Row]) -> Score:
        """The score of `rows`."""
        return cls(
            len(rows),
            sum(row.answer.target is not None for row in rows),
            sum(row.line.expected is not None for row in rows),
            sum(row.is_right is True for row in rows),
        )

    @property
    def coverage(self) -> float | None:
        """The share of sentences that got an answer."""
        return self.answered / self.sentences if self.sentences else None

    @property
    def exact_match(self) -> float | None:
        """The share of right answers among the sentences whose program is known."""
        return self.right / self.expected if self.expected else None


def read_lines(text: str, limits: Limits) -> list[Line]:
    r"""The lines of `text`: a sentence each, or a sentence, a tab and a program; blank ones are skipped.

    >>> read_lines("jump\tI_JUMP\n\nwalk twice\n", Limits())
    [Line(sentence='jump', expected='I_JUMP'), Line(sentence='walk twice', expected=None)]
    """
    lines = [
        _line(number, line, limits)
        for number, line in enumerate(text.removeprefix("\ufeff").replace("\r\n", "\n").split("\n"), start=1)
        if line.strip()
    ]
    if len(lines) > limits.sentences:
        raise Refused(413, f"{len(lines):,} sentences; a batch holds at most {limits.sentences:,}")
    return lines


def _line(number: int, line: str, limits: Limits) -> Line:
    columns = line.split("\t")
    if len(columns) > 2:
        raise Refused(
            422, f"line {number}: expected 'sentence' or 'sentence<TAB>program', found {len(columns)} columns"
        )
    try:
        checked_sentence(columns[0], limits)
    except Refused as error:
        raise Refused(error.status, f"line {number}: {error}") from None
    return Line(columns[0].strip(), columns[1].strip() or None if len(columns) == 2 else None)


MOST_EXAMPLES = 3  # sentences that are kept for a rule

Order = Literal["grammar", "uses"]


@dataclass(slots=True)
class Use:
    """The uses of one rule."""

    count: int = 0
    examples: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Listed:
    """A rule as the grammar's page lists it."""

    number: int
    rule: Rule
    use: Use


class Usage:
    """Counts that grow with every parse.

    What people ask is counted but never kept: on a shared server a sentence is nobody else's business. Examples come
    from a file that whoever starts the server chooses.
    """

    def __init__(self, grammar: Grammar) -> None:
        self._uses = {rule: Use() for rule in grammar}

    def count(self, parse: Parse, *, is_example: bool = False) -> None:
        """Take note of the rules in the best derivation of `parse`."""
        if parse.best is None:
            return
        for hyperedge in parse.best.derivation.hyperedges:
            use = self._uses[hyperedge.rule]
            use.count += 1
            sentence = " ".join(parse.source)
            if is_example and len(use.examples) < MOST_EXAMPLES and sentence not in use.examples:
                use.examples.append(sentence)

    def listed(self, search: str = "", order: Order = "grammar") -> list[Listed]:
        """The rules whose text has every word of `search`, in the grammar's order or the most used first."""
        words = search.lower().split()
        found = list(_matching(self._uses, words))
        return sorted(found, key=lambda each: -each.use.count) if order == "uses" else found


def _matching(uses: dict[Rule, Use], words: list[str]) -> Iterator[Listed]:
    for number, (rule, use) in enumerate(uses.items()):
        text = str(rule).lower()
        if all(word in text for word in words):
            yield Listed(number, rule, use)


@dataclass(frozen=True, slots=True)
class SpanCell:
    """A span, the first rule and the score of its best derivation, and the probability that the sentence's has it.

    The probability is 0 for a span that no derivation of the whole sentence uses.
    """

    span: Span
    rule: Rule
    score: float
    probability: float


def span_chart(parser: Parser, source: Tokens, limit: int | None = None) -> tuple[SpanCell, ...]:
    """The derivable spans of a sentence, short ones first; nothing where the encoder cannot read it."""
    sentence = parser.pieces([source])
    if len(sentence[0].ids) > parser.model.longest:
        return ()
    graph = charts(parser.grammar, [source], prune=False, limit=limit)
    if graph.nodes == 0:
        return ()
    scores = parser.scored(sentence, graph).scores
    best, first = max_inside(graph, scores)
    chances = span_probabilities(graph, scores, len(source))
    cells = (
        SpanCell(graph.span(at), parser.grammar[int(graph.rules[first[at]])], float(best[at]), float(chances[at]))
        for at in graph.node_ids()
    )
    return tuple(sorted(cells, key=lambda cell: (cell.span.end - cell.span.start, cell.span)))


def span_probabilities(graph: Hypergraph, scores: FloatArray, words: int) -> FloatArray:
    """For every node of one sentence's chart the probability that a derivation of the sentence has it: (N,)."""
    if graph.span(NodeId(graph.nodes - 1)) != Span(0, words):
        return np.zeros(graph.nodes)
    chances = np.bincount(graph.owners(), marginals(graph, scores), minlength=graph.nodes)
    return np.minimum(chances, 1.0)  # rounding may lead past 1


MOST_MEANINGS = 4096  # combinations of what a sentence's names may mean that are tried


@dataclass(frozen=True, slots=True)
class LookedUp:
    """A program with its names put back, and what geobase answers."""

    program: str
    answer: str


@dataclass(frozen=True)
class Atlas:
    """The names and the facts of a geobase."""

    names: EntityNames
    geography: Geography

    @classmethod
    def read(cls, path: Path) -> Atlas:
        """The atlas of a published geobase file."""
        geobase = read_geobase(path)
        return cls(EntityNames.of(geobase), Geography.of(geobase))

    def reworded(self, sentence: str) -> AnonymisedSentence:
        """The sentence as the model was trained to read it; one that holds placeholders already is left as it is."""
        try:
            return anonymised(sentence, self.names)
        except FormatError:
            return AnonymisedSentence(sentence, ())

    def looked_up(self, sentence: AnonymisedSentence, target: str) -> LookedUp | None:
        """The first well-typed program that `target` may mean, with its answer; None where there is none."""
        if math.prod(map(len, sentence.readings)) > MOST_MEANINGS:
            return None
        try:
            program = next(sentence.programs(target), None)
        except NqgError:
            return None
        return LookedUp(program, str(denotation(program, self.geography))) if program else None


Request = TypeVar("Request")
Response = TypeVar("Response")
LINGER = 0.002  # seconds that a batch waits for company


@dataclass(frozen=True, slots=True)
class _Asked(Generic[Request, Response]):
    question: Request
    answer: asyncio.Future[Response]


class Batcher(Generic[Request, Response]):
    """Collects questions and has them answered in batches, in a thread of its own.

    A question that cannot be asked because `waiting` others wait is refused with `Busy`. While a batch is being worked
    on the next one gathers, so under load batches grow by themselves and `LINGER` hardly matters.
    """

    def __init__(
        self, answer: Callable[[Sequence[Request]], Sequence[Response]], *, together: int = 64, waiting: int = 512
    ) -> None:
        self._answer = answer
        self._together = together
        self._queue: asyncio.Queue[_Asked[Request, Response]] = asyncio.Queue(waiting)
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="nqg-parser")
        self._worker: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin to answer."""
        self._worker = asyncio.create_task(self._work())

    async def stop(self) -> None:
        """Answer what was asked, then stop."""
        await self._queue.join()
        if self._worker is not None:
            self._worker.cancel()
        self._thread.shutdown()

    async def ask(self, question: Request) -> Response:
        """The answer to one question."""
        return (await self.ask_all([question]))[0]

    async def ask_all(self, questions: Sequence[Request]) -> list[Response]:
        """The answers to several questions, which wait side by side: all of them, or the first error."""
        if self._queue.maxsize - self._queue.qsize() < len(questions):
            raise Busy(f"{self._queue.qsize()} sentences are waiting already")
        loop = asyncio.get_running_loop()
        asked = [_Asked(question, loop.create_future()) for question in questions]
        for each in asked:
            self._queue.put_nowait(each)
        try:
            return list(await asyncio.gather(*(each.answer for each in asked)))
        finally:
            for each in asked:
                each.answer.cancel()  # nobody waits for the rest any more; a no-op where the answer is there

    async def _work(self) -> None:
        while True:
            batch = await self._gathered()
            alive = [each for each in batch if not each.answer.done()]
            if alive:
                await asyncio.get_running_loop().run_in_executor(self._thread, self._answer_batch, alive)
            for _ in batch:
                self._queue.task_done()

    async def _gathered(self) -> list[_Asked[Request, Response]]:
        batch = [await self._queue.get()]
        if self._queue.empty():
            await asyncio.sleep(LINGER)
        while len(batch) < self._together and not self._queue.empty():
            batch.append(self._queue.get_nowait())
        return batch

    def _answer_batch(self, batch: Sequence[_Asked[Request, Response]]) -> None:
        """Runs in the worker thread. Where one question spoils the batch, each is asked alone, to spare the others."""
        try:
            answers: Sequence[Response | Exception] = self._answer([each.question for each in batch])
        except Exception as error:
            answers = [error] if len(batch) == 1 else [self._answer_or_error(each.question) for each in batch]
        loop = batch[0].answer.get_loop()
        for each, answer in zip(batch, answers, strict=True):
            loop.call_soon_threadsafe(_settle, each.answer, answer)

    def _answer_or_error(self, question: Request) -> Response | Exception:
        try:
            return self._answer([question])[0]
        except Exception as error:
            return error


def _settle(future: asyncio.Future[Response], answer: Response | Exception) -> None:
    if future.done():
        return
    if isinstance(answer, Exception):
        future.set_exception(answer)
    else:
        future.set_result(answer)


class Answerer(Protocol):
    """What turns sentences into programs and says who did it: a `Hybrid`, or a grammar alone."""

    def answers(self, sentences: Iterable[str], *, readings: int = 0) -> Iterable[Answer]:
        """The programs of several sentences."""
        ...


@dataclass(frozen=True, slots=True)
class GrammarAlone:
    """A parser without a fallback, in the words of a hybrid."""

    parser: Parser

    def answers(self, sentences: Iterable[str], *, readings: int = 0) -> list[Answer]:
        """The grammar's programs; nobody answers where it abstains."""
        return [
            Answer(" ".join(parse.source), parse.target, "grammar" if parse.best else None, parse, reason=parse.reason)
            for parse in self.parser.parse_all(sentences, readings=readings)
        ]


@dataclass(frozen=True, slots=True)
class Question:
    """A sentence, how many readings of it are wanted, and whether with chart and gaps."""

    sentence: str
    readings: int = 0
    explain: bool = False


@dataclass(frozen=True, slots=True)
class Explained:
    """An answer and, if asked for, the chart behind it, what the grammar lacks, and what geobase says."""

    answer: Answer
    chart: tuple[SpanCell, ...] | None = None
    gaps: Gaps | None = None
    looked_up: LookedUp | None = None


class Service:
    """A model in service; every sentence goes through one queue."""

    def __init__(
        self,
        name: str,
        parser: Parser,
        hybrid: Hybrid | None = None,
        *,
        atlas: Atlas | None = None,
        limits: Limits = Limits(),  # noqa: B008 (frozen)
    ) -> None:
        self.name = name
        self.parser = parser
        self.atlas = atlas
        self.limits = limits
        self.usage = Usage(parser.grammar)
        self.has_fallback = hybrid is not None
        self.suggestions: list[str] = []
        self._answerer: Answerer = hybrid or GrammarAlone(parser)
        self._batcher: Batcher[Question, Explained] | None = None
        self._learning: asyncio.Task[None] | None = None

    @classmethod
    def load(cls, folder: Path, device: str | None = None, atlas: Atlas | None = None) -> Service:
        """The service of a model folder, with its fallback where it has one."""
        name = folder.resolve().name
        if not has_fallback(folder):
            return cls(name, Parser.load(folder, device), atlas=atlas)
        hybrid = Hybrid.load(folder, device)
        return cls(name, cast(Parser, hybrid.parser), hybrid, atlas=atlas)  # a folder's parser is always a Parser

    async def start(self, examples: Sequence[str] = ()) -> None:
        """Begin to answer; the uses of rules in `examples` are counted on the side."""
        self._batcher = Batcher(self._explained, together=self.limits.together, waiting=self.limits.waiting)
        await self._batcher.start()
        self.suggestions = _suggestions(examples)
        self._learning = asyncio.create_task(self._learn(examples))

    async def stop(self) -> None:
        """Finish what was asked, then stop."""
        if self._learning is not None:
            self._learning.cancel()
        await self._queue.stop()

    async def explained(self, question: Question) -> Explained:
        """The answer to one question."""
        checked_sentence(question.sentence, self.limits)
        found = await self._queue.ask(question)
        self.usage.count(found.answer.parse)
        return found

    async def rows(self, lines: Sequence[Line]) -> list[Row]:
        """The answers to a batch, a part at a time so that other clients get their turn in between."""
        rows: list[Row] = []
        for start in range(0, len(lines), self.limits.together):
            part = lines[start : start + self.limits.together]
            answers = await self._queue.ask_all([Question(line.sentence) for line in part])
            rows += [Row(line, found.answer) for line, found in zip(part, answers, strict=True)]
        for row in rows:
            self.usage.count(row.answer.parse)
        return rows

    @property
    def _queue(self) -> Batcher[Question, Explained]:
        if self._batcher is None:
            raise RuntimeError("the service was not started")
        return self._batcher

    async def _learn(self, examples: Sequence[str]) -> None:
        few = max(1, self.limits.together // 4)  # leaves room for people
        for start in range(0, len(examples), few):
            for found in await self._when_there_is_room([Question(each) for each in examples[start : start + few]]):
                self.usage.count(found.answer.parse, is_example=True)

    async def _when_there_is_room(self, questions: Sequence[Question]) -> list[Explained]:
        while True:
            try:
                return await self._queue.ask_all(questions)
            except Busy as busy:
                await asyncio.sleep(busy.retry_after)
            except NqgError:
                return []  # an example that is too much for the parser is none of the page's business

    def _explained(self, questions: Sequence[Question]) -> list[Explained]:
        """Runs in the worker thread."""
        groups: dict[int, list[int]] = defaultdict(list)
        for place, question in enumerate(questions):
            groups[question.readings].append(place)
        found: dict[int, Answer] = {}
        for readings, places in groups.items():
            sentences = [self._reworded(questions[place].sentence).source for place in places]
            found.update(zip(places, self._answerer.answers(sentences, readings=readings), strict=True))
        return [self._with_reasons(question, found[place]) for place, question in enumerate(questions)]

    def _with_reasons(self, question: Question, answer: Answer) -> Explained:
        if not question.explain:
            return Explained(answer)
        source = answer.parse.source
        chart = span_chart(self.parser, source, self.limits.chart_entries)
        lacking = gaps(self.parser.grammar, source, limit=self.limits.chart_entries)
        return Explained(answer, chart, None if lacking.is_whole else lacking, self._looked_up(question, answer))

    def _reworded(self, sentence: str) -> AnonymisedSentence:
        return self.atlas.reworded(sentence) if self.atlas else AnonymisedSentence(sentence, ())

    def _looked_up(self, question: Question, answer: Answer) -> LookedUp | None:
        if self.atlas is None or answer.target is None:
            return None
        return self.atlas.looked_up(self._reworded(question.sentence), answer.target)


def _suggestions(examples: Sequence[str], most: int = 4) -> list[str]:
    """A few examples, short and long ones."""
    ordered = sorted(dict.fromkeys(examples), key=lambda each: (len(each.split()), each))
    count = min(most, len(ordered))
    return [ordered[(2 * at + 1) * len(ordered) // (2 * count)] for at in range(count)]
