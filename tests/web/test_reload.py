"""Another model takes over: requests under way keep the one that they began with, and it is freed after them."""

from __future__ import annotations

import asyncio
import gc
import weakref

import pytest

from nqg.errors import NqgError
from nqg.inference.parser import Parser
from nqg.web.service import CurrentService, Question, Service


def refused() -> Service:
    raise NqgError("the model folder is incomplete")


def test_a_request_keeps_its_service_and_a_replaced_one_is_freed(
    parser: Parser,
) -> None:
    async def scenario() -> weakref.ref[Service]:
        current = CurrentService(Service("old", parser))
        await current.start()
        with current.request() as old:
            replacing = asyncio.create_task(
                current.replace(lambda: Service("new", parser))
            )
            while current.service is old:
                await asyncio.sleep(0.01)
            explained = await old.explained(Question("run twice"))
            assert (old.name, explained.answer.target) == ("old", "R R")
            with current.request() as new:
                explained = await new.explained(Question("run"))
                assert (new.name, explained.answer.target) == ("new", "R")
            assert not replacing.done()
        await replacing
        forgotten = weakref.ref(old)
        await current.stop()
        return forgotten

    forgotten = asyncio.run(scenario())
    gc.collect()
    assert forgotten() is None


def test_a_service_that_cannot_be_loaded_changes_nothing(parser: Parser) -> None:
    async def scenario() -> None:
        current = CurrentService(Service("old", parser))
        await current.start()
        with pytest.raises(NqgError, match="incomplete"):
            await current.replace(refused)
        explained = await current.service.explained(Question("run"))
        assert (current.service.name, explained.answer.target) == ("old", "R")
        await current.stop()

    asyncio.run(scenario())
