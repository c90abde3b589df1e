"""A web server on 127.0.0.1 for tests: it serves bytes, and misbehaves as told."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class LocalServer:
    """What is served, how the next answers go wrong, and how often it was asked."""

    content: bytes
    mishaps: list[str] = field(default_factory=list)
    requests: int = 0
    port: int = 0

    def address(self, name: str) -> str:
        return f"http://127.0.0.1:{self.port}/{name}"


def _answer(handler: BaseHTTPRequestHandler, server: LocalServer) -> None:
    server.requests += 1
    mishap = server.mishaps.pop(0) if server.mishaps else ""
    if mishap.isdigit():
        handler.send_error(int(mishap))
        return
    handler.send_response(200)
    handler.send_header("Content-Length", str(len(server.content)))
    handler.end_headers()
    handler.wfile.write(
        server.content[: len(server.content) // 2]
        if mishap == "drop midway"
        else server.content
    )


@contextmanager
def serving(content: bytes) -> Iterator[LocalServer]:
    """A running server; it stops when the block ends."""
    server = LocalServer(content)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            _answer(self, server)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Tests keep quiet."""

    with listening(Handler) as server.port:
        yield server


@contextmanager
def listening(handler: type[BaseHTTPRequestHandler]) -> Iterator[int]:
    """The port at which a thread answers requests until the block ends."""
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as running:
        thread = threading.Thread(
            target=running.serve_forever, kwargs={"poll_interval": 0.01}
        )
        thread.start()
        try:
            yield running.server_address[1]
        finally:
            running.shutdown()
            thread.join()
