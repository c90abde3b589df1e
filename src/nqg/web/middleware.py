"""What every request passes before a route sees it: who may ask, how large and how slow a request
may be.
"""

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
from nqg.text.sentences import SentenceTokenizer

COOKIE = "nqg_session"
SHORTEST_TOKEN = 16
LOOPBACK = ("localhost", "127.0.0.1", "::1")
OPEN = ("/login", "/static/", "/health")  # what is shown without a token
# Where clients that were written for OpenAI ask, and what takes and gives JSON.
OPENAI = "/v1/"
JSON_PATHS = ("/api/", OPENAI)
SECURITY_HEADERS = {
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

# Splits a sentence as finely as any model does.
TOKENIZER = SentenceTokenizer(punctuation="keep")


def token_count(sentence: str) -> int:
    """How many tokens a sentence has.

    >>> token_count("a,b, c")
    5
    """
    return len(TOKENIZER.tokenize(sentence))


@dataclass(frozen=True, slots=True)
class Limits:
    """Everything that a request can ask for is bounded by one of these."""

    # Bytes of a request's line and headers, and of its body.
    head_bytes: int = 16_384
    body_bytes: int = 1_000_000
    # Tokens of a sentence, as the model counts them, and its characters.
    tokens: int = 100
    characters: int = 10_000
    # Tokens of a program; rules that copy a part could write gigabytes.
    target_tokens: int = 10_000
    # Sentences of a batch request, and tokens of all its programs.
    sentences: int = 2_000
    batch_tokens: int = 200_000
    # Batch requests that are answered at a time; further ones are refused.
    batches: int = 16
    # Rules that are listed at a time.
    rules: int = 100
    # The last sentences of the log, among which those to annotate are looked for.
    reviewed: int = 1_000
    # Steps that the chart of a sentence may take: fewer than in the library, as strangers ask.
    chart_steps: int = 1 << 16
    # Sentences that are parsed at once, and their tokens: between such parts the server can stop.
    batch_size: int = 64
    parsed_tokens: int = 640
    # Sentences that wait for their turn; further ones are refused.
    queue_size: int = 512
    # Requests that are answered at a time.
    requests: int = 1_000
    # Seconds until an answer has to be there.
    answer_timeout: float = 30.0
    # Seconds in which a server that is to stop still answers requests.
    stop_timeout: int = 3
    # Seconds for a body to arrive, for a client to take its answer, or to ask again.
    client_timeout: float = 10.0

    def check_length(self, sentence: str, place: str = "") -> None:
        """Refuse a sentence with too many words, marks or characters of scripts without spaces."""
        # Tokens are counted only where that is quick.
        if len(sentence) > self.characters:
            raise HTTPError(
                422,
                f"{place}the sentence has {len(sentence):,} characters; "
                f"at most {self.characters:,} are read",
            )
        size = token_count(sentence)
        if size > self.tokens:
            raise HTTPError(
                422,
                f"{place}the sentence has {size} tokens; at most {self.tokens} are read",
            )


class HTTPError(NqgError):
    """A request that is not answered; `status` is the HTTP status that says so."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status

    def response(self, path: str) -> Response:
        """The error as clients of a path expect it."""
        return JSONResponse(
            error_body(str(self), self.status, path), self.status, self.headers()
        )

    def headers(self) -> dict[str, str]:
        # Where the rest of the body is not wanted, the connection cannot be used again.
        return {"Connection": "close"} if self.status in (400, 408, 413, 431) else {}


def error_body(reason: str, status: int, path: str) -> dict[str, object]:
    """What an error says, in the form of OpenAI's API where its clients ask.

    >>> error_body("too long", 422, "/api/parse")
    {'error': 'too long'}
    >>> error_body("too long", 422, "/v1/models")["error"]["type"]
    'invalid_request_error'
    """
    if not path.startswith(OPENAI):
        return {"error": reason}
    kind = "server_error" if status >= 500 else "invalid_request_error"
    code = "invalid_api_key" if status == 401 else None
    return {"error": {"message": reason, "type": kind, "param": None, "code": code}}


class Busy(HTTPError):
    """Too many sentences are waiting; the client may try again in `retry_after` seconds."""

    def __init__(self, reason: str, retry_after: int = 1) -> None:
        super().__init__(503, f"{reason}; try again in {retry_after} s")
        self.retry_after = retry_after

    def headers(self) -> dict[str, str]:
        return {"Retry-After": str(self.retry_after)}


class BodyLimitMiddleware:
    """Reads a request within the limits of size and time, and gives the routes a time limit."""

    def __init__(self, app: ASGIApp, limits: Limits) -> None:
        self._app, self._limits, self._requests = app, limits, 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        limits = self._limits
        self._requests += 1
        try:
            if self._requests > limits.requests:
                raise Busy(f"{limits.requests} requests are being answered already")
            check_head(scope, limits)
            try:
                async with asyncio.timeout(limits.client_timeout):
                    body = await read_body(receive, limits.body_bytes)
            except TimeoutError:
                raise HTTPError(
                    408, f"the body did not arrive within {limits.client_timeout:g} s"
                ) from None
            if scope["path"].startswith(JSON_PATHS):
                check_encoding(body)
            messages: list[Message] = [
                {"type": "http.request", "body": body, "more_body": False}
            ]

            async def replay() -> Message:
                return messages.pop() if messages else await receive()

            is_sent = False

            async def watched(message: Message) -> None:
                nonlocal is_sent
                is_sent = True
                await send(message)

            try:
                async with asyncio.timeout(limits.answer_timeout):
                    await self._app(scope, replay, watched)
            except TimeoutError:
                # The rest of the answer is missing, and the closed connection says so.
                if is_sent:
                    raise
                raise Busy(
                    f"no answer within {limits.answer_timeout:g} s", retry_after=5
                ) from None
        except HTTPError as error:
            await error.response(scope["path"])(scope, receive, send)
        finally:
            self._requests -= 1


def check_head(scope: Scope, limits: Limits) -> None:
    """Refuse a request by its head: too large, of a length said in two ways or too long or, for the
    API, not JSON.
    """
    headers = Headers(scope=scope)
    # Each header has a colon, a space and two characters at its end.
    size = len(scope.get("raw_path") or scope["path"])
    size += len(scope.get("query_string", b""))
    size += sum(len(name) + len(value) + 4 for name, value in headers.raw)
    if size > limits.head_bytes:
        raise HTTPError(
            431,
            f"the head of the request has {size:,} bytes; at most {limits.head_bytes:,} are read",
        )
    # Proxies disagree about which of the two holds.
    if "content-length" in headers and "transfer-encoding" in headers:
        raise HTTPError(400, "expected Content-Length or Transfer-Encoding, found both")
    if scope["method"] == "POST" and scope["path"].startswith(JSON_PATHS):
        kind, _, rest = headers.get("content-type", "").lower().partition(";")
        if kind.strip() != "application/json":
            raise HTTPError(
                415,
                f"expected Content-Type: application/json, found '{kind.strip()[:80]}'",
            )
        if "charset" in rest and "utf-8" not in rest:
            raise HTTPError(415, f"expected JSON in UTF-8, found '{rest.strip()[:80]}'")
    # Python refuses to read numbers of thousands of digits.
    announced = headers.get("content-length", "0")[:20]
    if announced.isdecimal() and int(announced) > limits.body_bytes:
        raise HTTPError(
            413,
            f"the body has {int(announced):,} bytes; at most {limits.body_bytes:,} are read",
        )


def check_encoding(body: bytes) -> None:
    try:
        body.decode()
    except UnicodeDecodeError as error:
        found = f"byte {error.start + 1} is 0x{body[error.start]:02x}"
        raise HTTPError(415, f"expected JSON in UTF-8, but {found}") from None


async def read_body(receive: Receive, limit: int) -> bytes:
    """The whole body of a request, unless it has more than `limit` bytes."""
    body = bytearray()
    while (message := await receive())["type"] == "http.request":
        body += message.get("body", b"")
        if len(body) > limit:
            raise HTTPError(
                413, f"the body has more than {limit:,} bytes, which is the limit"
            )
        if not message.get("more_body", False):
            break
    return bytes(body)


@dataclass(frozen=True, slots=True)
class Access:
    """The host names that a request may be for, the token that it must show, and whether any IP
    address is a name.
    """

    names: tuple[str, ...] = LOOPBACK
    token: str | None = None
    addresses: bool = False

    @classmethod
    def for_host(
        cls, host: str, token: str | None = None, names: Iterable[str] = ()
    ) -> Access:
        """The access rules of a server bound to `host`: anything but the loopback interface demands
        a token.

        Names are checked because a hostile page may make its own name point to this machine (DNS
        rebinding); it cannot do so with an address.
        """
        if token is not None and (
            len(token) < SHORTEST_TOKEN
            or not token.isascii()
            or not token.isprintable()
        ):
            raise SettingsError(
                f"the token needs at least {SHORTEST_TOKEN} printable ASCII characters; or give none"
            )
        known = (*LOOPBACK, *(name.lower() for name in names))
        # Only this machine reaches the loopback interface, so a token is optional
        # there.
        if is_loopback(host):
            return cls(known, token)
        return cls(
            (*known, host.lower(), socket.gethostname().lower()),
            token or secrets.token_urlsafe(24),
            True,
        )

    @property
    def session(self) -> str:
        """The cookie's value: proof that its owner knew the token, which itself stays secret."""
        return hmac.new(
            (self.token or "").encode(), b"nqg session", hashlib.sha256
        ).hexdigest()

    def is_token(self, text: str) -> bool:
        """Whether `text` is the token, in constant time."""
        return self.token is not None and _equal(text, self.token)

    def is_session(self, cookies: str) -> bool:
        try:
            found = SimpleCookie(cookies).get(COOKIE)
        except CookieError:
            return False
        return found is not None and _equal(found.value, self.session)

    def check(self, scope: Scope, headers: Headers) -> None:
        """Refuse a request for another host, from another site's page, or without the token."""
        name = _host_name(headers.get("host", ""))
        if name not in self.names and not (self.addresses and _is_address(name)):
            reason = f"this server does not answer for the host '{name[:80]}'; start it with --allowed-host to allow it"
            raise HTTPError(421, reason)
        # Only browsers send these headers, older ones only the second; of forms, such as
        # the login's, it is "null".
        is_foreign = headers.get("sec-fetch-site", "none") not in (
            "same-origin",
            "none",
        )
        if "origin" in headers and scope["path"].startswith(JSON_PATHS):
            is_foreign |= _host_name(headers["origin"].rpartition("//")[2]) != name
        if scope["method"] == "POST" and is_foreign:
            raise HTTPError(403, "requests from pages of other sites are not answered")
        if self.token is None or scope["path"].startswith(OPEN):
            return
        scheme, _, given = headers.get("authorization", "").partition(" ")
        has_token = scheme.lower() == "bearer" and self.is_token(given.strip())
        if not has_token and not self.is_session(headers.get("cookie", "")):
            reason = "this server asks for its token: send 'Authorization: Bearer TOKEN', or log in at /login"
            raise HTTPError(401, reason)


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach `host`.

    >>> [is_loopback(host) for host in ("127.0.0.1", "::1", "localhost", "0.0.0.0", "example.org")]
    [True, True, True, False, False]
    """
    return host == "localhost" or (
        _is_address(host) and ipaddress.ip_address(host).is_loopback
    )


class AuthMiddleware:
    """Refuses requests that `access` does not let in, and adds the security headers to every
    answer.
    """

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app, self._access = app, access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(SECURITY_HEADERS)
            await send(message)

        headers, answer = Headers(scope=scope), self._app
        try:
            self._access.check(scope, headers)
        except HTTPError as error:
            wants_page = error.status == 401 and "text/html" in headers.get(
                "accept", ""
            )
            answer = error.response(scope["path"])
            if wants_page:
                answer = RedirectResponse("/login", 303)
        await answer(scope, receive, send_with_headers)


def _equal(one: str, other: str) -> bool:
    return hmac.compare_digest(
        one.encode("utf-8", "replace"), other.encode("utf-8", "replace")
    )


def _host_name(host: str) -> str:
    return (
        host[1:].partition("]")[0]
        if host.startswith("[")
        else host.partition(":")[0].lower()
    )


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
