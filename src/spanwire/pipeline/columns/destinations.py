"""Destinations that the pipeline reads and writes, checked before a connection is opened."""

from __future__ import annotations

from typing import Final

from spanwire.model.destination import QUEUE, SCHEMES, TOPIC, Destination
from spanwire.model.errors import ConfigurationError, InvalidDestinationError
from spanwire.model.written_destination import written_destination

ADVISORIES: Final = "ActiveMQ.Advisory."  # prefix of advisory topics
MAX_PRIORITY: Final = 9  # JMS 1.1, section 3.4.10


def source_destination(
    name: str, subscription: str | None, client_id: str | None, is_durable: bool = True
) -> Destination:
    """Return the destination of a reader.

    Allowed are a queue, a pattern of queues, several queues, a topic with or without durable subscription, and
    advisories.

    Raises:
        ConfigurationError: the name is another destination, or needs other options.
    """
    destination = _permanent_destination(name)
    is_advisory = destination.name.startswith(ADVISORIES)  # brokers refuse durable subscriptions to advisories
    if destination.kind == TOPIC and is_durable and not is_advisory and (subscription is None or client_id is None):
        raise ConfigurationError(
            f"spanwire: {destination} keeps messages for a durable subscription only: set the options subscription and "
            f"clientId, or read the queue of a virtual topic ({SCHEMES[QUEUE]}Consumer.<group>.VirtualTopic.<topic>); "
            "with subscriptionDurable=false a stream gets what is sent while it is connected"
        )
    if destination.kind == TOPIC and not is_durable and subscription is not None:
        raise ConfigurationError(
            f"spanwire: the subscription {subscription[:60]!r} has a name, so it is durable; leave out either the "
            "option subscription or subscriptionDurable"
        )
    if destination.kind == QUEUE and subscription is not None:
        raise ConfigurationError(f"spanwire: {destination} is a queue; the option subscription is for topics")
    if is_advisory and destination.kind == TOPIC and subscription is not None:
        raise ConfigurationError(
            f"spanwire: {destination} has no durable subscriptions; leave the option subscription out"
        )
    for part in _parts(destination):
        if part.kind != destination.kind or (part.kind == TOPIC and destination.is_composite):
            raise ConfigurationError(
                f"spanwire: {destination} combines destinations that one consumer cannot read; use one query for each"
            )
    return destination


def target_destination(name: str) -> Destination:
    """Return the queue or topic of a writer.

    Raises:
        ConfigurationError: the name is a pattern, a list, temporary or invalid.
    """
    destination = _permanent_destination(name)
    if destination.is_pattern or destination.is_composite:
        raise ConfigurationError(f"spanwire: {destination} names more than one destination; write to each of them")
    return destination


def _permanent_destination(name: str) -> Destination:
    try:
        destination = written_destination(name)
    except InvalidDestinationError as error:
        raise ConfigurationError(f"spanwire: {error}") from None
    if destination.is_temporary:
        raise ConfigurationError(
            f"spanwire: {destination} is temporary and ends with its connection; use a permanent queue or topic"
        )
    return destination


def _parts(destination: Destination) -> list[Destination]:
    try:
        return destination.parts()
    except InvalidDestinationError as error:
        raise ConfigurationError(f"spanwire: {error}") from None
