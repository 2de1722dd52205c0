"""The SQS provider."""

from __future__ import annotations

import re
from typing import Final, TypeVar

from spanwire.bridges.model.definition import Source, Target
from spanwire.bridges.model.provider_description import MAX_CREDIT, ProviderDescription
from spanwire.bridges.ports import MessageSource, MessageTarget, RefusingProvider
from spanwire.bridges.providers.sqs.connection import address_of
from spanwire.bridges.providers.sqs.parties import SqsSource, SqsTarget, dead_letters_of
from spanwire.model.destination import Destination
from spanwire.model.errors import ConfigurationError

End = TypeVar("End", SqsSource, SqsTarget)

DESCRIPTION: Final = ProviderDescription(
    name="sqs",
    local_transactions=False,
    xa=False,
    cannot_cross=(
        "all properties become strings, and a property of bytes is left out",
        "maps and streams cross as JSON, which has no types of numbers and no octets",
        "the delivery mode is not kept",
        "the time to live is an attribute alone, because the queue has a retention of its own",
    ),
    selectors=False,
    replies=False,
    atomic_batches=False,
    largest_batch=MAX_CREDIT,
)
MAX_NAME: Final = 80  # characters of the name of a queue
NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,80}|[A-Za-z0-9_-]{1,75}\.fifo")


class SqsProvider(RefusingProvider):
    """Opens sources and targets at queues of SQS."""

    def describe(self) -> ProviderDescription:
        """Return the promises of the provider."""
        return DESCRIPTION

    def check_source(self, source: Source) -> None:
        """Raise `ConfigurationError` for a wrong URL, a topic, or a subscription."""
        address_of(source.factory)
        check_queue(source.destination)
        if source.subscription is not None or source.client_id is not None:
            raise ConfigurationError("SQS has no subscriptions; remove subscriptionName and clientID")
        dead = dead_letters_of(source.destination.name)
        if len(dead) > MAX_NAME:
            raise ConfigurationError(
                f"{source.destination} is too long for a source: its dead letters would be in {dead}, and SQS takes "
                f"{MAX_NAME} characters; take a queue with a shorter name"
            )

    def check_target(self, target: Target) -> None:
        """Raise `ConfigurationError` for a wrong URL, or a topic."""
        address_of(target.factory)
        check_queue(target.destination)

    async def open_source(self, source: Source, credit: int) -> MessageSource:
        """Connect and receive."""
        return await opened(SqsSource(source, credit))

    async def open_target(self, target: Target) -> MessageTarget:
        """Connect."""
        return await opened(SqsTarget(target))


async def opened(end: End) -> End:
    """Open an end, or close it after an error."""
    try:
        await end.open()
    except BaseException:
        await end.close()
        raise
    return end


def check_queue(destination: Destination) -> None:
    """Raise `ConfigurationError` for a topic, or a name that no queue of SQS can have."""
    if not destination.is_queue:
        raise ConfigurationError(
            f"SQS has queues alone, and {destination} is a topic; write queue://{destination.name}"
        )
    if NAME.fullmatch(destination.name) is None:
        raise ConfigurationError(
            f"{destination} is no name of a queue of SQS, which has up to 80 letters, digits, -, _ and .fifo"
        )
