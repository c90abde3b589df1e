"""What every request passes before a route sees it: its body must be small, arrive in time, and be JSON."""

from __future__ import annotations

import asyncio

from starlette.datastructures import Headers
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from nqg.web.limits import Busy, Limits, Refused


def refusal(error: Refused) -> Response:
    """The answer that tells a client why there is none."""
    headers = {"Retry-After": str(error.retry_after)} if isinstance(error, Busy) else {}
    if error.status in (408, 413):
        headers["Connection"] = "close"  # the rest of the body is not wanted
    return JSONResponse({"error": str(error)}, error.status, headers)


class Doors:
    """Reads a request's body within the limits, and gives the routes a time limit."""

    def __init__(self, app: ASGIApp, limits: Limits) -> None:
        self._app = app
        self._limits = limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        try:
            _check_kind(scope)
            body = await self._body(Headers(scope=scope), receive)
            await self._answered_in_time(scope, _replayed(body, receive), send)
        except Refused as error:
            await refusal(error)(scope, receive, send)

    async def _answered_in_time(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            async with asyncio.timeout(self._limits.seconds):
                await self._app(scope, receive, send)
        except TimeoutError:
            raise Busy(f"no answer within {self._limits.seconds:g} s", retry_after=5) from None

    async def _body(self, headers: Headers, receive: Receive) -> bytes:
        most = self._limits.body_bytes
        announced = headers.get("content-length", "0")[:20]  # Python refuses to read numbers of thousands of digits
        if announced.isdecimal() and int(announced) > most:
            raise Refused(413, f"the body has {int(announced):,} bytes; at most {most:,} are read")
        try:
            async with asyncio.timeout(self._limits.patience):
                return await _read(receive, most)
        except TimeoutError:
            raise Refused(408, f"the body did not arrive within {self._limits.patience:g} s") from None


async def _read(receive: Receive, most: int) -> bytes:
    body = bytearray()
    while (message := await receive())["type"] == "http.request":
        body += message.get("body", b"")
        if len(body) > most:
            raise Refused(413, f"the body has more than {most:,} bytes, which is the limit")
        if not message.get("more_body", False):
            break
    return bytes(body)


def _check_kind(scope: Scope) -> None:
    if scope["method"] != "POST" or not scope["path"].startswith("/api/"):
        return
    kind, _, rest = Headers(scope=scope).get("content-type", "").lower().partition(";")
    if kind.strip() != "application/json":
        raise Refused(415, f"expected Content-Type: application/json, found '{kind.strip()[:80]}'")
    if "charset" in rest and "utf-8" not in rest:
        raise Refused(415, f"expected JSON in UTF-8, found '{rest.strip()[:80]}'")


def _replayed(body: bytes, receive: Receive) -> Receive:
    """A `receive` that gives the whole body at once, and then what the connection says."""
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return messages.pop() if messages else await receive()

    return replay
