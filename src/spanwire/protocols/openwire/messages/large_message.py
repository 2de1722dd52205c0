"""The octets of a large message that are the same for every consumer, cut off once for all of them."""

from __future__ import annotations

from spanwire.model.message import Message


class LargeMessage:
    """What follows the broker's sequence in the message that was dispatched last. Connections share it; whoever takes
    its output first forgets it here, so that it lives no longer than their sockets need it.
    """

    def __init__(self) -> None:
        self._message: Message | None = None
        self._start = 0
        self._rest = b""

    def rest_of(self, message: Message, octets: bytes, start: int) -> bytes:
        """``octets``, those of ``message``, from ``start`` on."""
        if message is not self._message or start != self._start:
            self._message = message
            self._start = start
            self._rest = octets[start:]
        return self._rest

    def forget(self) -> None:
        """Keep nothing."""
        self._message = None
        self._rest = b""
