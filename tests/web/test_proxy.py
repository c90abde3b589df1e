"""Requests that mean one thing to a proxy and another to the server, and slow heads: with nginx in front, and alone."""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from conftest import PROJECT
from nqg.inference.parser import Parser
from nqg.web.middleware import AuthMiddleware, Limits
from web_service import running

NGINX = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
POST = (
    b"POST /api/parse HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
)
BODY = b'{"sentence": "run"}'
HIDDEN = b"GET /smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n"
CHUNKED = b"%x\r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY)


def sized(*heads: bytes, body: bytes = BODY) -> bytes:
    return POST + b"".join(head + b"\r\n" for head in heads) + b"\r\n" + body


SMUGGLED = {
    "length and chunks, the length longer": sized(
        b"Content-Length: %d" % (5 + len(HIDDEN)),
        b"Transfer-Encoding: chunked",
        body=b"0\r\n\r\n" + HIDDEN,
    ),
    "length and chunks, the length shorter": sized(
        b"Content-Length: 4",
        b"Transfer-Encoding: chunked",
        body=b"%x\r\n%s\r\n0\r\n\r\n" % (len(HIDDEN), HIDDEN),
    ),
    "another word for chunked": sized(
        b"Transfer-Encoding: xchunked", b"Content-Length: 5", body=b"0\r\n\r\n" + HIDDEN
    ),
    "a space before the colon": sized(
        b"Transfer-Encoding : chunked", b"Content-Length: 5", body=b"0\r\n\r\n" + HIDDEN
    ),
    "a vertical tab": sized(
        b"Transfer-Encoding: \x0bchunked",
        b"Content-Length: 5",
        body=b"0\r\n\r\n" + HIDDEN,
    ),
    "chunked twice": sized(
        b"Transfer-Encoding: chunked",
        b"Transfer-Encoding: identity",
        body=b"0\r\n\r\n" + HIDDEN,
    ),
    "chunked and another": sized(
        b"Transfer-Encoding: chunked, identity", body=b"0\r\n\r\n" + HIDDEN
    ),
    "two lengths": sized(
        b"Content-Length: 0", b"Content-Length: %d" % len(HIDDEN), body=HIDDEN
    ),
    "a list of lengths": sized(b"Content-Length: 0, %d" % len(HIDDEN), body=HIDDEN),
    "a length with a sign": sized(b"Content-Length: +%d" % len(HIDDEN), body=HIDDEN),
    "a negative length": sized(b"Content-Length: -1", body=HIDDEN),
    "a hexadecimal length": sized(b"Content-Length: 0x10", body=HIDDEN),
    "a chunk of a negative size": sized(
        b"Transfer-Encoding: chunked", body=b"-1\r\n" + HIDDEN
    ),
    "a chunk of a huge size": sized(
        b"Transfer-Encoding: chunked", body=b"f" * 20 + b"\r\n" + HIDDEN
    ),
    "a chunk size with a prefix": sized(
        b"Transfer-Encoding: chunked", body=b"0x0\r\n\r\n" + HIDDEN
    ),
    "a folded header": sized(
        b"X: a\r\n Transfer-Encoding: chunked",
        b"Content-Length: 5",
        body=b"0\r\n\r\n" + HIDDEN,
    )[: -len(HIDDEN)],
    "a carriage return alone": sized(
        b"X: a\rTransfer-Encoding: chunked", body=b"0\r\n\r\n" + HIDDEN
    )[: -len(HIDDEN)],
    "a NUL in a header": sized(b"X: a\x00b", b"Content-Length: 0", body=b""),
    "two hosts": b"GET /health HTTP/1.1\r\nHost: localhost\r\nHost: elsewhere\r\n\r\n",
    "a host of another site": b"GET /health HTTP/1.1\r\nHost: elsewhere\r\n\r\n",
    "no host": b"GET /health HTTP/1.1\r\n\r\n",
    "an absolute address": b"GET http://elsewhere/health HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "an old version": b"GET /health\r\n\r\n",
    "a version to come": b"GET /health HTTP/3.0\r\nHost: localhost\r\n\r\n",
    "an upgrade": b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n",
    "a large head": b"GET /health HTTP/1.1\r\nHost: localhost\r\nX: "
    + b"x" * 20_000
    + b"\r\n\r\n",
    "a head of many parts": b"GET /health HTTP/1.1\r\nHost: localhost\r\n"
    + b"X: y\r\n" * 6_000
    + b"\r\n",
    "a long address": b"GET /"
    + b"a" * 30_000
    + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
}
REFUSED = {
    b"400",
    b"404",
    b"405",
    b"408",
    b"411",
    b"413",
    b"414",
    b"421",
    b"422",
    b"431",
    b"501",
    b"505",
}
FINE = {
    "a length": sized(b"Content-Length: %d" % len(BODY)),
    "chunks": sized(b"Transfer-Encoding: chunked", body=CHUNKED),
}


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths that reach the application."""
    paths: list[str] = []
    call = AuthMiddleware.__call__

    async def noted(self: AuthMiddleware, scope: Any, receive: Any, send: Any) -> None:
        paths.append(scope.get("path", ""))
        await call(self, scope, receive, send)

    monkeypatch.setattr(AuthMiddleware, "__call__", noted)
    return paths


@pytest.fixture(params=["alone", "behind nginx"])
def port(
    request: pytest.FixtureRequest, seen: list[str], parser: Parser, tmp_path: Path
) -> Iterator[int]:
    if request.param == "behind nginx" and NGINX is None:
        pytest.skip("nginx is not installed")
    with running(parser, Limits(client_timeout=2)) as server:
        own = urlsplit(server.address).port
        assert own is not None
        if request.param == "alone":
            yield own
            return
        front = free_port()
        with proxy(tmp_path, front, own):
            yield front


def free_port() -> int:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        return int(bound.getsockname()[1])


class proxy:  # noqa: N801 (used like a function)
    """The shipped configuration, on other ports and with shorter timeouts."""

    def __init__(self, folder: Path, front: int, back: int) -> None:
        site = (PROJECT / "deploy" / "nginx.conf").read_text()
        for old, new in (
            ("listen 80;", f"listen 127.0.0.1:{front};"),
            ("server_name parser.example.org;", "server_name localhost;"),
            ("http://127.0.0.1:8000", f"http://127.0.0.1:{back}"),
            ("_timeout 10s;", "_timeout 1s;"),
        ):
            assert old in site
            site = site.replace(old, new)
        (folder / "site.conf").write_text(site)
        paths = "".join(
            f"{kind}_temp_path {folder}/{kind};"
            for kind in ("client_body", "proxy", "fastcgi", "uwsgi")
        )
        (folder / "nginx.conf").write_text(
            f"daemon off; master_process off; pid {folder}/pid; error_log {folder}/log;"
            f"events {{}} http {{ access_log off; scgi_temp_path {folder}/scgi; {paths} include {folder}/site.conf; }}"
        )
        self.command = [
            str(NGINX),
            "-p",
            str(folder),
            "-e",
            str(folder / "log"),
            "-c",
            str(folder / "nginx.conf"),
        ]
        self.front, self.log = front, folder / "log"

    def __enter__(self) -> None:
        self.process = subprocess.Popen(self.command)
        while self.process.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", self.front), timeout=1).close()
                return
            except OSError:
                continue
        raise AssertionError(self.log.read_text())

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        self.process.wait()


def answered(port: int, raw: bytes) -> bytes:
    """Everything that is sent back until the connection is closed, or nothing more comes."""
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        received = b""
        try:
            connection.sendall(raw)
            while part := connection.recv(65536):
                received += part
                connection.settimeout(0.3)
        except (ConnectionResetError, BrokenPipeError, TimeoutError):
            pass
    return received


def test_no_request_is_read_as_two_and_whatever_is_refused_the_next_one_is_answered(
    port: int, seen: list[str]
) -> None:
    for name, raw in SMUGGLED.items():
        found = re.findall(rb"HTTP/1\.1 (\d+)", answered(port, raw))
        assert len(found) <= 1 or set(found) == {b"400"}, (name, found)
        assert not set(found) - REFUSED - {b"200"}, (name, found)
        assert "/smuggled" not in seen, name
    for name, raw in FINE.items():
        assert answered(port, raw).count(b'"answered_by":"grammar"') == 1, name


@pytest.mark.parametrize(
    "part",
    [b"", b"GET /health HTTP/1.1\r\nHost: loc", POST + b"Content-Length: 9\r\n\r\n{"],
)
def test_slow_clients_are_cut_off_behind_the_proxy(
    parser: Parser, tmp_path: Path, part: bytes
) -> None:
    if NGINX is None:
        pytest.skip("nginx is not installed")
    with running(parser) as server:
        front = free_port()
        with proxy(tmp_path, front, urlsplit(server.address).port or 0):
            received = answered(front, part)
    assert b"200" not in received.split(b"\r\n")[0]


def test_a_request_whose_length_is_said_in_two_ways_is_refused_with_the_reason(
    port: int, seen: list[str]
) -> None:
    raw = sized(b"Content-Length: 5", b"Transfer-Encoding: chunked", body=CHUNKED)
    received = answered(port, raw)
    assert received.startswith(b"HTTP/1.1 400 ")
    assert b'"error"' in received
