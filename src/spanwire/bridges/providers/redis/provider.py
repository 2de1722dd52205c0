"""The Redis provider."""

from __future__ import annotations

from typing import Final, TypeVar

from spanwire.bridges.model.definition import Source, Target
from spanwire.bridges.model.provider_description import MAX_CREDIT, ProviderDescription
from spanwire.bridges.ports import MessageSource, MessageTarget, RefusingProvider
from spanwire.bridges.providers.redis.connection import address_of
from spanwire.bridges.providers.redis.parties import RedisSource, RedisTarget
from spanwire.model.destination import Destination
from spanwire.model.errors import ConfigurationError

End = TypeVar("End", RedisSource, RedisTarget)

DESCRIPTION: Final = ProviderDescription(
    name="redis",
    local_transactions=False,
    xa=False,
    cannot_cross=(
        "all properties become strings, and a property of bytes is left out",
        "maps and streams cross as JSON, which has no types of numbers and no octets",
        "the delivery mode is not kept",
        "the time to live is a field alone, because a stream keeps its entries",
    ),
    selectors=False,
    replies=False,
    largest_batch=MAX_CREDIT,
)


class RedisProvider(RefusingProvider):
    """Opens sources and targets at streams of Redis."""

    def describe(self) -> ProviderDescription:
        """Return the promises of the provider."""
        return DESCRIPTION

    def check_source(self, source: Source) -> None:
        """Raise `ConfigurationError` for a wrong URL, a queue, or a source without a consumer group."""
        address_of(source.factory)
        check_stream(source.destination)
        if source.subscription is None:
            raise ConfigurationError(f"{source.destination} needs a consumer group; set subscriptionName")
        if source.client_id is not None:
            raise ConfigurationError("Redis has no client ids; remove clientID: subscriptionName names the group")

    def check_target(self, target: Target) -> None:
        """Raise `ConfigurationError` for a wrong URL, or a queue."""
        address_of(target.factory)
        check_stream(target.destination)

    async def open_source(self, source: Source, credit: int) -> MessageSource:
        """Connect and read."""
        return await opened(RedisSource(source, credit))

    async def open_target(self, target: Target) -> MessageTarget:
        """Connect."""
        return await opened(RedisTarget(target))


async def opened(end: End) -> End:
    """Open an end, or close it after an error."""
    try:
        await end.open()
    except BaseException:
        await end.close()
        raise
    return end


def check_stream(destination: Destination) -> None:
    """Raise `ConfigurationError` for a queue."""
    if destination.is_queue:
        raise ConfigurationError(
            f"a bridge uses streams of Redis, and {destination} is a queue; write topic://{destination.name}"
        )
