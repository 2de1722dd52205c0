"""Descriptions of links by their bridges, for `spanwire.broker.explanation.links`."""

from __future__ import annotations

from typing import Final

from spanwire.broker.explanation.links import LinkDescription
from spanwire.network.bridge.forwarder import Forwarder
from spanwire.network.demand.bridge_settings import BridgeSettings

MAX_REFUSALS: Final = 1_000  # refused messages told of one link; as many as its window has by default


def link_description(
    settings: BridgeSettings,
    forwarder: Forwarder | None,
    remote: str,
    uri: str,
    state: str,
    reason: str,
    since_s: float,
) -> LinkDescription:
    """Return the description of a link in ``state`` for ``since_s`` seconds.

    ``forwarder`` is None while the link is down.
    """
    return LinkDescription(
        name=settings.name,
        remote=remote,
        remote_id="" if forwarder is None else forwarder.remote_id,
        uri=uri,
        state=state,
        reason=reason,
        since_s=since_s,
        message_ttl=settings.message_ttl,
        conduit=settings.conduit,
        excluded=settings.excluded,
        included=settings.let_through,
        destinations=() if forwarder is None else forwarder.local.demand.all_destinations(),
        connection_id="" if forwarder is None else forwarder.local.client.connection_id,
        refusals=() if forwarder is None else tuple(forwarder.refusals(MAX_REFUSALS)),
    )
