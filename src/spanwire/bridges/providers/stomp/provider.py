"""The STOMP provider."""

from __future__ import annotations

from functools import partial
from typing import Final

from spanwire.bridges.model.definition import Source, Target
from spanwire.bridges.model.provider_description import MAX_CREDIT, ProviderDescription
from spanwire.bridges.ports import LocalTransaction, MessageSource, MessageTarget, RefusingProvider
from spanwire.bridges.providers.addresses import Scheme, context_of, place_of
from spanwire.bridges.providers.stomp.connection import StompConnection, connect
from spanwire.bridges.providers.stomp.parties import StompSource, StompTarget, StompTransaction
from spanwire.bridges.providers.stomp.receiver import StompReceiver
from spanwire.model.errors import ConfigurationError, JmsError

SCHEMES: Final = {"stomp": Scheme(61613, False), "stomp+ssl": Scheme(61614, True)}
DESCRIPTION: Final = ProviderDescription(
    name="stomp",
    local_transactions=True,
    xa=False,
    cannot_cross=(
        "all properties become strings, and a property of bytes is left out",
        "a property with the name of a STOMP header is left out",
        "JMSXGroupID does not leave ActiveMQ over STOMP",
        "streams and Java objects become dead letters; from a source they arrive as empty texts",
        "a text with a NUL character arrives from a source as bytes",
        "maps cross as JSON; from a broker without the transformation jms-map-json they arrive as empty texts",
        "JMSMessageID and JMSTimestamp are new at the target; addMessageIDInHeader keeps the id",
    ),
    replies=False,
    atomic_batches=False,  # at RabbitMQ
    largest_batch=MAX_CREDIT,
)


class StompProvider(RefusingProvider):
    """Opens sources, targets and transactions at ActiveMQ Classic, Artemis, Spanwire and RabbitMQ."""

    def describe(self) -> ProviderDescription:
        """Return the promises of the provider."""
        return DESCRIPTION

    def check_source(self, source: Source) -> None:
        """Raise `ConfigurationError` for a wrong URL, or an invalid durable subscription."""
        place_of(source.factory, SCHEMES)
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
        place_of(target.factory, SCHEMES)
        if target.destination.is_pattern:
            raise ConfigurationError(f"{target.destination} is a pattern, and a target is one queue or topic")

    async def open_source(self, source: Source, credit: int) -> MessageSource:
        """Connect and subscribe."""
        return StompSource(await _subscribe(source, credit))

    async def open_target(self, target: Target) -> MessageTarget:
        """Connect."""
        return StompTarget(await _connect(target), target.destination)

    async def open_transaction(self, source: Source, target: Target, credit: int) -> LocalTransaction:
        """Connect once, and subscribe."""
        receiver = await _subscribe(source, credit)
        if receiver.connection.is_rabbit:
            await receiver.close()
            raise ConfigurationError(
                "RabbitMQ has no transactions that survive a crash, which ONCE_AND_ONLY_ONCE needs; use DUPLICATES_OK"
            )
        return StompTransaction(receiver, target.destination)


async def _connect(end: Source | Target) -> StompConnection:
    place = place_of(end.factory, SCHEMES)
    client_id = end.client_id if isinstance(end, Source) else None
    return await connect(place, context_of(end.factory, place), client_id)


async def _subscribe(source: Source, credit: int) -> StompReceiver:
    """Connect and subscribe, with maps as JSON if the broker can.

    ActiveMQ Classic without the library XStream closes the connection of a subscription that asks for JSON.
    """
    for asks_for_maps in (True, False):
        connection = await _connect(source)
        receiver = StompReceiver(connection, source, credit, partial(_connect, source))
        try:
            await receiver.subscribe(asks_for_maps)
            return receiver
        except BaseException as error:
            await connection.close()
            if not isinstance(error, JmsError) or connection.is_rabbit or not asks_for_maps:
                raise
    raise AssertionError("the second attempt returns or raises")
