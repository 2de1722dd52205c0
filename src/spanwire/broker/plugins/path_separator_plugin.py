"""The path separator plug-in (ActiveMQ's ``destinationPathSeparatorPlugin``).

With the plug-in ``orders/new`` means ``orders.new``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from spanwire.broker.connections.connection_state import ConnectionState
from spanwire.broker.dispatch.message_formats import MessageFormats
from spanwire.broker.plugins.broker_filter import BrokerFilter
from spanwire.model.destination import SCHEMES, Destination, check_name, parse_destination
from spanwire.model.environment import Time
from spanwire.model.errors import MessageFormatError, ProtocolError
from spanwire.model.info import ConsumerInfo, ProducerInfo
from spanwire.model.message import Message

MAX_KNOWN: Final = 1_000  # remembered names; all are forgotten at this number


class PathSeparatorFilter(BrokerFilter):
    """Replaces the separator in every name from a client."""

    def __init__(self, separator: str, formats: MessageFormats) -> None:
        self._separator: Final[str] = separator
        self._formats: Final[MessageFormats] = formats
        self._known: Final[dict[str, Destination]] = {}

    def resolve_destination(self, state: ConnectionState, destination: Destination) -> Destination:
        """Return ``destination`` with dots, or ``destination`` unchanged without a separator."""
        return self._dotted(destination)

    def add_producer(self, state: ConnectionState, info: ProducerInfo) -> ProducerInfo:
        """Return the announcement with the destination with dots."""
        destination = info.destination
        if destination is None:
            return info
        other = self._dotted(destination)
        return info if other is destination else ProducerInfo(info.producer_id, other, info.window_size, info.counts)

    def add_consumer(self, state: ConnectionState, info: ConsumerInfo) -> ConsumerInfo:
        """Return the announcement with the destination with dots."""
        other = self._dotted(info.destination)
        return info if other is info.destination else replace(info, destination=other)

    def send(self, state: ConnectionState, message: Message, now: Time) -> Message:
        """Return the message with the destination with dots.

        Raises:
            MessageFormatError: the message cannot be given another destination.
        """
        other = self._dotted(message.destination)
        if other is message.destination:
            return message
        try:
            return self._formats.format(message.format_id).readdressed(message, other, False)
        except ProtocolError as error:
            raise MessageFormatError(f"a message cannot be given the address {other}: {error}") from None

    def _dotted(self, destination: Destination) -> Destination:
        separator = self._separator
        if separator not in destination.name:
            return destination
        name = destination.qualified_name
        dotted_destination = self._known.get(name)
        if dotted_destination is None:
            dotted_destination = dotted(destination, separator)
            if len(self._known) >= MAX_KNOWN:
                self._known.clear()
            self._known[name] = dotted_destination
        return dotted_destination


def dotted(destination: Destination, separator: str) -> Destination:
    """Return ``destination`` with dots in place of ``separator``.

    Empty parts and blanks around parts are dropped. Temporary destinations keep their names.

    Raises:
        InvalidDestinationError: a name is empty afterwards.
    """
    if destination.is_temporary:
        return destination
    if not destination.is_composite:
        return Destination(destination.kind, _dotted_name(destination.name, separator))
    parts: list[str] = []
    for text in destination.name.split(","):
        scheme = ""
        name = text.strip()
        for prefix in SCHEMES:
            if name.startswith(prefix):
                scheme = prefix
        part = parse_destination(name, destination.kind)
        parts.append(name if part.is_temporary else scheme + _dotted_name(name[len(scheme) :], separator))
    return Destination(destination.kind, ",".join(parts))


def _dotted_name(name: str, separator: str) -> str:
    parts = [part.strip() for part in name.split(separator)]
    dotted_name = ".".join([part for part in parts if part])
    check_name(dotted_name)
    return dotted_name
