"""The OpenWire provider."""

from __future__ import annotations

import contextlib
from typing import Final

from spanwire.bridges.model.definition import Source, Target
from spanwire.bridges.model.provider_description import ProviderDescription
from spanwire.bridges.ports import LocalTransaction, MessageSource, MessageTarget, XaSource, XaTarget
from spanwire.bridges.providers.openwire.connecting import bridge_url, close, connect
from spanwire.bridges.providers.openwire.durable_sources import DurableSource, shared_connection
from spanwire.bridges.providers.openwire.parties import (
    OpenWireSource,
    OpenWireTarget,
    OpenWireTransaction,
)
from spanwire.bridges.providers.openwire.source_consumer import SourceConsumer
from spanwire.bridges.providers.openwire.xa_parties import OpenWireXaSource, OpenWireXaTarget
from spanwire.model.errors import ConfigurationError, JmsError

DESCRIPTION: Final = ProviderDescription(
    name="openwire",
    local_transactions=True,
    xa=True,
    cannot_cross=(
        "JMSMessageID and JMSTimestamp are new at the target; addMessageIDInHeader keeps the id",
        "JMSRedelivered and JMSXDeliveryCount begin anew",
        "a temporary JMSReplyTo is removed, because it exists at the source's broker alone",
        "JMSXUserID is that of the bridge, if the target's broker sets it",
        "the file of a blob message stays where it is; the message arrives without body",
    ),
)


class OpenWireProvider:
    """Opens sources, targets and transactions at ActiveMQ Classic, Artemis and Spanwire."""

    def describe(self) -> ProviderDescription:
        """Return the promises of the provider."""
        return DESCRIPTION

    def check_source(self, source: Source) -> None:
        """Raise `ConfigurationError` for a wrong URL, or an invalid durable subscription."""
        bridge_url(source.factory, source.client_id)
        if source.subscription is None:
            return
        if source.destination.is_queue:
            raise ConfigurationError(
                f"subscriptionName is for topics, and {source.destination} is a queue; remove subscriptionName"
            )
        if source.client_id is None:
            raise ConfigurationError("a durable subscription needs a client id; set clientID beside subscriptionName")

    def check_target(self, target: Target) -> None:
        """Raise `ConfigurationError` for a wrong URL or destination."""
        bridge_url(target.factory, None)
        if target.destination.is_pattern:
            raise ConfigurationError(f"{target.destination} is a pattern, and a target is one queue or topic")

    async def open_source(self, source: Source, credit: int) -> MessageSource:
        """Connect and consume; durable subscriptions of one client id share a connection."""
        if source.subscription is not None:
            return await _open_durable_source(source, credit)
        connection = await connect(source.factory, source.client_id)
        try:
            consumer = SourceConsumer(connection, connection.session("client"), source, credit, retains=False)
            await consumer.open()
        except BaseException:
            await close(connection)
            raise
        return OpenWireSource(connection, consumer)

    async def open_target(self, target: Target) -> MessageTarget:
        """Connect and produce."""
        connection = await connect(target.factory)
        try:
            session = connection.session("transacted")
            producer = await session.create_producer(target.destination)
        except BaseException:
            await close(connection)
            raise
        return OpenWireTarget(connection, session, producer)

    async def open_transaction(self, source: Source, target: Target, credit: int) -> LocalTransaction:
        """Connect once, produce and consume."""
        connection = await connect(source.factory, source.client_id)
        try:
            session = connection.session("transacted")
            producer = await session.create_producer(target.destination)
            consumer = SourceConsumer(connection, session, source, credit, retains=True)
            await consumer.open()
        except BaseException:
            await close(connection)
            raise
        return OpenWireTransaction(connection, session, consumer, producer)

    async def open_xa_source(self, source: Source, credit: int) -> XaSource:
        """Connect, and consume at the first receive."""
        connection = await connect(source.factory, source.client_id)
        return OpenWireXaSource(connection, connection.session("xa"), source, credit)

    async def open_xa_target(self, target: Target) -> XaTarget:
        """Connect and produce."""
        connection = await connect(target.factory)
        try:
            session = connection.session("xa")
            producer = await session.create_producer(target.destination)
        except BaseException:
            await close(connection)
            raise
        return OpenWireXaTarget(connection, session, producer)


async def _open_durable_source(source: Source, credit: int) -> MessageSource:
    shared = shared_connection(source.factory, source.client_id)
    try:
        connection = await shared.opened()
        session = connection.session("client")
        try:
            consumer = SourceConsumer(connection, session, source, shared.share_of(credit), retains=False)
            await consumer.open()
        except BaseException:
            with contextlib.suppress(JmsError):
                await session.close()
            raise
    except BaseException:
        await shared.release()
        raise
    return DurableSource(connection, session, consumer, shared)
