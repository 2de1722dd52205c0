"""Shares the octets of a large message between its consumers."""

from __future__ import annotations

from spanwire.model.message import Message


class LargeMessage:
    """The octets after the broker's sequence of the last large message, shared by connections.

    The first connection forgets the octets once its output is taken, so the octets live only as long as the sockets
    need them.
    """

    def __init__(self) -> None:
        self._message: Message | None = None
        self._start = 0
        self._rest = b""
        self._changed: Message | None = None
        self._octets = b""

    def octets_of(self, message: Message) -> bytes:
        """Return all octets of ``message``; those with a changed head or tail are joined once."""
        if message.head is None and message.tail is None:
            return message.raw
        if message is not self._changed:
            self._changed = message
            self._octets = message.encoded()
        return self._octets

    def rest_of(self, message: Message, octets: bytes, start: int) -> bytes:
        """Return ``octets`` of ``message`` from ``start`` on."""
        if message is not self._message or start != self._start:
            self._message = message
            self._start = start
            self._rest = octets[start:]
        return self._rest

    def forget(self) -> None:
        """Forget the octets."""
        self._message = None
        self._rest = b""
        self._changed = None
        self._octets = b""
