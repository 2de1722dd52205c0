"""A broker whose clients may write another separator than a dot in names of destinations (ActiveMQ's
``destinationPathSeparatorPlugin``): ``orders/new`` is ``orders.new``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from spanwire.broker.connections.connection_state import ConnectionState
from spanwire.broker.dispatch.memory_usage import UsageLimits
from spanwire.broker.dispatch.subscription import Subscription
from spanwire.broker.plugins.plugged_broker import PluggedBroker, PluginSettings
from spanwire.broker.ports import MessageConsumer, StatisticsFormat
from spanwire.model.destination import SCHEMES, Destination, check_name, parse_destination
from spanwire.model.environment import Time
from spanwire.model.errors import MessageFormatError, ProtocolError
from spanwire.model.ids import AnyTransactionId
from spanwire.model.info import ConsumerInfo, ProducerInfo
from spanwire.model.message import Message

MAX_KNOWN: Final = 1_000  # names whose other form is remembered; then they are forgotten all at once


class SeparatedBroker(PluggedBroker):
    """Gives every name that a client writes its dots, before anything else is done with it."""

    _separator: str
    _known: dict[str, Destination]

    def plug_in(
        self,
        plugins: PluginSettings,
        statistics_format: StatisticsFormat | None,
        limits: UsageLimits,
        addresses: dict[str, str],
    ) -> None:
        """As `PluggedBroker.plug_in`."""
        super().plug_in(plugins, statistics_format, limits, addresses)
        self._separator = plugins.path_separator
        self._known = {}

    def _dotted(self, destination: Destination) -> Destination:
        separator = self._separator
        if not separator or separator not in destination.name:
            return destination
        name = destination.qualified_name
        found = self._known.get(name)
        if found is None:
            found = dotted(destination, separator)
            if len(self._known) >= MAX_KNOWN:
                self._known.clear()
            self._known[name] = found
        return found

    def add_producer(self, state: ConnectionState, info: ProducerInfo, now: Time) -> None:
        """As `Broker.add_producer`."""
        destination = info.destination
        if destination is not None:
            other = self._dotted(destination)
            if other is not destination:
                info = ProducerInfo(info.producer_id, other, info.window_size)
        super().add_producer(state, info, now)

    def add_consumer(
        self,
        state: ConnectionState,
        info: ConsumerInfo,
        consumer: MessageConsumer,
        now: Time,
        automatic: bool = False,
    ) -> Subscription:
        """As `Broker.add_consumer`."""
        other = self._dotted(info.destination)
        if other is not info.destination:
            info = replace(info, destination=other)
        return super().add_consumer(state, info, consumer, now, automatic)

    def add_destination(self, state: ConnectionState, destination: Destination, now: Time) -> None:
        """As `Broker.add_destination`."""
        super().add_destination(state, self._dotted(destination), now)

    def remove_destination(self, state: ConnectionState, destination: Destination, now: Time) -> None:
        """As `Broker.remove_destination`."""
        super().remove_destination(state, self._dotted(destination), now)

    def send(
        self, state: ConnectionState, message: Message, transaction_id: AnyTransactionId | None, token: int, now: Time
    ) -> bool:
        """As `Broker.send`; the message has its new address when it is kept."""
        other = self._dotted(message.destination)
        if other is not message.destination:
            try:
                message = self.formats.format(message.format_id).readdressed(message, other, False)
            except ProtocolError as error:
                raise MessageFormatError(f"a message cannot be given the address {other}: {error}") from None
        return super().send(state, message, transaction_id, token, now)


def dotted(destination: Destination, separator: str) -> Destination:
    """``destination`` with dots for ``separator``; what is empty between two of them is left out, and so are blanks
    around the parts. Temporary destinations keep the names that their connections gave them.

    Raises `InvalidDestinationError` when nothing is left.
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
    found = ".".join([part for part in parts if part])
    check_name(found)
    return found
