"""The Kafka provider."""

from __future__ import annotations

import re
from typing import Final

from spanwire.bridges.model.definition import Source, Target
from spanwire.bridges.model.provider_description import ProviderDescription
from spanwire.bridges.ports import LocalTransaction, MessageSource, MessageTarget, RefusingProvider
from spanwire.bridges.providers.kafka.connecting import address_of
from spanwire.bridges.providers.kafka.parties import (
    KafkaReceiver,
    KafkaSender,
    KafkaSource,
    KafkaTarget,
    KafkaTransaction,
    own_transaction,
)
from spanwire.model.destination import Destination
from spanwire.model.errors import ConfigurationError

DESCRIPTION: Final = ProviderDescription(
    name="kafka",
    local_transactions=True,
    xa=False,
    cannot_cross=(
        "all properties become strings, and a property of bytes is left out",
        "maps and streams cross as JSON, which has no types of numbers and no octets",
        "a message keeps its order only within a partition; messages of a group have one",
        "Kafka neither deletes expired messages one by one, nor prefers higher priorities",
        "JMSRedelivered is always false, because Kafka counts no deliveries",
    ),
    selectors=False,
    replies=False,
)
NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,249}")


class KafkaProvider(RefusingProvider):
    """Opens sources, targets and transactions at a cluster of Apache Kafka."""

    def describe(self) -> ProviderDescription:
        """Return the promises of the provider."""
        return DESCRIPTION

    def check_source(self, source: Source) -> None:
        """Raise `ConfigurationError` for a wrong URL or topic, or without a consumer group."""
        address_of(source.factory)
        check_topic(source.destination)
        if source.subscription is None:
            raise ConfigurationError("a source in Kafka needs a consumer group; set subscriptionName to its name")

    def check_target(self, target: Target) -> None:
        """Raise `ConfigurationError` for a wrong URL or topic."""
        address_of(target.factory)
        check_topic(target.destination)

    async def open_source(self, source: Source, credit: int) -> MessageSource:
        """Join the consumer group."""
        return KafkaSource(source, await _receiver(source, credit))

    async def open_target(self, target: Target) -> MessageTarget:
        """Connect a producer."""
        return KafkaTarget(await _sender(target, own_transaction(), None))

    async def open_transaction(self, source: Source, target: Target, credit: int) -> LocalTransaction:
        """Connect a producer, fence an earlier producer of the group, and join the group."""
        name = f"spanwire-{source.subscription}-{source.destination.name}"
        sender = await _sender(target, name, source.client_id)
        try:
            receiver = await _receiver(source, credit)
        except BaseException:
            await sender.close()
            raise
        return KafkaTransaction(source, receiver, sender)


async def _receiver(source: Source, credit: int) -> KafkaReceiver:
    receiver = KafkaReceiver(source, credit)
    try:
        await receiver.start()
    except BaseException:
        await receiver.close()
        raise
    return receiver


async def _sender(target: Target, transaction: str, client_id: str | None) -> KafkaSender:
    sender = KafkaSender(target, transaction, client_id)
    try:
        await sender.start()
        await sender.find_topic()
    except BaseException:
        await sender.close()
        raise
    return sender


def check_topic(destination: Destination) -> None:
    """Raise `ConfigurationError` for a queue, or a name that no topic of Kafka can have."""
    if destination.is_queue:
        raise ConfigurationError(
            f"Kafka has topics alone, and {destination} is a queue; write topic://{destination.name}"
        )
    if NAME.fullmatch(destination.name) is None:
        raise ConfigurationError(
            f"{destination} is no name of a topic of Kafka, which has up to 249 letters, digits, dots, dashes and _"
        )
