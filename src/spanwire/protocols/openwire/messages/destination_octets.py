"""Keeps the octets of a destination in dispatches, shared by all consumers."""

from __future__ import annotations

from spanwire.model.destination import Destination
from spanwire.protocols.openwire.codec.loose import LooseWriter
from spanwire.protocols.openwire.messages.identities import wire_destination


class DestinationOctets:
    """The octets of the last destination.

    In a MessageDispatch, the octets reach from the destination to the mark of the message.
    """

    def __init__(self) -> None:
        self._destination: Destination | None = None
        self._octets = b""

    def of(self, destination: Destination) -> bytes:
        """Return the octets for ``destination``, loose and uncached; equal in every version."""
        if destination is not self._destination:
            writer = LooseWriter(1, False)
            writer.write_nested(wire_destination(destination))
            writer.write_boolean(True)
            self._octets = writer.out.getvalue()
            self._destination = destination
        return self._octets
