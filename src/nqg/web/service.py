"""A model in service: one queue for all sentences, answers with their explanations, and how often
rules are used.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property, partial
from pathlib import Path
from typing import Annotated, Generic, Literal, TypeVar, cast

from fastapi import Depends, Request
from starlette.types import ASGIApp, Receive, Scope, Send

from nqg.answers import Answer
from nqg.data.example import Example
from nqg.errors import DamagedModel, NqgError
from nqg.evaluation.active_learning import (
    Suggestion,
    add_example,
    check_example,
    chosen_suggestions,
    logged_sentences,
    remove_last_example,
)
from nqg.evaluation.legality import ModelTypes, ProgramCheck
from nqg.grammar.grammar import SEPARATOR, Grammar, Rule
from nqg.inference.decoding import DecodeOptions
from nqg.inference.gaps import Gaps, explained
from nqg.inference.hybrid import Hybrid, load_with_grammar
from nqg.inference.parser import Parser
from nqg.model.checkpoint import spread
from nqg.model_folder import folder_digest
from nqg.sql.database import Database
from nqg.sql.execution import executed
from nqg.types.rule_groups import function_names, rule_groups
from nqg.web.messages import RuleFound, RulesResponse
from nqg.web.middleware import Busy, HTTPError, Limits, token_count
from nqg.web.render import rule_picture

BATCH_DELAY = 0.002  # seconds that a lone sentence waits for others
IDLE_CHECK = 0.1  # seconds until a replaced service is looked at again
EXAMPLES_A_RULE = 3
SUGGESTIONS = 6
# Sentences of a log that are answered before others get their turn.
FEW_SENTENCES = 8
LONG_BATCH = "the programs of the batch have too many tokens"

RuleOrder = Literal["function", "grammar", "uses"]
Query = TypeVar("Query")
Result = TypeVar("Result")
Work = TypeVar("Work")


class Batcher(Generic[Query, Result]):
    """Collects questions and has them answered in batches, in a thread of its own.

    A question that finds `queue_size` others waiting is refused with `Busy`. A batch has at most
    `batch_size` questions, and, unless it is of one question, at most `most_weight` in all. While a batch is being
    worked on the next one gathers, so under load batches grow by themselves and `BATCH_DELAY`
    hardly matters.
    """

    def __init__(
        self,
        answer: Callable[[Sequence[Query]], Sequence[Result]],
        *,
        batch_size: int = 64,
        queue_size: int = 512,
        weight: Callable[[Query], int] = lambda question: 1,
        most_weight: int | None = None,
    ) -> None:
        self._answer, self._batch_size = answer, batch_size
        self._weight, self._most_weight = weight, most_weight or batch_size
        self._queue: asyncio.Queue[tuple[Query, asyncio.Future[Result]]] = (
            asyncio.Queue(queue_size)
        )
        # One thread: a model answers one batch after the other.
        self._thread = ThreadPoolExecutor(
            max_workers=1, thread_name_prefix="nqg-parser"
        )
        self._worker: asyncio.Task[None] | None = None
        self._left_over: tuple[Query, asyncio.Future[Result]] | None = None
        # What `trouble` looks at.
        self._busy_since: float | None = None
        self._last_failed = False

    async def start(self) -> None:
        self._worker = asyncio.create_task(self._work())

    def trouble(self, answer_timeout: float) -> str:
        """Why questions are not being answered; nothing where they are."""
        busy_since = self._busy_since
        if busy_since is not None and time.monotonic() - busy_since > answer_timeout:
            return f"a batch has been worked on for more than {answer_timeout:g} s"
        if self._last_failed:
            return "the last question that was worked on failed"
        return ""

    async def stop(self) -> None:
        """Answer what was asked, then stop."""
        await self._queue.join()
        if self._worker is not None:
            self._worker.cancel()
        self._thread.shutdown()

    async def ask(self, question: Query) -> Result:
        return (await self.ask_all([question]))[0]

    async def ask_all(
        self, questions: Sequence[Query], *, waits: bool = False
    ) -> list[Result]:
        """The answers to several questions, which wait side by side: all of them, or the first
        error.

        Where too many others are waiting they are refused or, if told so, wait until there is room.
        """
        # All of the questions get room in the queue, or none of them.
        while self._queue.maxsize - self._queue.qsize() < len(questions):
            busy = Busy(f"{self._queue.qsize()} sentences are waiting already")
            if not waits:
                raise busy
            await asyncio.sleep(busy.retry_after)
        loop = asyncio.get_running_loop()
        futures: list[asyncio.Future[Result]] = [
            loop.create_future() for _ in questions
        ]
        for waiting in zip(questions, futures, strict=True):
            self._queue.put_nowait(waiting)
        try:
            return list(await asyncio.gather(*futures))
        finally:
            for future in futures:
                # Nobody waits for the rest any more; a no-op where the answer is there.
                future.cancel()

    async def run(self, work: Callable[[], Work]) -> Work:
        """Do something else in the thread that answers questions, which wait meanwhile."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    async def _work(self) -> None:
        while True:
            # Gather a batch; a lone question waits a little for others.
            batch = [self._left_over or await self._queue.get()]
            self._left_over = None
            if self._queue.empty():
                await asyncio.sleep(BATCH_DELAY)
            weight = self._weight(batch[0][0])
            while len(batch) < self._batch_size and not self._queue.empty():
                waiter = self._queue.get_nowait()
                weight += self._weight(waiter[0])
                # What is too much for this batch begins the next.
                if weight > self._most_weight:
                    self._left_over = waiter
                    break
                batch.append(waiter)
            # Questions that nobody waits for any more are left out.
            waiting = [waiter for waiter in batch if not waiter[1].done()]
            if waiting:
                questions = [question for question, _ in waiting]
                self._busy_since = time.monotonic()
                results = await asyncio.get_running_loop().run_in_executor(
                    self._thread, self._results, questions
                )
                self._busy_since, self._last_failed = None, is_failure(results[-1])
                # Somebody may have stopped waiting meanwhile.
                for (_, future), result in zip(waiting, results, strict=True):
                    if future.done():
                        continue
                    if isinstance(result, Exception):
                        future.set_exception(result)
                    else:
                        future.set_result(result)
            for _ in batch:
                self._queue.task_done()

    def _results(self, questions: Sequence[Query]) -> list[Result | Exception]:
        """Runs in the worker thread. Where one question spoils the batch, each is asked alone, to
        spare the others.
        """
        try:
            return list(self._answer(questions))
        except Exception as error:
            if len(questions) == 1:
                return [error]
            results: list[Result | Exception] = []
            for question in questions:
                results += self._results([question])
            return results


