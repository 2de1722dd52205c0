"""The AMQP 0-9-1 provider."""

from __future__ import annotations

from typing import Final

from pamqp.constants import DOMAIN_REGEX

from spanwire.bridges.model.definition import ConnectionFactory, Source, Target
from spanwire.bridges.model.provider_description import MAX_CREDIT, ProviderDescription
from spanwire.bridges.ports import MessageSource, MessageTarget, RefusingProvider
from spanwire.bridges.providers.amqp091.connecting import EXCHANGE, address_of, close, connect, translated
from spanwire.bridges.providers.amqp091.parties import AmqpSource, AmqpTarget
from spanwire.model.destination import Destination
from spanwire.model.errors import ConfigurationError

DESCRIPTION: Final = ProviderDescription(
    name="amqp091",
    local_transactions=False,
    xa=False,
    cannot_cross=(
        "numbers arrive as int, or as long if they need it; a double becomes a string",
        "maps and streams cross as JSON, which has no types of numbers and no octets",
        "a JMSReplyTo that only one connection reaches is removed",
        "JMSTimestamp has whole seconds",
        "a header of the type decimal or timestamp arrives as a string or a long",
    ),
    selectors=False,
    replies=False,
    atomic_batches=False,
    largest_batch=MAX_CREDIT,
)


class Amqp091Provider(RefusingProvider):
    """Opens sources and targets at RabbitMQ."""

    def describe(self) -> ProviderDescription:
        """Return the promises of the provider."""
        return DESCRIPTION

    def check_source(self, source: Source) -> None:
        """Raise `ConfigurationError` for a wrong URL or name, or an invalid durable subscription."""
        address_of(source.factory)
        if source.subscription is not None and source.destination.is_queue:
            raise ConfigurationError(
                f"subscriptionName is for topics, and {source.destination} is a queue; remove subscriptionName"
            )
        if source.client_id is not None:
            raise ConfigurationError(
                "AMQP 0-9-1 has no client ids; remove clientID, and subscriptionName alone names a durable queue"
            )
        _check_names(source.factory, source.destination, source.subscription)

    def check_target(self, target: Target) -> None:
        """Raise `ConfigurationError` for a wrong URL, or a name that the library cannot send."""
        address_of(target.factory)
        _check_names(target.factory, target.destination, None)

    async def open_source(self, source: Source, credit: int) -> MessageSource:
        """Connect and consume."""
        connection = await connect(source.factory)
        try:
            with translated(address_of(source.factory)):
                channel = await connection.channel(publisher_confirms=False)
            opened = AmqpSource(connection, channel, source, credit)
            await opened.consume()
        except BaseException:
            await close(connection)
            raise
        return opened

    async def open_target(self, target: Target) -> MessageTarget:
        """Connect, and look for the queue or the exchange."""
        connection = await connect(target.factory)
        try:
            with translated(address_of(target.factory)):
                channel = await connection.channel(publisher_confirms=True, on_return_raises=True)
            opened = AmqpTarget(connection, channel, target)
            await opened.prepare()
        except BaseException:
            await close(connection)
            raise
        return opened


def _check_names(factory: ConnectionFactory, destination: Destination, subscription: str | None) -> None:
    """Raise `ConfigurationError` for a queue or exchange whose name the library refuses to send."""
    exchange = address_of(factory).options.get(EXCHANGE)
    for name in (destination.name if destination.is_queue else None, subscription, exchange):
        if name is not None and DOMAIN_REGEX["queue-name"].fullmatch(name) is None:
            raise ConfigurationError(
                f"the library of amqp091 sends names of queues and exchanges with A to Z, digits, spaces and -_.:@#,/+ "
                f"alone, and {name[:100]!r} has others; use the provider amqp"
            )
