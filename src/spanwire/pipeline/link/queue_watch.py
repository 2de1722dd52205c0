"""Finds the queues of a broker for a pattern, through the broker's advisories.

A new consumer of ``ActiveMQ.Advisory.Queue`` receives advisories about all existing queues, and later about new queues.
"""

from __future__ import annotations

import contextlib
from typing import Final

from spanwire.client import blocking
from spanwire.client.messages.message import Message
from spanwire.model.destination import Destination
from spanwire.model.errors import InvalidDestinationError, JmsError
from spanwire.pipeline.link.connections import connect
from spanwire.pipeline.link.control_client import CONTROL
from spanwire.pipeline.options import Login
from spanwire.protocols.openwire.codec import _marshallers as wire
from spanwire.protocols.openwire.codec.codec import decode_message
from spanwire.protocols.openwire.messages.identities import destination_of

TOPIC: Final = "topic://ActiveMQ.Advisory.Queue"
FIRST_WAIT_S: Final = 1.0  # seconds; a busy broker announces many queues in several turns
REMOVE_OPERATION: Final = 1  # of a DestinationInfo
MAX_RECEIVED: Final = 1000  # advisories taken at once


class QueueWatch:
    """One connection with a consumer of advisories; not thread-safe."""

    def __init__(self, login: Login, pattern: Destination) -> None:
        self._login: Final[Login] = login
        self._pattern: Final[Destination] = pattern
        self._connection: blocking.Connection | None = None
        self._consumer: blocking.Consumer | None = None

    def take(self) -> list[Destination]:
        """Return the queues announced since the last call; the first call of a connection returns all queues.

        Raises:
            JmsError: the broker is lost, or refuses the login or the consumer.
        """
        wait_s = 0.0
        if self._connection is None:
            self._connection = connect(self._login)
            self._consumer = self._connection.session().create_consumer(TOPIC)
            wait_s = FIRST_WAIT_S
        assert self._consumer is not None
        queues: dict[Destination, None] = {}
        while messages := self._consumer.receive_many(MAX_RECEIVED, wait_s):
            for message in messages:
                self._note(message, queues)
        if not self._connection.shared.core.is_online:
            raise JmsError("the broker is not connected, so its queues are unknown")
        return list(queues)

    def close(self) -> None:
        """Close the connection, without raising."""
        connection, self._connection, self._consumer = self._connection, None, None
        if connection is not None:
            with contextlib.suppress(JmsError):
                connection.close()

    def _note(self, message: Message, queues: dict[Destination, None]) -> None:
        """Add the queue of an advisory, or take out the queue of an advisory about a removal."""
        info = decode_message(message.raw, message.version).data_structure
        if not isinstance(info, wire.DestinationInfo) or info.destination is None:
            return
        try:
            queue = destination_of(info.destination)
        except InvalidDestinationError:
            return
        if info.operation_type == REMOVE_OPERATION:
            queues.pop(queue, None)
        elif self._pattern.matches(queue) and queue != CONTROL:
            queues[queue] = None
