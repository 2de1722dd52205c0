"""One open stream: views and destinations of interest, and the waiting events."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from typing import Final

from spanwire.management.tables.attributes import ViewTable
from spanwire.web.calls import Call

MAX_WAITING: Final = 100  # events that wait for a client; one that is so far behind loads the lists faster
HEARTBEAT_S: Final = 15.0  # seconds without an event after which a comment keeps proxies from closing the stream
RETRY_MS: Final = 2_000  # milliseconds after which a browser connects again
HEARTBEAT: Final = b":\n\n"
OPEN: Final = "open"
END: Final = "end"
UNREACHABLE: Final = "unreachable"
PACE: Final = "pace"


class Listener:
    """Holds the events of one client until they are sent. A too slow client is dropped."""

    def __init__(self, call: Call, views: tuple[ViewTable, ...], destinations: frozenset[str], now: float) -> None:
        """Listen to ``views``, with ``destinations`` only to their rows where a view has destinations.

        ``now`` is in monotonic seconds.
        """
        self.call = call
        self.views: Final = views
        self.destinations: Final = destinations
        self.is_open = False
        self.is_ended = False
        self.renewed_at = now
        self._put_at = now
        self._events: Final[deque[bytes]] = deque()
        self._is_ready: Final = asyncio.Event()

    def put(self, event: bytes, now: float) -> None:
        """Add an event; `MAX_WAITING` waiting events end the stream."""
        if self.is_ended:
            return
        if len(self._events) >= MAX_WAITING:
            self._events.clear()
            self.end(f"{MAX_WAITING} events were not taken")
            return
        self._events.append(event)
        self._put_at = now
        self._is_ready.set()

    def beat(self, now: float) -> None:
        """Add a comment after `HEARTBEAT_S` seconds without an event, unless an event still waits."""
        if not self._events and now - self._put_at >= HEARTBEAT_S:
            self.put(HEARTBEAT, now)

    def end(self, reason: str = "") -> None:
        """End the stream; a reason is sent as a last event."""
        if self.is_ended:
            return
        self.is_ended = True
        if reason:
            self._events.append(event_of(END, {"detail": reason}))
        self._is_ready.set()

    async def take(self) -> bytes:
        """Return the waiting events; empty at the end of the stream."""
        while not self._events and not self.is_ended:
            self._is_ready.clear()
            await self._is_ready.wait()
        taken = b"".join(self._events)
        self._events.clear()
        return taken


def event_of(name: str, content: object) -> bytes:
    """Return a server-sent event; JSON has no line breaks."""
    return f"event: {name}\ndata: {json.dumps(content, separators=(',', ':'))}\n\n".encode()
