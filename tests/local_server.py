"""A web server on 127.0.0.1 for tests: it serves bytes, understands ranges, and misbehaves as told."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class LocalServer:
    """What is served, how the next answers go wrong, and which ranges were asked for."""

    content: bytes
    mishaps: list[str] = field(default_factory=list)
    ranges: list[str | None] = field(default_factory=list)
    port: int = 0

    def address(self, name: str) -> str:
        return f"http://127.0.0.1:{self.port}/{name}"


def _answer(handler: BaseHTTPRequestHandler, server: LocalServer) -> None:
    asked = handler.headers.get("Range")
    server.ranges.append(asked)
    mishap = server.mishaps.pop(0) if server.mishaps else ""
    if mishap.isdigit():
        handler.send_error(int(mishap))
        return
    begin = int(re.findall(r"\d+", asked)[0]) if asked and mishap != "no ranges" else 0
    if begin >= len(server.content):
        handler.send_error(416)
        return
    shown = 0 if mishap == "wrong range" else begin
    handler.send_response(206 if begin else 200)
    handler.send_header("Content-Length", str(len(server.content) - begin))
    if begin:
        handler.send_header("Content-Range", f"bytes {shown}-{len(server.content) - 1}/{len(server.content)}")
    handler.end_headers()
    sent = server.content[begin:]
    handler.wfile.write(sent[: len(sent) // 2] if mishap == "drop midway" else sent)


@contextmanager
def serving(content: bytes) -> Iterator[LocalServer]:
    """A running server; it stops when the block ends."""
    server = LocalServer(content)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            _answer(self, server)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Tests keep quiet."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        server.port = running.server_address[1]
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            running.shutdown()
            thread.join()
