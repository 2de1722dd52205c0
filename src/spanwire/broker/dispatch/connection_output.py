"""The sending side of one connection, as everything that dispatches to it sees it."""

from __future__ import annotations

from typing import Final

from spanwire.broker.dispatch.memory_usage import MemoryUsage
from spanwire.broker.ports import ClientConnection
from spanwire.model.errors import SpanwireError
from spanwire.model.units import MIB

MAX_OUTPUT_BYTES: Final = 1 * MIB  # unsent bytes above which a connection is slow and gets no more dispatches


class Outlet:
    """Counts what one connection has not sent yet and keeps it in the list of connections to flush.

    Leaves the bytes themselves to the protocol's connection and the writing to the transport. ``unsent_bytes`` grows
    with each dispatch by the message's size and is set to the truth by each report of the transport. What the transport
    holds counts in ``usage``, the broker's.
    """

    __slots__ = ("_counted", "_dirty_list", "_gone", "_usage", "connection", "dirty", "unsent_bytes", "writable")

    def __init__(self, connection: ClientConnection, dirty_list: list[Outlet], usage: MemoryUsage) -> None:
        self.connection: Final[ClientConnection] = connection
        self._dirty_list: Final[list[Outlet]] = dirty_list
        self.dirty = False
        self.writable = True
        self.unsent_bytes = 0
        self._usage: Final[MemoryUsage] = usage
        self._counted = 0
        self._gone = False

    def mark_dirty(self) -> None:
        """The connection has something to send: flush it at the end of this turn."""
        if not self.dirty:
            self.dirty = True
            self._dirty_list.append(self)

    def close_with(self, error: SpanwireError) -> None:
        """Tell the client why, and end the connection."""
        self.connection.close_with(error)
        self.mark_dirty()

    def add(self, size: int) -> None:
        """A dispatch of ``size`` bytes went into the connection's buffer."""
        self.unsent_bytes += size
        if self.unsent_bytes > MAX_OUTPUT_BYTES:
            self.writable = False
        if not self.dirty:
            self.dirty = True
            self._dirty_list.append(self)

    def progress(self, unsent_bytes: int) -> bool:
        """The transport still holds ``unsent_bytes``; True when the connection just became fast again."""
        was_writable = self.writable
        self.unsent_bytes = unsent_bytes
        if unsent_bytes != self._counted and not self._gone:
            self._usage.add(unsent_bytes - self._counted)
            self._counted = unsent_bytes
        self.writable = unsent_bytes <= MAX_OUTPUT_BYTES
        return self.writable and not was_writable

    def leave(self) -> None:
        """The connection is gone; what it left unsent ends with its socket."""
        self._usage.add(-self._counted)
        self._counted = 0
        self._gone = True
