"""Slow clients are cut off: those that dawdle over a request's head, and those that do not take their answer.

uvicorn waits for both for ever. A slow body is the matter of `doors.py`, which can still answer with a status.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol


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
