"""The path separator plug-in (ActiveMQ's ``destinationPathSeparatorPlugin``): ``orders/new`` means ``orders.new``."""

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

MAX_KNOWN: Final = 1_000  # remembered names; all are forgotten at this number


class SeparatedBroker(PluggedBroker):
    """Replaces the separator in every name that a client writes, before all other work."""

    _separator: str
    _known: dict[str, Destination]

    def plug_in(
        self,
        plugins: PluginSettings,
        statistics_format: StatisticsFormat | None,
        limits: UsageLimits,
        addresses: dict[str, str],
    ) -> None:
        """Install plug-ins as `PluggedBroker.plug_in` does."""
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
        """Add a producer as `Broker.add_producer` does."""
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
        """Add a consumer as `Broker.add_consumer` does."""
        other = self._dotted(info.destination)
        if other is not info.destination:
            info = replace(info, destination=other)
        return super().add_consumer(state, info, consumer, now, automatic)

    def add_destination(self, state: ConnectionState, destination: Destination, now: Time) -> None:
        """Create a destination as `Broker.add_destination` does."""
        super().add_destination(state, self._dotted(destination), now)

    def remove_destination(self, state: ConnectionState, destination: Destination, now: Time) -> None:
        """Remove a destination as `Broker.remove_destination` does."""
        super().remove_destination(state, self._dotted(destination), now)

    def send(
        self, state: ConnectionState, message: Message, transaction_id: AnyTransactionId | None, token: int, now: Time
    ) -> bool:
        """Send as `Broker.send` does, to the destination with dots."""
        other = self._dotted(message.destination)
        if other is not message.destination:
            try:
                message = self.formats.format(message.format_id).readdressed(message, other, False)
            except ProtocolError as error:
                raise MessageFormatError(f"a message cannot be given the address {other}: {error}") from None
        return super().send(state, message, transaction_id, token, now)


def dotted(destination: Destination, separator: str) -> Destination:
    """Return ``destination`` with dots in place of ``separator``.

    Empty parts and blanks around parts are dropped. Temporary destinations keep their names.

    Raises:
        InvalidDestinationError: nothing is left of a name.
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
