"""Requests of many clients, answered together: one queue, one worker thread, bounded waiting room."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Generic, TypeVar

from nqg.web.limits import Busy

Question = TypeVar("Question")
Answer = TypeVar("Answer")
LINGER = 0.002  # seconds that a batch waits for company


@dataclass(frozen=True, slots=True)
class _Asked(Generic[Question, Answer]):
    question: Question
    answer: asyncio.Future[Answer]


class Batcher(Generic[Question, Answer]):
    """Collects questions and has them answered in batches, in a thread of its own.

    A question that cannot be asked because `waiting` others wait is refused with `Busy`. While a batch is being worked
    on the next one gathers, so under load batches grow by themselves and `LINGER` hardly matters.
    """

    def __init__(
        self, answer: Callable[[Sequence[Question]], Sequence[Answer]], *, together: int = 64, waiting: int = 512
    ) -> None:
        self._answer = answer
        self._together = together
        self._queue: asyncio.Queue[_Asked[Question, Answer]] = asyncio.Queue(waiting)
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

    async def ask(self, question: Question) -> Answer:
        """The answer to one question."""
        return (await self.ask_all([question]))[0]

    async def ask_all(self, questions: Sequence[Question]) -> list[Answer]:
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

    async def _gathered(self) -> list[_Asked[Question, Answer]]:
        batch = [await self._queue.get()]
        if self._queue.empty():
            await asyncio.sleep(LINGER)
        while len(batch) < self._together and not self._queue.empty():
            batch.append(self._queue.get_nowait())
        return batch

    def _answer_batch(self, batch: Sequence[_Asked[Question, Answer]]) -> None:
        """Runs in the worker thread. Where one question spoils the batch, each is asked alone, to spare the others."""
        try:
            answers: Sequence[Answer | Exception] = self._answer([each.question for each in batch])
        except Exception as error:
            answers = [error] if len(batch) == 1 else [self._answer_or_error(each.question) for each in batch]
        loop = batch[0].answer.get_loop()
        for each, answer in zip(batch, answers, strict=True):
            loop.call_soon_threadsafe(_settle, each.answer, answer)

    def _answer_or_error(self, question: Question) -> Answer | Exception:
        try:
            return self._answer([question])[0]
        except Exception as error:
            return error


def _settle(future: asyncio.Future[Answer], answer: Answer | Exception) -> None:
    if future.done():
        return
    if isinstance(answer, Exception):
        future.set_exception(answer)
    else:
        future.set_result(answer)
