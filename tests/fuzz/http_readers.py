"""Readers of HTTP requests: the application is called in process, without a socket, with a small parser behind it.

A case is a body under a head that fits it or, for `http request`, a whole request; h11 reads it, as it does for
uvicorn. An answer passes if its status is one that the documentation names and its body has the shape that goes with
it: for a refusal `{"error": …}` and nothing else. A refusal is raised, so that it counts as one.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import h11

from fuzz.readers import Reader
from nqg.web.middleware import OPENAI, HTTPError

TOKEN = "a token of the fuzzer"
JSON, FORM = "application/json", "application/x-www-form-urlencoded"
CHATS = "/v1/chat/completions"
KINDS = {"/api/parse": JSON, "/api/batch": JSON, CHATS: JSON, "/login": FORM}
UNROUTED = (404, 405)  # of the framework, in our words

PARSE = (
    b'{"sentence": "run twice and jump", "readings": 3, "explain": true}',
    b'{"sentence": "fly and walk \\u00e9", "explain": true}',
    b'{"sentence": ""}',
)
BATCH = (
    b'{"text": "run\\tR\\njump twice\\tJ J\\r\\n\\nfly\\n"}',
    b'{"text": "walk and run and jump"}',
)
CHAT = (
    b'{"model": "m", "messages": [{"role": "system", "content": "x"}, {"role": "user", '
    b'"content": "run twice"}], "tools": [{"type": "function", "function": {"name": "R", '
    b'"parameters": {"type": "object", "properties": {"a": {"type": "string"}}}}}]}',
    b'{"messages": [{"role": "user", "content": [{"type": "text", "text": "fly"}]}], '
    b'"stream": true, "stream_options": {"include_usage": true}, "tool_choice": "none", "n": 1}',
)
LOGIN = (f"token={TOKEN.replace(' ', '+')}".encode(), b"token=%61&token=&x")


@dataclass(frozen=True, slots=True)
class Posted:
    """A request as h11 found it; one that is not whole is cut off by its client."""

    head: h11.Request
    body: tuple[bytes, ...]
    is_whole: bool

    @property
    def path(self) -> str:
        """The path that is asked for, as uvicorn hands it on."""
        return unquote(self.head.target.partition(b"?")[0].decode("ascii"))

    def scope(self) -> dict[str, Any]:
        """The request in the words of ASGI."""
        path, _, query = self.head.target.partition(b"?")
        return {
            "type": "http",
            "http_version": self.head.http_version.decode(),
            "method": self.head.method.decode(),
            "scheme": "http",
            "path": self.path,
            "raw_path": path,
            "query_string": query,
            "headers": list(self.head.headers),
        }

    def messages(self) -> Iterator[dict[str, Any]]:
        """What the application receives."""
        for part in self.body:
            yield {"type": "http.request", "body": part, "more_body": True}
        yield (
            {"type": "http.request", "body": b"", "more_body": False}
            if self.is_whole
            else {"type": "http.disconnect"}
        )


@dataclass(frozen=True, slots=True)
class Answered:
    """What the application sent back."""

    status: int
    headers: Mapping[bytes, bytes]
    body: bytes


def request(path: str, kind: str, body: bytes, *more: str) -> bytes:
    """A request that fits its body."""
    head = (
        f"POST {path} HTTP/1.1",
        "Host: localhost",
        f"Authorization: Bearer {TOKEN}",
        f"Content-Type: {kind}",
        *more,
    )
    return "\r\n".join([*head, f"Content-Length: {len(body)}", "", ""]).encode() + body


def requests() -> tuple[bytes, ...]:
    """Whole requests of every kind."""
    chunked = request("/api/batch", JSON, b"", "Transfer-Encoding: chunked").replace(
        b"Content-Length: 0\r\n", b""
    )
    return (
        request("/api/parse", "Application/JSON; charset=UTF-8", PARSE[0]),
        request(
            "/api/batch",
            JSON,
            BATCH[0],
            "Sec-Fetch-Site: same-origin",
            "Accept: text/html",
        ),
        request(CHATS, JSON, CHAT[0]),
        request("/login?x=1", FORM, LOGIN[0], "Cookie: nqg_session=x; a=b"),
        chunked
        + b"".join(
            b"%x\r\n%s\r\n" % (len(part), part)
            for part in (BATCH[0][:9], BATCH[0][9:], b"")
        ),
    )


@cache
def _app() -> Any:
    from nqg.web.app import create_app
    from nqg.web.middleware import Access
    from nqg.web.service import Service
    from web_service import tiny_parser

    return create_app(Service("tiny", tiny_parser()), Access(token=TOKEN))


def posted_in(raw: bytes) -> Posted:
    """The request that some bytes are, or a refusal where they are none."""
    from nqg.web.middleware import Limits

    connection = h11.Connection(
        h11.SERVER, max_incomplete_event_size=Limits().head_bytes
    )
    try:
        connection.receive_data(raw)
        head, body = connection.next_event(), []
        if not isinstance(head, h11.Request):
            raise HTTPError(400, "the head is not whole")
        while isinstance(event := connection.next_event(), h11.Data):
            body.append(bytes(event.data))
    except h11.RemoteProtocolError as error:  # which uvicorn answers by itself
        raise HTTPError(400, str(error)) from error
    return Posted(head, tuple(body), isinstance(event, h11.EndOfMessage))


async def _answered(posted: Posted) -> Answered:
    app, messages, sent = _app(), posted.messages(), list[Mapping[str, Any]]()

    async def receive() -> dict[str, Any]:
        for message in messages:
            return message
        return await asyncio.Future[
            dict[str, Any]
        ]()  # who waits for an answer says nothing more

    async def send(message: Mapping[str, Any]) -> None:
        sent.append(message)

    async with app.router.lifespan_context(app):
        await app(posted.scope(), receive, send)
    body = b"".join(message.get("body", b"") for message in sent)
    return Answered(sent[0]["status"], dict(sent[0]["headers"]), body)


def checked(posted: Posted, answered: Answered) -> object:
    """What a client may make of an answer; one that the documentation does not promise fails."""
    from nqg.web.app import ERROR_STATUS, STATIC
    from nqg.web.messages import BatchResponse, ErrorResponse, Message, ParseResponse

    if posted.head.method in (
        b"GET",
        b"HEAD",
    ):  # a page, say, whose shape is not looked at here
        return answered.status
    if (
        answered.status == 303
    ):  # a browser is sent to the page, or to the one that asks for the token
        assert answered.headers[b"location"] in (b"/", b"/login")
        return answered.status
    if posted.path == "/login" and answered.status == 401:
        said = b"This is not the token."
        assert answered.body.replace(said, b"") == (STATIC / "login.html").read_bytes()
        assert said in answered.body
        return answered.status
    if answered.status in (*ERROR_STATUS, *UNROUTED):
        if posted.path.startswith(OPENAI):
            error = json.loads(answered.body)["error"]
            assert set(error) == {"message", "type", "param", "code"}
            raise HTTPError(answered.status, error["message"])
        raise HTTPError(
            answered.status, ErrorResponse.model_validate_json(answered.body).error
        )
    assert answered.status == 200, answered
    if posted.path == CHATS:
        return chunks_of(answered)
    shapes: dict[str, type[Message]] = {
        "/api/parse": ParseResponse,
        "/api/batch": BatchResponse,
    }
    return shapes[posted.path].model_validate_json(answered.body)


def chunks_of(answered: Answered) -> object:
    """The completion of a chat, whole or in the chunks of a stream."""
    if not answered.headers[b"content-type"].startswith(b"text/event-stream"):
        return json.loads(answered.body)["choices"][0]["finish_reason"]
    events = answered.body.decode().strip().split("\n\n")
    assert events.pop() == "data: [DONE]"
    return [json.loads(event.removeprefix("data: "))["object"] for event in events]


def _ask(raw: bytes) -> object:
    posted = posted_in(raw)
    return checked(posted, asyncio.run(_answered(posted)))


def _ask_with_body(path: str, file: Path) -> object:
    return _ask(request(path, KINDS[path], file.read_bytes()))


HTTP_READERS: Mapping[str, Reader] = {
    "http/parse": Reader("body", partial(_ask_with_body, "/api/parse"), lambda: PARSE),
    "http/batch": Reader("body", partial(_ask_with_body, "/api/batch"), lambda: BATCH),
    "http/chat": Reader("body", partial(_ask_with_body, CHATS), lambda: CHAT),
    "http/login": Reader("body", partial(_ask_with_body, "/login"), lambda: LOGIN),
    "http request": Reader("request", lambda file: _ask(file.read_bytes()), requests),
}
