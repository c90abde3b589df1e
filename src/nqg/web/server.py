"""A server process: its socket, uvicorn with our limits, and an orderly end."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from nqg.errors import NqgError
from nqg.web.app import create_app
from nqg.web.middleware import Access
from nqg.web.service import Service


def patient_for(seconds: float) -> type[asyncio.Protocol]:
    """A protocol of uvicorn whose connections are dropped when the client keeps it waiting for `seconds`."""

    class Impatient(H11Protocol):
        def __init__(self, *args: Any, **named: Any) -> None:
            super().__init__(*args, **named)
            self._alarms: dict[str, asyncio.TimerHandle] = {}

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self._set("head")

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            if self.cycle is None or self.cycle.response_complete:
                self._set("head")
            else:
                self._unset("head")

        def pause_writing(self) -> None:
            super().pause_writing()
            self._set("answer")

        def resume_writing(self) -> None:
            super().resume_writing()
            self._unset("answer")

        def connection_lost(self, exc: Exception | None) -> None:
            super().connection_lost(exc)
            self._unset("head")
            self._unset("answer")

        def _set(self, what: str) -> None:
            if what not in self._alarms:
                self._alarms[what] = self.loop.call_later(seconds, _drop, self.transport)

        def _unset(self, what: str) -> None:
            if alarm := self._alarms.pop(what, None):
                alarm.cancel()

    return Impatient


def _drop(transport: asyncio.Transport) -> None:
    """End a connection at once; without lingering, so that the system forgets what it still holds for the client."""
    transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    transport.abort()


BACKLOG = 512  # connections that the system keeps until we take them
SEND_BUFFER = 1 << 17  # bytes that the system keeps for a client; it would grow to megabytes for those that do not read
HEAD_BYTES = 16_384  # of a request's line and headers


class Server:
    """A model at an address; the socket is bound at once, so that a port in use is an error before anything starts."""

    def __init__(self, service: Service, access: Access, examples: Sequence[str], host: str, port: int) -> None:
        self._socket = _bound(host, port)
        limits = service.limits
        config = uvicorn.Config(
            create_app(service, access, examples),
            http=patient_for(limits.patience),
            ws="none",
            lifespan="on",
            access_log=False,
            log_level="warning",
            server_header=False,
            proxy_headers=False,
            limit_concurrency=limits.connections,
            timeout_keep_alive=int(limits.patience),
            timeout_graceful_shutdown=int(limits.seconds),
            h11_max_incomplete_event_size=HEAD_BYTES,
            backlog=BACKLOG,
        )
        self._server = uvicorn.Server(config)

    @property
    def address(self) -> str:
        """Where a browser finds it."""
        host, port = self._socket.getsockname()[:2]
        return f"http://{f'[{host}]' if ':' in host else host}:{port}"

    def run(self) -> None:
        """Serve until a signal says stop; requests under way are finished."""
        self._server.run([self._socket])

    def stop(self) -> None:
        """Ask the server to stop, from a signal handler or another thread."""
        self._server.should_exit = True


def _bound(host: str, port: int) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with ExitStack() as on_failure:
            bound = on_failure.enter_context(socket.socket(family, kind, protocol))
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)
            bound.bind(address)
            bound.listen(BACKLOG)
            on_failure.pop_all()
    except OSError as error:
        raise NqgError(f"cannot listen at {host}:{port} ({error.strerror}); choose another --host or --port") from error
    return bound
