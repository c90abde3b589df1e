"""What the fuzzer of HTTP requests takes for an answer, and what it does not."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from fuzz.http_readers import JSON, PARSE, Answered, checked, posted_in, request
from nqg.web.middleware import HTTPError

POSTED = posted_in(request("/api/parse", JSON, PARSE[0]))


def test_a_refusal_of_the_documented_shape_is_one_of_ours() -> None:
    with pytest.raises(HTTPError, match="too much") as refused:
        checked(POSTED, Answered(413, {}, b'{"error": "too much"}'))
    assert refused.value.status == 413


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (413, b"too much"),
        (422, b'{"error": "no", "detail": []}'),
        (400, b'{"detail": "no"}'),
        (200, b"{}"),
        (200, b""),
    ],
)
def test_an_answer_of_another_shape_fails(status: int, body: bytes) -> None:
    with pytest.raises(ValidationError):
        checked(POSTED, Answered(status, {}, body))


@pytest.mark.parametrize("status", [500, 502, 204, 307])
def test_an_answer_with_a_status_that_nobody_promised_fails(status: int) -> None:
    with pytest.raises(AssertionError):
        checked(
            POSTED,
            Answered(status, {}, b'{"error": "the server failed on this request"}'),
        )


def test_an_answer_that_leads_elsewhere_fails() -> None:
    with pytest.raises(AssertionError):
        checked(POSTED, Answered(303, {b"location": b"//example.org"}, b""))


def test_a_request_whose_body_is_cut_off_is_not_whole() -> None:
    cut = posted_in(request("/api/parse", JSON, PARSE[0])[:-1])
    assert [message["type"] for message in cut.messages()] == [
        "http.request",
        "http.disconnect",
    ]
    assert [message["type"] for message in POSTED.messages()] == [
        "http.request",
        "http.request",
    ]
