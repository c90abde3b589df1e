"""Grammars that copy: what a short request can ask for is bounded, and batches are sent as they are answered."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, MutableMapping, Sequence
from typing import Any

import pytest
from starlette.testclient import TestClient

from nqg.answers import LONG_TARGET, Answer
from nqg.data.example import Example
from nqg.grammar.grammar import Grammar
from nqg.inference.parser import Parser
from nqg.model.settings import EncoderSettings, ModelSettings, TrainingSettings
from nqg.pipeline.parser import fit_parser
from nqg.web.messages import BatchLine, BatchResponse
from nqg.web.middleware import BodyLimitMiddleware, Busy, Limits
from nqg.web.service import LONG_BATCH, Service
from web_service import served

LIMITS = Limits(target_tokens=16, batch_tokens=40, batch_size=2)


@pytest.fixture(scope="module")
def copying() -> Parser:
    tiny = ModelSettings(
        dimension=8, embedded=EncoderSettings(hidden_size=8, layers=1, heads=2)
    )
    grammar = Grammar.parse("walk ### W\nNT_1 twice ### NT_1 NT_1")
    training = TrainingSettings(steps=1, batch_size=1)
    return fit_parser(
        grammar,
        [Example("walk twice", "W W")],
        model=tiny,
        training=training,
        device="cpu",
    )


@pytest.fixture(scope="module")
def client(copying: Parser) -> Iterator[TestClient]:
    with served(copying, limits=LIMITS, examples=()) as client:
        yield client


def test_a_program_of_more_tokens_than_the_server_writes_is_an_abstention(
    client: TestClient,
) -> None:
    for twice in (4, 5, 90):
        asked = {
            "sentence": "walk" + " twice" * twice,
            "readings": 3,
            "explain": True,
            "drawings": True,
        }
        answer = client.post("/api/parse", json=asked)
        assert answer.status_code == 200
        expected = (" ".join(["W"] * 16), "") if twice == 4 else (None, LONG_TARGET)
        assert (answer.json()["target"], answer.json()["reason"]) == expected


def test_programs_of_a_batch_past_its_tokens_are_withheld_with_the_reason(
    client: TestClient,
) -> None:
    lines = ["walk" + " twice" * twice for twice in (4, 90, 4, 3, 0)]
    answer = client.post("/api/batch", json={"text": "\n".join(lines)}).json()
    assert [row["target"] and len(row["target"].split()) for row in answer["rows"]] == [
        16,
        None,
        16,
        8,
        None,
    ]
    assert [row["reason"] for row in answer["rows"]] == [
        "",
        LONG_TARGET,
        "",
        "",
        LONG_BATCH,
    ]
    assert (answer["sentences"], answer["answered"]) == (5, 3)


def test_no_more_batches_are_answered_at_a_time_than_the_limit_says(
    copying: Parser,
) -> None:
    async def ask() -> None:
        service = Service("copying", copying, limits=Limits(batches=2))
        await service.start()
        running = [service.answers(["walk"]) for _ in range(2)]
        for each in running:
            assert [answer.target for answer in await anext(each)] == ["W"]
        with pytest.raises(Busy, match="2 batches are being answered already"):
            await anext(service.answers(["walk"]))
        assert await anext(running[0], None) is None
        assert await anext(service.answers(["walk"]))
        await service.stop()

    asyncio.run(ask())


def test_rows_are_written_before_later_ones_are_asked_for() -> None:
    asked: list[str] = []

    async def parts() -> AsyncIterator[Sequence[Answer]]:
        for word in ("b", "c"):
            asked.append(word)
            yield [Answer(word, word.upper())]

    async def watched() -> list[int]:
        lines = [BatchLine("a", "A"), BatchLine("b", "X"), BatchLine("c")]
        texts, moments = [], []
        async for text in BatchResponse.written(lines, [Answer("a", "A")], parts()):
            texts.append(text)
            moments.append(len(asked))
        found = BatchResponse.model_validate(json.loads("".join(texts)))
        assert [row.target for row in found.rows] == ["A", "B", "C"]
        assert (found.answered, found.expected, found.right, found.exact_match) == (
            3,
            2,
            1,
            0.5,
        )
        return moments

    assert asyncio.run(watched()) == [0, 1, 2, 2]


def test_an_empty_batch_is_answered(client: TestClient) -> None:
    answer = client.post("/api/batch", json={"text": "\n\n"})
    assert answer.json() == {
        "rows": [], "sentences": 0, "answered": 0, "expected": 0, "right": 0, "coverage": None, "exact_match": None,
    }  # fmt: skip


def test_an_answer_that_stops_in_the_middle_is_cut_off_and_not_followed_by_another() -> (
    None
):
    sent: list[MutableMapping[str, Any]] = []

    async def stuck(scope: object, receive: object, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await asyncio.sleep(60)

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "GET", "path": "/", "headers": []}
    with pytest.raises(TimeoutError):
        asyncio.run(
            BodyLimitMiddleware(stuck, Limits(answer_timeout=0.01))(
                scope, receive, send
            )
        )
    assert [message["type"] for message in sent] == ["http.response.start"]
