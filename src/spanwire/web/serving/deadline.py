"""HTTP connections with deadlines against clients that send a head or read an answer too slowly.

Connections without a complete request make room for new ones, so that clients with many idle connections or endless
bodies keep no other client out.

A body against the rules of HTTP gets one answer, and no traceback in the log. `DeadlineProtocol` has h11 read HTTP;
`spanwire.web.serving.quick` does the same with httptools.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final
from weakref import WeakKeyDictionary

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

HEAD_S: Final = 10.0  # seconds for the head of a request; a link that needs more is of no use for management
STALL_S: Final = 30.0  # seconds in which a client takes the 64 KiB of an answer that wait for it
MAX_IDLE: Final = 400  # connections without a whole request; 500 streams of events leave 100 of 1,000 for requests

_idle: Final[WeakKeyDictionary[ServerState, dict[Deadlines, None]]] = WeakKeyDictionary()  # the longest idle one first


class Deadlines(asyncio.Protocol):
    """Closes a connection after `HEAD_S` seconds without a complete head or `STALL_S` of a stalled answer.

    Of more than `MAX_IDLE` connections without a request the longest idle connection is closed. A base of both
    protocols, in front of uvicorn's class.
    """

    loop: asyncio.AbstractEventLoop
    transport: asyncio.Transport
    server_state: ServerState
    cycle: Any
    _deadline: asyncio.TimerHandle | None = None
    _stall: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start the deadline of the first request."""
        super().connection_made(transport)
        self._deadline = self.loop.call_later(HEAD_S, self._close_slow)
        self._begin_idling()

    def data_received(self, data: bytes) -> None:
        """Pass data on. A complete head ends the deadline, the beginning of a head starts a new deadline."""
        super().data_received(data)
        if self._is_busy():
            self._cancel()
            if not self.cycle.more_body:
                self._end_idling()
        elif self._deadline is None:
            self._deadline = self.loop.call_later(HEAD_S, self._close_slow)

    def connection_lost(self, exc: Exception | None) -> None:
        """End the deadlines."""
        self._cancel()
        self._cancel_stall()
        self._end_idling()
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        """Go on with the next request, or wait for the next request."""
        super().on_response_complete()  # type: ignore[misc]
        if not self._is_busy() and not self.transport.is_closing():
            self._begin_idling()

    def _begin_idling(self) -> None:
        idle = _idle.setdefault(self.server_state, {})
        if len(idle) >= MAX_IDLE:
            longest = next(iter(idle))
            del idle[longest]
            longest.transport.close()
        idle[self] = None

    def _end_idling(self) -> None:
        _idle.get(self.server_state, {}).pop(self, None)

    def pause_writing(self) -> None:
        """Wait until the client reads, for `STALL_S` seconds."""
        super().pause_writing()
        self._cancel_stall()
        self._stall = self.loop.call_later(STALL_S, self._abort)

    def resume_writing(self) -> None:
        """Write on."""
        self._cancel_stall()
        super().resume_writing()

    def _abort(self) -> None:
        self._stall = None
        self.transport.abort()

    def _cancel_stall(self) -> None:
        if self._stall is not None:
            self._stall.cancel()
            self._stall = None

    def _is_busy(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _close_slow(self) -> None:
        self._deadline = None
        if not self._is_busy():
            self.transport.close()

    def _cancel(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


class DeadlineProtocol(Deadlines, H11Protocol):
    """A connection with h11 as the reader of HTTP."""

    def send_400_response(self, msg: str) -> None:
        """Answer malformed HTTP, in place of the handler if the head of the request was in order."""
        cycle = self.cycle
        if cycle is not None and not cycle.response_complete:
            cycle.disconnected = True
            cycle.message_event.set()
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            super().send_400_response(msg)
        else:
            self.transport.close()
