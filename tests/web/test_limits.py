"""Bad bodies get a 4xx and a sentence; too much gets a refusal; a late answer is given up."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.testclient import TestClient

from nqg.inference.parser import Parser
from nqg.web.middleware import HTTPError, Limits
from nqg.web.service import Service
from web_service import served

JSON = {"Content-Type": "application/json"}
BAD = {
    "nothing": (b"", 422, "the body: "),
    "no JSON": (b"{", 400, "the body is not JSON"),
    "text": (b"hello", 400, "the body is not JSON"),
    "a list": (b"[]", 422, "valid dictionary"),
    "null": (b"null", 422, "the body: Input should be a valid dictionary"),
    "no sentence": (b"{}", 422, "sentence: Field required"),
    "a number": (b'{"sentence": 7}', 422, "sentence: Input should be a valid string"),
    "an unknown key": (
        b'{"sentence": "x", "depth": 1}',
        422,
        "depth: Extra inputs are not permitted",
    ),
    "too many readings": (
        b'{"sentence": "x", "readings": 11}',
        422,
        "readings: Input should be less than or equal",
    ),
    "negative readings": (
        b'{"sentence": "x", "readings": -1}',
        422,
        "readings: Input should be greater than or equal",
    ),
    "readings as text": (
        b'{"sentence": "x", "readings": "3"}',
        422,
        "readings: Input should be a valid integer",
    ),
    "NaN": (b'{"sentence": "x", "readings": NaN}', 422, "readings"),
    "half a character": (
        b'{"sentence": "\\ud800"}',
        422,
        "the text holds U+D800, which is half a character",
    ),
    "no UTF-8": (
        b'{"sentence": "\xff"}',
        415,
        "expected JSON in UTF-8, but byte 15 is 0xff",
    ),
    "nested too deep": (b'{"sentence": ' + b"[" * 100_000, 400, "error"),
    "a huge number": (
        b'{"sentence": "x", "readings": ' + b"9" * 5000 + b"}",
        400,
        "error",
    ),
}


@pytest.mark.parametrize(("body", "status", "words"), BAD.values(), ids=BAD)
def test_a_bad_body_is_refused_with_the_reason(
    client: TestClient, body: bytes, status: int, words: str
) -> None:
    answer = client.post("/api/parse", content=body, headers=JSON)
    assert answer.status_code == status
    assert words in answer.json()["error"]


@pytest.mark.parametrize(
    "kind",
    [
        "",
        "text/plain",
        "application/x-www-form-urlencoded",
        "application/json; charset=latin-1",
    ],
)
def test_a_body_that_is_not_json_in_utf_8_is_refused(
    client: TestClient, kind: str
) -> None:
    answer = client.post(
        "/api/parse", content=b'{"sentence": "run"}', headers={"Content-Type": kind}
    )
    assert answer.status_code == 415
    assert answer.json()["error"].startswith("expected ")


@pytest.mark.parametrize(
    "kind", ["application/json", "Application/JSON; charset=UTF-8"]
)
def test_json_by_any_spelling_is_read(client: TestClient, kind: str) -> None:
    answer = client.post(
        "/api/parse", content=b'{"sentence": "run"}', headers={"Content-Type": kind}
    )
    assert answer.json()["target"] == "R"


def test_a_body_that_announces_too_much_is_refused_unread(parser: Parser) -> None:
    with served(parser, limits=Limits(body_bytes=100)) as client:
        answer = client.post("/api/parse", content=b"x" * 101, headers=JSON)
    assert answer.status_code == 413
    assert answer.json()["error"] == "the body has 101 bytes; at most 100 are read"
    assert answer.headers["Connection"] == "close"


def test_a_body_that_announces_more_than_a_number_can_say_is_refused(
    client: TestClient,
) -> None:
    answer = client.post(
        "/api/parse", content=b"{}", headers={**JSON, "Content-Length": "9" * 5_000}
    )
    assert answer.status_code == 413


def test_a_body_that_turns_out_too_large_is_refused(parser: Parser) -> None:
    def chunks() -> Any:
        for _ in range(11):
            yield b"0123456789"

    with served(parser, limits=Limits(body_bytes=100)) as client:
        answer = client.post("/api/parse", content=chunks(), headers=JSON)
    assert answer.status_code == 413
    assert "more than 100 bytes" in answer.json()["error"]


def test_a_head_that_is_too_large_is_refused_though_it_arrived_at_once(
    client: TestClient,
) -> None:
    for headers in (
        {"X": "x" * 17_000},
        {f"X-{number}": "" for number in range(2_500)},
    ):
        answer = client.get("/health", headers=headers)
        assert answer.status_code == 431
        assert "at most 16,384 are read" in answer.json()["error"]
    assert client.get("/api/rules?search=" + "x" * 17_000).status_code == 431


def test_a_request_beyond_those_that_are_answered_at_a_time_is_a_503_in_json_with_a_time_to_retry(
    parser: Parser,
) -> None:
    with served(parser, limits=Limits(requests=0)) as client:
        answer = client.get("/health")
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "1")
    assert (
        answer.json()["error"]
        == "0 requests are being answered already; try again in 1 s"
    )


def test_a_sentence_of_too_many_tokens_is_refused(parser: Parser) -> None:
    with served(parser, limits=Limits(tokens=5)) as client:
        assert (
            client.post(
                "/api/parse", json={"sentence": "run and run and run"}
            ).status_code
            == 200
        )
        answer = client.post(
            "/api/parse", json={"sentence": "run and run and run twice"}
        )
    assert answer.status_code == 422
    assert answer.json()["error"] == "the sentence has 6 tokens; at most 5 are read"


def test_a_batch_of_too_many_sentences_is_refused(parser: Parser) -> None:
    with served(parser, limits=Limits(sentences=3)) as client:
        answer = client.post("/api/batch", json={"text": "run\n" * 4})
    assert answer.status_code == 413
    assert answer.json()["error"] == "4 sentences; a batch holds at most 3"


def test_an_answer_that_takes_too_long_is_given_up_with_a_time_to_retry(
    parser: Parser, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def never(self: Service, question: object) -> None:
        raise TimeoutError

    monkeypatch.setattr(Service, "explained", never)
    with served(parser) as client:
        answer = client.post("/api/parse", json={"sentence": "run"})
    assert answer.status_code == 503
    assert answer.headers["Retry-After"] == "5"
    assert answer.json()["error"] == "no answer within 30 s; try again in 5 s"


def test_a_full_waiting_room_is_a_503_with_a_time_to_retry(parser: Parser) -> None:
    with served(
        parser, limits=Limits(queue_size=2, batch_size=3), examples=[]
    ) as client:
        answer = client.post("/api/batch", json={"text": "run\nrun\nrun\n"})
        assert client.post("/api/batch", json={"text": "run\nrun\n"}).status_code == 200
    assert answer.status_code == 503
    assert answer.headers["Retry-After"] == "1"
    assert "waiting already" in answer.json()["error"]


def test_a_failure_of_ours_says_nothing_about_our_insides(
    parser: Parser, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(self: Service, question: object) -> None:
        raise ValueError("secret path /home/me")

    monkeypatch.setattr(Service, "explained", broken)
    with served(parser) as client:
        answer = client.post("/api/parse", json={"sentence": "run"})
    assert answer.status_code == 500
    assert answer.json() == {
        "error": "the server failed on this request; its log says why"
    }


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=5,
)


@given(
    body=st.binary(max_size=60) | VALUES.map(lambda value: json.dumps(value).encode())
)
def test_no_body_makes_the_server_fail(client: TestClient, body: bytes) -> None:
    for path in ("/api/parse", "/api/batch"):
        answer = client.post(path, content=body, headers=JSON)
        assert 400 <= answer.status_code < 500
        assert set(answer.json()) == {"error"}


@given(sentence=st.text(max_size=60))
def test_any_text_is_a_sentence(client: TestClient, sentence: str) -> None:
    answer = client.post(
        "/api/parse", json={"sentence": sentence, "readings": 2, "drawings": True}
    )
    assert answer.status_code == (200 if len(sentence.split()) <= 100 else 422)
    assert answer.json()["source"] == sentence.split()


def test_unknown_paths_and_methods_are_refused_in_json(client: TestClient) -> None:
    for path in ("/nowhere", "/api/model/"):
        assert client.get(path).json() == {"error": "Not Found"}
    wrong = client.get("/api/parse")
    assert (wrong.status_code, wrong.json()) == (405, {"error": "Method Not Allowed"})


@pytest.mark.parametrize("sentence", ["a," * 400, "你好" * 100, "-" * 101])
def test_tokens_are_counted_as_a_model_splits_a_sentence(sentence: str) -> None:
    with pytest.raises(HTTPError, match="tokens; at most 100 are read"):
        Limits().check_length(sentence)
    Limits().check_length("call Anna , and then Bob , at five")
