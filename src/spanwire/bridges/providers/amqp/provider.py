"""The AMQP 1.0 provider."""

from __future__ import annotations

from typing import Final

from spanwire.bridges.model.definition import Source, Target
from spanwire.bridges.model.provider_description import ProviderDescription
from spanwire.bridges.ports import LocalTransaction, MessageSource, MessageTarget, RefusingProvider
from spanwire.bridges.providers.amqp.connection import address_of, connect
from spanwire.bridges.providers.amqp.coordinator import Coordinator
from spanwire.bridges.providers.amqp.parties import (
    AmqpSource,
    AmqpTarget,
    AmqpTransaction,
    attach_sender,
    open_receiver,
    open_sender,
)
from spanwire.model.errors import ConfigurationError

DESCRIPTION: Final = ProviderDescription(
    name="amqp",
    local_transactions=True,
    xa=False,
    cannot_cross=(
        "a value that is no string, map, list or octets arrives as a stream with this value",
        "unsigned numbers arrive in the next larger type, decimals as octets",
        "annotations of other programs, delivery annotations and the footer are lost",
        "a property with a map or list becomes a text with JSON",
        "a JMSReplyTo that only one connection reaches is removed",
        "JMSMessageID is the broker's own at the target if it is no OpenWire id; addMessageIDInHeader keeps the id",
    ),
    replies=False,
    atomic_batches=False,
)


class AmqpProvider(RefusingProvider):
    """Opens sources, targets and transactions at brokers of AMQP 1.0."""

    def describe(self) -> ProviderDescription:
        """Return the promises of the provider."""
        return DESCRIPTION

    def check_source(self, source: Source) -> None:
        """Raise `ConfigurationError` for a wrong URL, or an invalid durable subscription."""
        address_of(source.factory)
        if source.subscription is None:
            return
        if source.destination.is_queue:
            raise ConfigurationError(
                f"subscriptionName is for topics, and {source.destination} is a queue; remove subscriptionName"
            )
        if source.client_id is None:
            raise ConfigurationError("a durable subscription needs a client id; set clientID beside subscriptionName")

    def check_target(self, target: Target) -> None:
        """Raise `ConfigurationError` for a wrong URL."""
        address_of(target.factory)

    async def open_source(self, source: Source, credit: int) -> MessageSource:
        """Connect and consume."""
        connection = await connect(source.factory, source.client_id)
        try:
            coordinator = None if connection.peer.is_rabbit else Coordinator(connection)
            if coordinator is not None:
                await coordinator.attach()
            return AmqpSource(await open_receiver(connection, source, credit), coordinator)
        except BaseException:
            await connection.close()
            raise

    async def open_target(self, target: Target) -> MessageTarget:
        """Connect, and attach to the queue or topic."""
        connection, link = await open_sender(target.factory, target.destination)
        return AmqpTarget(connection, target, link)

    async def open_transaction(self, source: Source, target: Target, credit: int) -> LocalTransaction:
        """Connect once, consume and produce."""
        connection = await connect(source.factory, source.client_id)
        try:
            if connection.peer.is_rabbit:
                raise ConfigurationError(
                    "RabbitMQ has no transactions over AMQP 1.0, which ONCE_AND_ONLY_ONCE needs; use DUPLICATES_OK"
                )
            coordinator = Coordinator(connection)
            await coordinator.attach()
            sender = await attach_sender(connection, target.destination, creates=False)
            receiver = await open_receiver(connection, source, credit)
            return AmqpTransaction(receiver, target, sender, coordinator)
        except BaseException:
            await connection.close()
            raise