def is_failure(result: object) -> bool:
    """Whether a result is an error that is not the question's fault."""
    if isinstance(result, NqgError):
        return isinstance(result, DamagedModel)
    return isinstance(result, Exception)


class UsageCounter:
    """How often each rule was part of a best derivation.

    What people ask is counted but never kept: on a shared server a sentence is nobody else's
    business. Examples come from a file that whoever starts the server chooses.
    """

    def __init__(self, grammar: Grammar, by_hand: Iterable[Rule] = ()) -> None:
        self._rules = list(grammar)
        self._counts = Counter[Rule]()
        self._examples = defaultdict[Rule, list[str]](list)
        self._by_hand = frozenset(by_hand)
        # Which group a rule is in, and what that is called.
        self._groups: dict[Rule, tuple[int, str]] = {}
        functions = function_names(grammar.target_grammar)
        for rank, group in enumerate(rule_groups(self._rules, functions)):
            self._groups.update(dict.fromkeys(group.rules, (rank, group.title)))

    def count(self, answer: Answer, *, is_example: bool = False) -> None:
        for command in answer.commands:
            self.count(command, is_example=is_example)
        reading = answer.first.reading
        if reading is None:
            return
        sentence = " ".join(answer.source.split())
        for hyperedge in reading.derivation.hyperedges:
            self._counts[hyperedge.rule] += 1
            examples = self._examples[hyperedge.rule]
            is_wanted = is_example and len(examples) < EXAMPLES_A_RULE
            if is_wanted and sentence not in examples:
                examples.append(sentence)

    def search(
        self,
        text: str,
        order: RuleOrder,
        offset: int,
        limit: int,
        by_hand: bool = False,
    ) -> RulesResponse:
        """The rules, or those by hand, that have every word of `text`, in the grammar's order, by
        function or most used first.
        """
        words = text.lower().split()
        matching: list[tuple[int, Rule]] = []
        for number, rule in enumerate(self._rules):
            if not by_hand or rule in self._by_hand:
                written = str(rule).lower()
                if all(word in written for word in words):
                    matching.append((number, rule))
        # The sort is stable, so rules of equal use stay in the grammar's order.
        if order != "grammar":
            matching.sort(key=lambda numbered: -self._counts[numbered[1]])
        if order == "function":
            matching.sort(key=lambda numbered: self._groups[numbered[1]])
        # Draw the rules of this page only; all that match are counted.
        page = [
            self._found(*numbered) for numbered in matching[offset : offset + limit]
        ]
        return RulesResponse(found=len(matching), offset=offset, rules=page)

    def _found(self, number: int, rule: Rule) -> RuleFound:
        source, _, target = str(rule).partition(f" {SEPARATOR} ")
        return RuleFound(
            number=number,
            source=source,
            target=target,
            arity=rule.arity,
            uses=self._counts[rule],
            examples=self._examples.get(rule, []),
            by_hand=rule in self._by_hand,
            group=self._groups[rule][1],
            drawing=rule_picture(rule),
        )


