"""Deleted temporary destinations, with ``jms.watchTopicAdvisories``: sends to them fail at the client.

Brokers report temporary destinations of all clients on two advisory topics. The client refuses sends to reported
deletions only; all other sends are the broker's decision.
"""

from __future__ import annotations

from typing import Final

from spanwire.client.protocol.response_correlator import ResponseCorrelator
from spanwire.model.acks import STANDARD_ACK
from spanwire.model.destination import TOPIC, Destination
from spanwire.model.errors import InvalidDestinationError
from spanwire.protocols.openwire.codec import _marshallers as wire
from spanwire.protocols.openwire.codec.codec import decode_message
from spanwire.protocols.openwire.messages.identities import destination_of, wire_destination

TOPICS: Final = Destination(TOPIC, "ActiveMQ.Advisory.TempQueue,topic://ActiveMQ.Advisory.TempTopic")
SESSION: Final = -1  # session that every connection has without an announcement
PREFETCH: Final = 1_000  # as in ActiveMQ
ACKNOWLEDGED_AT: Final = 750  # messages; three quarters of the prefetch
MAX_DELETED: Final = 10_000  # names; for older ones the broker refuses the send
ADD: Final = 0
REMOVE: Final = 1


class TemporaryWatch:
    """Consumer of the advisory topics, announced by the connection over each link."""

    def __init__(self, correlator: ResponseCorrelator, connection_id: str, number: int) -> None:
        self.number: Final[int] = number
        self._correlator: Final[ResponseCorrelator] = correlator
        self._id: Final[wire.ConsumerId] = wire.ConsumerId(
            connection_id=connection_id, session_id=SESSION, value=number
        )
        self._first: wire.MessageId | None = None
        self._count = 0

    def announcement(self) -> wire.ConsumerInfo:
        """Return the ConsumerInfo, and restart the count of unacknowledged messages."""
        self._count = 0
        return wire.ConsumerInfo(
            consumer_id=self._id,
            destination=wire_destination(TOPICS),
            prefetch_size=PREFETCH,
            dispatch_async=True,
            no_local=True,
        )

    def on_dispatch(self, raw: bytes) -> None:
        """Handle an advisory message. Raises `ProtocolError` for an undecodable message."""
        message = decode_message(raw, self._correlator.version)
        info = message.data_structure
        if isinstance(info, wire.DestinationInfo) and info.destination is not None:
            try:
                self._update(info.operation_type, destination_of(info.destination).qualified_name)
            except InvalidDestinationError:
                pass  # no send can use such a name
        if self._count == 0:
            self._first = message.message_id
        self._count += 1
        if self._count >= ACKNOWLEDGED_AT:
            acknowledgement = wire.MessageAck(
                destination=message.destination,
                consumer_id=self._id,
                ack_type=STANDARD_ACK,
                first_message_id=self._first,
                last_message_id=message.message_id,
                message_count=self._count,
            )
            self._correlator.send(acknowledgement)
            self._count = 0

    def _update(self, operation: int, name: str) -> None:
        deleted = self._correlator.deleted
        if operation == ADD:
            deleted.pop(name, None)
        elif operation == REMOVE:
            if len(deleted) >= MAX_DELETED:
                deleted.pop(next(iter(deleted)))
            deleted[name] = None
