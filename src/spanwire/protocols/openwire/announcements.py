"""Converts OpenWire's announcements of producers and consumers to the model."""

from __future__ import annotations

from spanwire.model.info import ConsumerInfo, ProducerInfo
from spanwire.model.routing import NetworkFilter
from spanwire.protocols.openwire.codec import _marshallers as wire
from spanwire.protocols.openwire.messages.identities import consumer_id_of, destination_of, producer_id_of


def producer_info_of(command: wire.ProducerInfo) -> ProducerInfo:
    """Return a producer's announcement; without a destination, each message names its destination."""
    destination = None if command.destination is None else destination_of(command.destination)
    return ProducerInfo(producer_id_of(command.producer_id), destination, max(command.window_size, 0))


def consumer_info_of(
    command: wire.ConsumerInfo, client_id: str | None, horizon: NetworkFilter | None = None
) -> ConsumerInfo:
    """Return a consumer's announcement.

    ``client_id`` is the connection's client id, because the client id inside a command proves nothing. A bridge's
    listener of advisories receives only advisories within the ``horizon``.
    """
    destination = destination_of(command.destination)
    return ConsumerInfo(
        consumer_id=consumer_id_of(command.consumer_id),
        destination=destination,
        prefetch_size=command.prefetch_size,
        selector=command.selector,
        subscription_name=command.subscription_name,
        client_id=client_id,
        browser=command.browser,
        no_local=command.no_local,
        exclusive=command.exclusive,
        retroactive=command.retroactive,
        priority=command.priority,
        maximum_pending_messages=max(command.maximum_pending_message_limit, 0),
        network_filter=horizon if destination.is_advisory else None,
    )
