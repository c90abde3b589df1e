"""A server process: its socket, uvicorn with our limits, and an orderly end.

uvicorn closes idle connections, the kernel those whose client does not take its answer, and `BodyLimitMiddleware` gives
bodies a time limit. Nothing here bounds the time for a request's head: that is left to a proxy in front.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence
from contextlib import ExitStack

import uvicorn

from nqg.errors import NqgError
from nqg.web.app import create_app
from nqg.web.middleware import Access
from nqg.web.service import Service

BACKLOG = 512  # connections that the system keeps until we take them
SEND_BUFFER = 1 << 17  # bytes that the system keeps for a client; it would grow to megabytes for those that do not read
HEAD_BYTES = 16_384  # of a request's line and headers


class Server:
    """A model at an address; the socket is bound at once, so that a port in use is an error before anything starts."""

    def __init__(self, service: Service, access: Access, examples: Sequence[str], host: str, port: int) -> None:
        limits = service.limits
        self._socket = bound_socket(host, port, limits.client_timeout)
        config = uvicorn.Config(
            create_app(service, access, examples),
            http="h11",
            ws="none",
            lifespan="on",
            access_log=False,
            log_level="warning",
            server_header=False,
            proxy_headers=False,
            limit_concurrency=limits.connections,
            timeout_keep_alive=int(limits.client_timeout),
            timeout_graceful_shutdown=int(limits.answer_timeout),
            h11_max_incomplete_event_size=HEAD_BYTES,
            backlog=BACKLOG,
        )
        self._server = uvicorn.Server(config)

    @property
    def address(self) -> str:
        host, port = self._socket.getsockname()[:2]
        return f"http://{f'[{host}]' if ':' in host else host}:{port}"

    def run(self) -> None:
        """Serve until a signal says stop; requests under way are finished."""
        self._server.run([self._socket])

    def stop(self) -> None:
        """May be called from a signal handler or another thread."""
        self._server.should_exit = True


def bound_socket(host: str, port: int, send_timeout: float) -> socket.socket:
    """A socket that listens; a client that takes nothing of what was sent for `send_timeout` seconds is dropped."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with ExitStack() as on_failure:
            bound = on_failure.enter_context(socket.socket(family, kind, protocol))
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)
            if hasattr(socket, "TCP_USER_TIMEOUT"):  # Linux; connections inherit it
                bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(1000 * send_timeout))
            bound.bind(address)
            bound.listen(BACKLOG)
            on_failure.pop_all()
    except OSError as error:
        raise NqgError(f"cannot listen at {host}:{port} ({error.strerror}); choose another --host or --port") from error
    return bound
