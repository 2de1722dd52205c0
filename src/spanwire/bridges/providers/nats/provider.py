"""The NATS providers: JetStream, which acknowledges, and core NATS, which does not."""

from __future__ import annotations

import re
from typing import Final, TypeVar

from spanwire.bridges.model.definition import Source, Target
from spanwire.bridges.model.provider_description import MAX_CREDIT, ProviderDescription
from spanwire.bridges.ports import MessageSource, MessageTarget, RefusingProvider
from spanwire.bridges.providers.nats.connecting import address_of, check_subject
from spanwire.bridges.providers.nats.core_nats import CoreSource, CoreTarget
from spanwire.bridges.providers.nats.jetstream import NatsSource, NatsTarget
from spanwire.model.errors import ConfigurationError

End = TypeVar("End", NatsSource, NatsTarget, CoreSource, CoreTarget)

CANNOT_CROSS: Final = (
    "all properties become strings, and a property of bytes is left out",
    "a property whose name begins with Nats- is left out, because it would be a command to the server",
    "maps and streams cross as JSON, which has no types of numbers and no octets",
    "the delivery mode is not kept",
    "the time to live is a header alone, because the stream keeps messages by its own limits",
)
DESCRIPTION: Final = ProviderDescription(
    name="nats",
    local_transactions=False,
    xa=False,
    cannot_cross=CANNOT_CROSS,
    selectors=False,
    replies=False,
    atomic_batches=False,
    largest_batch=MAX_CREDIT,
)
CORE_DESCRIPTION: Final = ProviderDescription(
    name="nats-core",
    local_transactions=False,
    xa=False,
    cannot_cross=CANNOT_CROSS,
    selectors=False,
    replies=False,
    atomic_batches=False,
    largest_batch=MAX_CREDIT,
    acknowledgements=False,
)
CONSUMER: Final = re.compile(r"[A-Za-z0-9_-]{1,255}")  # names that every server takes


class NatsProvider(RefusingProvider):
    """Opens sources and targets at streams of JetStream."""

    def describe(self) -> ProviderDescription:
        """Return the promises of the provider."""
        return DESCRIPTION

    def check_source(self, source: Source) -> None:
        """Raise `ConfigurationError` for a wrong URL, a queue, or an invalid durable consumer."""
        address_of(source.factory)
        check_subject(source.destination, has_wildcards=True)
        check_client_id(source)
        if source.subscription is not None and CONSUMER.fullmatch(source.subscription) is None:
            raise ConfigurationError(
                f"subscriptionName is {source.subscription[:60]!r}, and a durable consumer of NATS has a name of "
                "letters, digits, - and _"
            )

    def check_target(self, target: Target) -> None:
        """Raise `ConfigurationError` for a wrong URL, a queue, or a pattern."""
        address_of(target.factory)
        check_subject(target.destination, has_wildcards=False)

    async def open_source(self, source: Source, credit: int) -> MessageSource:
        """Connect, and find or create the consumer."""
        return await opened(NatsSource(source, credit))

    async def open_target(self, target: Target) -> MessageTarget:
        """Connect, and find the stream."""
        return await opened(NatsTarget(target))


class CoreNatsProvider(NatsProvider):
    """Opens sources and targets at core NATS, for bridges with AT_MOST_ONCE alone."""

    def describe(self) -> ProviderDescription:
        """Return the promises of the provider."""
        return CORE_DESCRIPTION

    def check_source(self, source: Source) -> None:
        """Raise `ConfigurationError` for a wrong URL, a queue, or a durable subscription."""
        address_of(source.factory)
        check_subject(source.destination, has_wildcards=True)
        check_client_id(source)
        if source.subscription is not None:
            raise ConfigurationError(
                "core NATS keeps no messages for a bridge that is away; remove subscriptionName, or use provider nats"
            )

    async def open_source(self, source: Source, credit: int) -> MessageSource:
        """Connect and subscribe."""
        return await opened(CoreSource(source))

    async def open_target(self, target: Target) -> MessageTarget:
        """Connect."""
        return await opened(CoreTarget(target))


async def opened(end: End) -> End:
    """Open an end, or close it after an error."""
    try:
        await end.open()
    except BaseException:
        await end.close()
        raise
    return end


def check_client_id(source: Source) -> None:
    """Raise `ConfigurationError` for a source with a client id."""
    if source.client_id is not None:
        raise ConfigurationError(
            "NATS has no client ids; remove clientID, and subscriptionName alone names a durable consumer"
        )
