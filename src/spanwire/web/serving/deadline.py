"""HTTP connections with a deadline for the head of a request, against slow and silent clients."""

from __future__ import annotations

import asyncio
from typing import Final

from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_S: Final = 10.0  # seconds for the head of a request; a link that needs more is of no use for management


class DeadlineProtocol(H11Protocol):
    """Closes a connection after `HEAD_S` seconds without a complete head."""

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Start the deadline of the first request."""
        super().connection_made(transport)
        self._deadline = self.loop.call_later(HEAD_S, self._close_slow)

    def data_received(self, data: bytes) -> None:
        """Pass data on. A complete head ends the deadline, the beginning of a head starts a new deadline."""
        super().data_received(data)
        if self._is_busy():
            self._cancel()
        elif self._deadline is None:
            self._deadline = self.loop.call_later(HEAD_S, self._close_slow)

    def connection_lost(self, exc: Exception | None) -> None:
        """End the deadline."""
        self._cancel()
        super().connection_lost(exc)

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
