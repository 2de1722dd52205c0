"""The sending side of one connection, with the count of unsent bytes."""

from __future__ import annotations

from typing import Final

from spanwire.broker.dispatch.memory_usage import MemoryUsage
from spanwire.broker.ports import ClientConnection
from spanwire.model.errors import SpanwireError

MAX_OUTPUT_BYTES: Final = 1024 * 1024  # unsent bytes above which a connection is slow and gets no more dispatches


class ConnectionOutput:
    """Counts the unsent bytes of one connection and marks the connection for flushing.

    The protocol's connection buffers the bytes, the transport writes them. Each dispatch adds the message's size to
    ``unsent_bytes``; each report of the transport replaces the estimate by the true value. Bytes held by the transport
    count in ``usage``, the memory usage of the broker.
    """

    __slots__ = ("_counted", "_dirty_list", "_gone", "_usage", "connection", "dirty", "unsent_bytes", "writable")

    def __init__(self, connection: ClientConnection, dirty_list: list[ConnectionOutput], usage: MemoryUsage) -> None:
        self.connection: Final[ClientConnection] = connection
        self._dirty_list: Final[list[ConnectionOutput]] = dirty_list
        self.dirty = False
        self.writable = True
        self.unsent_bytes = 0
        self._usage: Final[MemoryUsage] = usage
        self._counted = 0
        self._gone = False

    def mark_dirty(self) -> None:
        """Flush the connection at the end of the turn."""
        if not self.dirty:
            self.dirty = True
            self._dirty_list.append(self)

    def close_with(self, error: SpanwireError) -> None:
        """Send ``error`` to the client and close the connection."""
        self.connection.close_with(error)
        self.mark_dirty()

    def add(self, size: int) -> None:
        """Count a dispatch of ``size`` bytes into the connection's buffer."""
        self.unsent_bytes += size
        if self.unsent_bytes > MAX_OUTPUT_BYTES:
            self.writable = False
        if not self.dirty:
            self.dirty = True
            self._dirty_list.append(self)

    def progress(self, unsent_bytes: int) -> bool:
        """Record that the transport still holds ``unsent_bytes``.

        Returns:
            True if the connection has just become writable again.
        """
        was_writable = self.writable
        self.unsent_bytes = unsent_bytes
        if unsent_bytes != self._counted and not self._gone:
            self._usage.add(unsent_bytes - self._counted)
            self._counted = unsent_bytes
        self.writable = unsent_bytes <= MAX_OUTPUT_BYTES
        return self.writable and not was_writable

    def leave(self) -> None:
        """Release the memory of the unsent bytes after the connection has ended."""
        self._usage.add(-self._counted)
        self._counted = 0
        self._gone = True