@dataclass(frozen=True, slots=True)
class Question:
    """A sentence, how many readings of it are wanted, whether with chart and gaps, and whether
    typos are left.
    """

    sentence: str
    readings: int = 0
    explain: bool = False
    exact: bool = False


@dataclass(frozen=True, slots=True)
class Explained:
    """An answer and, if asked for, what the grammar lacks."""

    answer: Answer
    gaps: Gaps | None = None


class Service:
    """A model in service; every sentence goes through one queue."""

    def __init__(
        self,
        name: str,
        model: Parser | Hybrid,
        *,
        digest: str | None = None,
        database: Database | None = None,
        log: Path | None = None,
        review: Path | None = None,
        limits: Limits = Limits(),  # noqa: B008 (frozen)
    ) -> None:
        parser = model.parser if isinstance(model, Hybrid) else model
        if not isinstance(parser, Parser):
            raise NqgError(
                f"the page shows the rules of a Parser, found {type(parser).__name__}"
            )
        self.name, self.parser, self.limits = name, parser, limits
        self.digest = digest
        self.database, self.log, self.review = database, log, review
        self.usage = UsageCounter(parser.grammar, parser.model.by_hand)
        self.has_fallback = isinstance(model, Hybrid)
        # Sentences to try, and their programs as soon as they are known.
        self.suggestions: dict[str, str | None] = {}
        self._model, self._batches, self._log_trouble = model, 0, ""
        self._batcher: Batcher[Question, Explained] | None = None
        self._counting: asyncio.Task[None] | None = None

    @classmethod
    def load(
        cls,
        folder: Path,
        device: str | None = None,
        database: Database | None = None,
        log: Path | None = None,
        review: Path | None = None,
    ) -> Service:
        model = load_with_grammar(folder, device)
        # A folder `mine/model` is called after the one around it.
        names = (part for part in folder.resolve().parts[::-1] if part != "model")
        name = next(names, "model")
        digest = folder_digest(folder)
        return cls(
            name, model, digest=digest, database=database, log=log, review=review
        )

    async def start(self, examples: Sequence[str] = ()) -> None:
        """Begin to answer; the uses of rules in `examples` are counted on the side, and a few of
        them suggested.

        Without examples, those that the model keeps of its training data take their place.
        """
        limits = self.limits
        examples = examples or self.parser.model.provenance.sentences
        self._batcher = Batcher(
            self.explain_all,
            batch_size=limits.batch_size,
            queue_size=limits.queue_size,
            weight=lambda question: token_count(question.sentence),
            most_weight=limits.parsed_tokens,
        )
        await self._batcher.start()
        self._counting = asyncio.create_task(
            self._count_examples(self._batcher, examples)
        )
        self.suggestions = dict.fromkeys(spread(examples, SUGGESTIONS))

    async def stop(self) -> None:
        if self._counting is not None:
            self._counting.cancel()
        await self._started().stop()

    def trouble(self) -> str:
        """Why sentences are not being answered, or answers not logged; nothing where they are."""
        return self._started().trouble(self.limits.answer_timeout) or self._log_trouble

    async def explained(self, question: Question) -> Explained:
        self.limits.check_length(question.sentence)
        explained = await self._started().ask(question)
        self._note(explained.answer)
        return explained

    def _note(self, answer: Answer) -> None:
        """Count the rules of an answer and log it; a log that cannot be written is no concern of
        whoever asked.
        """
        self.usage.count(answer)
        if self.log:
            try:
                now = datetime.now(UTC).isoformat(timespec="seconds")
                answer.log_to(self.log, time=now, model=self.digest)
                self._log_trouble = ""
            except NqgError as error:
                # Anybody may ask for it, so the path is left out.
                self._log_trouble = (
                    f"the log {str(error).removeprefix(f'{self.log}: ')}"
                )

    async def suggested(self, count: int) -> list[Suggestion]:
        """What to annotate of the log that the training file does not have."""
        log, train = self._reviewed()
        annotated = train if train.exists() else None
        if not log.exists():
            return []
        batcher, limits = self._started(), self.limits
        sentences, examples = await asyncio.to_thread(
            logged_sentences, log, annotated, limits.reviewed
        )
        # A few sentences at a time, so that people who ask meanwhile get their turn.
        options = DecodeOptions(gaps=True, limit=limits.chart_steps)
        parser = self.parser.with_options(options)
        answers: list[Answer] = []
        for start in range(0, len(sentences), FEW_SENTENCES):
            part = sentences[start : start + FEW_SENTENCES]
            answers += await batcher.run(partial(list[Answer], parser.answers(part)))
        system = self._model.with_options(options)
        chosen = chosen_suggestions(system, answers, count, examples)
        suggestions: list[Suggestion] = []
        suggestion = await batcher.run(lambda: next(chosen, None))
        while suggestion is not None:
            suggestions.append(suggestion)
            suggestion = await batcher.run(lambda: next(chosen, None))
        return suggestions

    async def check(self, example: Example) -> ProgramCheck:
        """What is wrong with a pair for the training file."""
        _, train = self._reviewed()
        return await self._started().run(
            lambda: check_example(train, example, self._types)
        )

    async def accept(self, example: Example, *, allows_new: bool = False) -> Path:
        """Add a pair to the training file, and say which that is."""
        _, train = self._reviewed()
        await self._started().run(
            lambda: add_example(train, example, self._types, allows_new=allows_new)
        )
        return train

    async def take_back(self, example: Example) -> Path:
        """Remove the pair that was added to the training file last."""
        _, train = self._reviewed()
        await self._started().run(lambda: remove_last_example(train, example))
        return train

    @cached_property
    def _types(self) -> ModelTypes:
        return ModelTypes.of(self.parser.model)

    def _reviewed(self) -> tuple[Path, Path]:
        if self.log is None or self.review is None:
            raise HTTPError(
                404,
                "nothing is reviewed here; start the server with --log FILE --review TRAIN.tsv",
            )
        return self.log, self.review

    async def answers(self, sentences: Sequence[str]) -> AsyncIterator[list[Answer]]:
        """The answers to a batch, a part at a time so that other clients get their turn in between.

        Where too many others are waiting the first part is refused, and others wait. Where the
        programs of the batch have too many tokens, the rest are withheld.
        """
        limits, left = self.limits, self.limits.batch_tokens
        if self._batches >= limits.batches:
            raise Busy(f"{self._batches} batches are being answered already")
        self._batches += 1
        try:
            for start in range(0, len(sentences), limits.batch_size):
                part = sentences[start : start + limits.batch_size]
                explained = await self._started().ask_all(
                    list(map(Question, part)), waits=start > 0
                )
                answers = [item.answer for item in explained]
                for index, answer in enumerate(answers):
                    self._note(answer)
                    left -= len((answer.target or "").split())
                    # The row stays, as an abstention, so that rows and sentences still
                    # correspond.
                    if left < 0:
                        answers[index] = Answer(
                            answer.source, system=answer.system, reason=LONG_BATCH
                        )
                yield answers
        finally:
            self._batches -= 1

    def _started(self) -> Batcher[Question, Explained]:
        if self._batcher is None:
            raise RuntimeError("the service was not started")
        return self._batcher

    async def _count_examples(
        self, batcher: Batcher[Question, Explained], examples: Sequence[str]
    ) -> None:
        # Suggestions come first, because whoever opens the page sees them. Parts are small, to
        # leave room for people.
        suggested = list(self.suggestions)
        parts: list[Sequence[str]] = [suggested]
        few = max(1, self.limits.batch_size // 4)
        starts = range(0, len(examples), few)
        parts += [examples[start : start + few] for start in starts]
        while parts:
            try:
                answers = await batcher.ask_all(list(map(Question, parts[0])))
                for sentence, explained in zip(parts[0], answers, strict=True):
                    if parts[0] is suggested:
                        self.suggestions[sentence] = explained.answer.target
                    else:
                        self.usage.count(explained.answer, is_example=True)
            except Busy as busy:
                await asyncio.sleep(busy.retry_after)
                continue
            # An example that is too much for the parser does not concern the page.
            except NqgError:
                pass
            parts.pop(0)

    def explain_all(self, questions: Sequence[Question]) -> list[Explained]:
        """The answers to several questions at once; runs in the worker thread."""
        # Questions of the same options are answered in one batch of the model.
        groups: dict[DecodeOptions, list[int]] = defaultdict(list)
        for index, question in enumerate(questions):
            limit, most = self.limits.chart_steps, self.limits.target_tokens
            options = DecodeOptions(
                question.readings,
                chart=question.explain,
                gaps=True,
                limit=limit,
                most_tokens=most,
                exact=question.exact,
            )
            groups[options].append(index)
        by_index: dict[int, Explained] = {}
        for options, indices in groups.items():
            answers = self._model.with_options(options).answers(
                questions[index].sentence for index in indices
            )
            for index, answer in zip(indices, answers, strict=True):
                if self.database:
                    answer = executed(answer, self.database)
                missing = answer.first.gaps if questions[index].explain else None
                by_index[index] = Explained(explained(answer), missing)
        # The groups mixed the order; give the answers in that of the questions.
        return [by_index[index] for index in range(len(questions))]


class CurrentService:
    """The service that answers requests, which another may replace: a request keeps the one that it
    began with, and a replaced one stops once its last request has ended.
    """

    def __init__(self, service: Service, examples: Sequence[str] = ()) -> None:
        self.service, self._examples = service, examples
        self._requests = Counter[Service]()

    async def start(self) -> None:
        await self.service.start(self._examples)

    async def stop(self) -> None:
        await self.service.stop()

    @contextmanager
    def request(self) -> Iterator[Service]:
        """The service for all of one request."""
        service = self.service
        self._requests[service] += 1
        try:
            yield service
        finally:
            self._requests[service] -= 1

    async def replace(self, load: Callable[[], Service]) -> None:
        """Load another service in a thread, while this one answers, and let it take over.

        Where it cannot be loaded this one stays, and the error is raised.
        """
        service = await asyncio.to_thread(load)
        await service.start(self._examples)
        old, self.service = self.service, service
        while self._requests[old]:
            await asyncio.sleep(IDLE_CHECK)
        del self._requests[old]
        await old.stop()
        # A service is full of cycles; where they wait for the collector, models pile up.
        del old
        gc.collect()


class ServiceMiddleware:
    """Gives each request the service that is current when it begins."""

    def __init__(self, app: ASGIApp, current: CurrentService) -> None:
        self._app, self._current = app, current

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        with self._current.request() as service:
            scope.setdefault("state", {})["service"] = service
            await self._app(scope, receive, send)


async def service_of(request: Request) -> Service:
    return cast(Service, request.state.service)


Served = Annotated[Service, Depends(service_of)]
