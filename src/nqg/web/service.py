"""What the routes ask for: answers with their explanations, whole files, and rules with their uses."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, cast

from nqg.data.geoquery import AnonymisedSentence
from nqg.errors import NqgError
from nqg.inference.gaps import Gaps, gaps
from nqg.inference.hybrid import Answer, Hybrid, has_fallback
from nqg.inference.parser import Parser
from nqg.web.atlas import Atlas, LookedUp
from nqg.web.batch import Line, Row
from nqg.web.batching import Batcher
from nqg.web.limits import Busy, Limits, checked_sentence
from nqg.web.span_chart import SpanCell, span_chart
from nqg.web.usage import Usage


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
