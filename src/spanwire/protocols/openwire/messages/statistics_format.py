"""Replies of the statistics plugin as OpenWire map messages of type ``Advisory``.

See ActiveMQ, "StatisticsPlugin".
"""

from __future__ import annotations

from typing import Final

from spanwire.broker.ports import MessageFormat, StatisticsFormat
from spanwire.model.destination import Destination
from spanwire.model.ids import MessageId, ProducerId
from spanwire.model.message import Message
from spanwire.model.message_view import MAP, MessageView, PropertyValue
from spanwire.protocols.openwire.messages.advisory_format import ADVISORY_TYPE
from spanwire.protocols.primitive_map import encode_map


class OpenWireStatisticsFormat(StatisticsFormat):
    """Creates map messages.

    ``producer_connection_id`` in their ids must differ from all connection ids of clients.
    """

    def __init__(self, producer_connection_id: str, message_format: MessageFormat) -> None:
        self._producer_id: Final[ProducerId] = ProducerId(producer_connection_id, 0, 0)
        self._message_format: Final[MessageFormat] = message_format

    def statistics(
        self,
        destination: Destination,
        entries: dict[str, PropertyValue],
        correlation_id: str | None,
        number: int,
        wall_ms: int,
    ) -> Message:
        """Return a non-persistent message without expiration."""
        view = MessageView(MAP, destination, MessageId(self._producer_id, number))
        view.type = ADVISORY_TYPE
        view.correlation_id = correlation_id
        view.timestamp_ms = wall_ms
        view.body = encode_map(entries)
        return self._message_format.encode_from_view(view)
