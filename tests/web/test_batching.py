"""The batcher: many askers, one worker, no lost question."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from typing import Any, TypeVar

import pytest

from nqg.errors import NqgError
from nqg.web.middleware import Busy
from nqg.web.service import Batcher

Result = TypeVar("Result")


def within(batcher: Batcher[int, int], work: Coroutine[Any, Any, Result]) -> Result:
    """Run `work` while the batcher is at work."""

    async def whole() -> Result:
        await batcher.start()
        try:
            return await work
        finally:
            await batcher.stop()

    return asyncio.run(whole())


class Squares:
    """Answers with squares, remembers its batches, and waits at a gate where it has one."""

    def __init__(self, gate: threading.Event | None = None) -> None:
        self.batches: list[list[int]] = []
        self.gate = gate

    def __call__(self, questions: Sequence[int]) -> list[int]:
        self.batches.append(list(questions))
        if self.gate is not None:
            assert self.gate.wait(30)
        if -1 in questions:
            raise NqgError("-1 has no answer here")
        return [question**2 for question in questions]


async def waiting(
    batcher: Batcher[int, int], questions: Sequence[int]
) -> list[asyncio.Task[int]]:
    tasks = [asyncio.create_task(batcher.ask(question)) for question in questions]
    await asyncio.sleep(0)
    return tasks


def test_every_question_gets_its_own_answer() -> None:
    batcher = Batcher[int, int](Squares())

    async def ask_many() -> list[int]:
        return list(
            await asyncio.gather(*(batcher.ask(number) for number in range(200)))
        )

    assert within(batcher, ask_many()) == [number**2 for number in range(200)]


def test_questions_that_come_together_are_answered_together_and_no_batch_is_too_large() -> (
    None
):
    squares = Squares()
    batcher = Batcher[int, int](squares, batch_size=8)

    async def ask_many() -> None:
        await asyncio.gather(*(batcher.ask(number) for number in range(20)))

    within(batcher, ask_many())
    assert [len(batch) for batch in squares.batches] == [8, 8, 4]


def test_trouble_is_a_failure_that_is_not_the_questions_fault_until_something_is_answered_again() -> (
    None
):
    def answer(questions: Sequence[int]) -> list[int]:
        if -2 in questions:
            raise RuntimeError("the worker is broken")
        return Squares()(questions)

    batcher = Batcher[int, int](answer)

    async def told() -> list[str]:
        troubles = []
        for question in (1, -1, -2, 3):
            with suppress(NqgError, RuntimeError):
                await batcher.ask(question)
            troubles.append(batcher.trouble(answer_timeout=60))
        return troubles

    assert within(batcher, told()) == [
        "",
        "",
        "the last question that was worked on failed",
        "",
    ]


def test_a_batch_that_does_not_end_is_trouble() -> None:
    gate = threading.Event()
    batcher = Batcher[int, int](Squares(gate))

    async def told() -> tuple[str, str]:
        tasks = await waiting(batcher, [1])
        while not (stuck := batcher.trouble(answer_timeout=0)):
            await asyncio.sleep(0.001)
        patient = batcher.trouble(answer_timeout=60)
        gate.set()
        await asyncio.gather(*tasks)
        return stuck, patient

    assert within(batcher, told()) == (
        "a batch has been worked on for more than 0 s",
        "",
    )


def test_a_question_beyond_the_waiting_room_is_turned_away_at_once() -> None:
    gate = threading.Event()
    batcher = Batcher[int, int](Squares(gate), batch_size=1, queue_size=2)

    async def overfill() -> list[int]:
        first = await waiting(batcher, [1])
        while batcher._queue.qsize():  # until the worker has taken it
            await asyncio.sleep(0)
        others = await waiting(batcher, [2, 3])
        with pytest.raises(
            Busy, match=r"2 sentences are waiting already; try again in 1 s"
        ) as refused:
            await batcher.ask(4)
        assert (refused.value.status, refused.value.retry_after) == (503, 1)
        gate.set()
        return list(await asyncio.gather(*first, *others))

    assert within(batcher, overfill()) == [1, 4, 9]


def test_several_questions_wait_together_or_not_at_all() -> None:
    squares = Squares()
    batcher = Batcher[int, int](squares, queue_size=3)

    async def ask_four() -> list[int]:
        with pytest.raises(Busy):
            await batcher.ask_all([1, 2, 3, 4])
        return await batcher.ask_all([5, 6, 7])

    assert within(batcher, ask_four()) == [25, 36, 49]
    assert squares.batches == [[5, 6, 7]]


def test_a_question_that_fails_spares_the_others_of_its_batch() -> None:
    batcher = Batcher[int, int](Squares())

    async def ask_many() -> list[int | BaseException]:
        return list(
            await asyncio.gather(
                *(batcher.ask(each) for each in (2, -1, 3)), return_exceptions=True
            )
        )

    two, failure, three = within(batcher, ask_many())
    assert (two, three) == (4, 9)
    assert str(failure) == "-1 has no answer here"


def test_a_question_that_nobody_waits_for_is_not_worked_on() -> None:
    gate = threading.Event()
    squares = Squares(gate)
    batcher = Batcher[int, int](squares, batch_size=1)

    async def give_up() -> None:
        first = await waiting(batcher, [1])
        while not squares.batches:
            await asyncio.sleep(0)
        [second] = await waiting(batcher, [2])
        second.cancel()
        [third] = await waiting(batcher, [3])
        gate.set()
        assert await first[0] == 1
        assert await third == 9

    within(batcher, give_up())
    assert squares.batches == [[1], [3]]


def test_stopping_answers_what_was_asked_before() -> None:
    gate = threading.Event()
    batcher = Batcher[int, int](Squares(gate), batch_size=2)

    async def stop_early() -> list[int]:
        await batcher.start()
        tasks = await waiting(batcher, [1, 2, 3, 4, 5])
        stopping = asyncio.create_task(batcher.stop())
        await asyncio.sleep(0)
        gate.set()
        await stopping
        return [task.result() for task in tasks]

    assert asyncio.run(stop_early()) == [1, 4, 9, 16, 25]
