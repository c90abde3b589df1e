"""What every request passes before a route sees it: its body must be small, arrive in time, and be JSON."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import ipaddress
import secrets
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from nqg.errors import NqgError, SettingsError


@dataclass(frozen=True, slots=True)
class Limits:
    """Everything that a request can ask for is bounded by one of these."""

    body_bytes: int = 1_000_000
    tokens: int = 100  # of a sentence
    sentences: int = 2_000  # of a batch
    rules: int = 100  # listed at a time
    chart_entries: int = 1 << 20  # of the chart of a sentence that is explained
    together: int = 64  # sentences that are parsed at once
    waiting: int = 512  # sentences that wait for their turn; further ones are turned away
    connections: int = 1_000
    seconds: float = 30.0  # that an answer may take
    patience: float = 10.0  # seconds for a request to arrive, and for a client to take its answer


class Refused(NqgError):
    """A request that is not answered; `status` is the HTTP status that says so."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class Busy(Refused):
    """Too much is waiting already; the client may try again in `retry_after` seconds."""

    def __init__(self, reason: str, retry_after: int = 1) -> None:
        super().__init__(503, f"{reason}; try again in {retry_after} s")
        self.retry_after = retry_after


def checked_sentence(sentence: str, limits: Limits) -> str:
    """`sentence`, or a refusal where it has too many tokens."""
    found = len(sentence.split())
    if found > limits.tokens:
        raise Refused(422, f"the sentence has {found} tokens; at most {limits.tokens} are read")
    return sentence


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


COOKIE = "nqg_session"
SHORTEST_TOKEN = 16
LOOPBACK = ("localhost", "127.0.0.1", "::1")
OPEN = ("/login", "/static/", "/health")  # what is shown without a token
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cache-Control": "no-store",
}


@dataclass(frozen=True, slots=True)
class Access:
    """The host names that a request may be for, the token that it must show, and whether any address is a name too."""

    names: tuple[str, ...] = LOOPBACK
    token: str | None = None
    addresses: bool = False

    @property
    def session(self) -> str:
        """The cookie's value: proof that its owner knew the token, which itself stays secret."""
        return hmac.new((self.token or "").encode(), b"nqg session", hashlib.sha256).hexdigest()

    def is_token(self, text: str) -> bool:
        """Whether `text` is the token, in constant time."""
        return self.token is not None and _same(text, self.token)


def access_to(host: str, token: str | None = None, names: Iterable[str] = ()) -> Access:
    """The access rules of a server bound to `host`: anything but the loopback interface demands a token.

    Names are checked because a hostile page may make its own name point to this machine (DNS rebinding); it cannot do
    so with an address.
    """
    if token is not None and (len(token) < SHORTEST_TOKEN or not token.isascii() or not token.isprintable()):
        raise SettingsError(f"the token needs at least {SHORTEST_TOKEN} printable ASCII characters; or give none")
    known = (*LOOPBACK, *(name.lower() for name in names))
    if is_loopback(host):
        return Access(known, token)
    return Access((*known, host.lower(), socket.gethostname().lower()), token or secrets.token_urlsafe(24), True)


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach `host`.

    >>> [is_loopback(host) for host in ("127.0.0.1", "::1", "localhost", "0.0.0.0", "example.org")]
    [True, True, True, False, False]
    """
    return host == "localhost" or (_is_address(host) and ipaddress.ip_address(host).is_loopback)


class Guard:
    """Refuses requests that have no business here, and adds the headers to every answer."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        try:
            _check_host(headers, self._access)
            _check_site(scope, headers)
            _check_token(scope, headers, self._access)
        except Refused as error:
            wants_page = error.status == 401 and "text/html" in headers.get("accept", "")
            answer = RedirectResponse("/login", 303) if wants_page else refusal(error)
            await answer(scope, receive, _guarded(send))
            return
        await self._app(scope, receive, _guarded(send))


def _guarded(send: Send) -> Send:
    async def with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            MutableHeaders(scope=message).update(HEADERS)
        await send(message)

    return with_headers


def _check_host(headers: Headers, access: Access) -> None:
    name = _name_of(headers.get("host", ""))
    if name not in access.names and not (access.addresses and _is_address(name)):
        raise Refused(421, f"this server does not answer for the host '{name[:80]}'; start it with --name to allow it")


def _check_site(scope: Scope, headers: Headers) -> None:
    """Other sites' pages may not make a browser post here; clients that are no browsers do not send the header."""
    if scope["method"] == "POST" and headers.get("sec-fetch-site", "none") not in ("same-origin", "none"):
        raise Refused(403, "requests from pages of other sites are not answered")


def _check_token(scope: Scope, headers: Headers, access: Access) -> None:
    if access.token is None or scope["path"].startswith(OPEN):
        return
    scheme, _, given = headers.get("authorization", "").partition(" ")
    shown = scheme.lower() == "bearer" and access.is_token(given.strip())
    if not shown and not _same(_cookie(headers), access.session):
        raise Refused(401, "this server asks for its token: send 'Authorization: Bearer TOKEN', or log in at /login")


def _cookie(headers: Headers) -> str:
    try:
        found = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
    except CookieError:
        return ""
    return found.value if found else ""


def _same(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode("utf-8", "replace"), other.encode("utf-8", "replace"))


def _name_of(host: str) -> str:
    """The name in a Host header, without its port.

    >>> [_name_of(host) for host in ("localhost:8000", "[::1]:80", "Example.org")]
    ['localhost', '::1', 'example.org']
    """
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0].lower()


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
