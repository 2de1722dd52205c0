"""Destinations that the pipeline reads and writes, checked before anything is connected."""

from __future__ import annotations

from typing import Final

from spanwire.model.destination import QUEUE, SCHEMES, TOPIC, Destination
from spanwire.model.errors import ConfigurationError, InvalidDestinationError
from spanwire.model.written_destination import written_destination

ADVISORIES: Final = "ActiveMQ.Advisory."  # topics on which a broker tells about itself, to whoever is there
MAX_PRIORITY: Final = 9  # JMS 1.1, section 3.4.10


def source_named(name: str, subscription: str | None, client_id: str | None, is_durable: bool = True) -> Destination:
    """What is read: a queue, a pattern of queues, several queues, a topic with or without a durable subscription, or
    advisories.

    Raises `ConfigurationError` for anything else.
    """
    found = _permanent(name)
    is_advisory = found.name.startswith(ADVISORIES)  # brokers refuse durable subscriptions there
    if found.kind == TOPIC and is_durable and not is_advisory and (subscription is None or client_id is None):
        raise ConfigurationError(
            f"spanwire: {found} keeps messages for a durable subscription only: set the options subscription and "
            f"clientId, or read the queue of a virtual topic ({SCHEMES[QUEUE]}Consumer.<group>.VirtualTopic.<topic>); "
            "with subscriptionDurable=false a stream gets what is sent while it is connected"
        )
    if found.kind == TOPIC and not is_durable and subscription is not None:
        raise ConfigurationError(
            f"spanwire: the subscription {subscription[:60]!r} has a name, so it is durable; leave out either the "
            "option subscription or subscriptionDurable"
        )
    if found.kind == QUEUE and subscription is not None:
        raise ConfigurationError(f"spanwire: {found} is a queue; the option subscription is for topics")
    if is_advisory and found.kind == TOPIC and subscription is not None:
        raise ConfigurationError(f"spanwire: {found} has no durable subscriptions; leave the option subscription out")
    for part in _parts(found):
        if part.kind != found.kind or (part.kind == TOPIC and found.is_composite):
            raise ConfigurationError(f"spanwire: {found} joins what one consumer cannot read; use one query for each")
    return found


def target_named(name: str) -> Destination:
    """The queue or topic to send to. Raises `ConfigurationError` for anything else."""
    found = _permanent(name)
    if found.is_pattern or found.is_composite:
        raise ConfigurationError(f"spanwire: {found} names more than one destination; write to each of them")
    return found


def _permanent(name: str) -> Destination:
    try:
        found = written_destination(name)
    except InvalidDestinationError as error:
        raise ConfigurationError(f"spanwire: {error}") from None
    if found.is_temporary:
        raise ConfigurationError(f"spanwire: {found} ends with its connection; use a queue or topic that stays")
    return found


def _parts(found: Destination) -> list[Destination]:
    try:
        return found.parts()
    except InvalidDestinationError as error:
        raise ConfigurationError(f"spanwire: {error}") from None
