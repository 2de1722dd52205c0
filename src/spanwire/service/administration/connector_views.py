"""Views of network connectors for an operator, with the attribute names of ``activemq.xml``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from spanwire.broker.broker import Broker
    from spanwire.network.bridge.bridge_statistics import LinkCounts
    from spanwire.network.bridge.duplex_bridge import AcceptedLink, DuplexBridge
    from spanwire.network.connector.link import NetworkConnectorSettings, RemoteAddress
    from spanwire.network.connector.network_connector import NetworkConnector
    from spanwire.network.demand.bridge_settings import BridgeSettings
    from spanwire.tls.settings import ClientTlsSettings

REMOVED: Final = "removed"  # the state of a link in the answer to its connector's removal
ADDED: Final = "added"  # the state of a connector that has not found a broker to link to yet
COMES_BACK: Final = "comes back at the next start, for the configuration has it: remove it there, too"
HIDDEN: Final = "********"  # replaces a password
View = dict[str, object]


def connector_view(settings: NetworkConnectorSettings) -> View:
    """Return all settings of a connector of the broker, with hidden passwords."""
    tls = _tls(settings)
    return {
        **bridge_view(settings.bridge),
        "uri": uri_of(settings),
        "autoStart": settings.auto_start,
        "sendLoginToDiscovered": settings.discovery is not None and settings.discovery.sends_login,
        "sslContext": None if tls is None else _tls_view(tls),
        "initialReconnectDelay": settings.reconnect.initial_delay_ms,
        "maxReconnectDelay": settings.reconnect.max_delay_ms,
        "maxReconnectAttempts": settings.reconnect.max_attempts,
        "useExponentialBackOff": settings.reconnect.exponential,
        "backOffMultiplier": settings.reconnect.multiplier,
        "minConnectTime": settings.reconnect.min_connect_ms,
    }


def accepted_settings_view(bridge: DuplexBridge) -> View:
    """Return the settings of another broker's duplex connector, as far as received on the link."""
    return {**bridge_view(bridge.settings), "uri": bridge.forwarder.local.client.info.remote_address, "autoStart": None}


def bridge_view(settings: BridgeSettings) -> View:
    """Return the common settings of all bridges."""
    return {
        "name": settings.name,
        "networkTTL": settings.message_ttl if settings.message_ttl == settings.consumer_ttl else None,
        "messageTTL": settings.message_ttl,
        "consumerTTL": settings.consumer_ttl,
        "conduitSubscriptions": settings.conduit,
        "conduitNetworkQueueSubscriptions": settings.conduit_network_queues,
        "decreaseNetworkConsumerPriority": settings.decrease_priority,
        "consumerPriorityBase": settings.priority_base,
        "prefetchSize": settings.prefetch_size,
        "alwaysSyncSend": settings.always_sync_send,
        "bridgeTempDestinations": settings.bridge_temporary,
        "userName": settings.user_name,
        "password": None if settings.password is None else HIDDEN,
        "remoteUserName": settings.remote_user_name,
        "remotePassword": None if settings.remote_password is None else HIDDEN,
        "excludedDestinations": [destination.qualified_name for destination in settings.excluded],
        "dynamicallyIncludedDestinations": [
            destination.qualified_name + ("?forceDurable=true" if destination in settings.forced_durable else "")
            for destination in settings.included
        ],
        "staticallyIncludedDestinations": [destination.qualified_name for destination in settings.static],
        "staticBridge": settings.static_bridge,
        "destinationFilter": settings.advisory_filter,
        "advisoryTopics": settings.advisory_topics(),
        "dynamicOnly": settings.dynamic_only,
        "syncDurableSubs": settings.sync_durable,
        "useVirtualDestSubs": settings.virtual_demand,
        "duplex": settings.duplex,
        "suppressDuplicateQueueSubscriptions": settings.suppress_queue_duplicates,
        "suppressDuplicateTopicSubscriptions": settings.suppress_topic_duplicates,
        "checkDuplicateMessagesOnDuplex": settings.check_duplicates,
        "advisoryForFailedForward": settings.tells_failures,
        "useCompression": settings.compresses,
        "clientIdToken": settings.client_id_token,
    }


def uri_of(settings: NetworkConnectorSettings) -> str:
    """Return the URI of a connector without options."""
    if settings.discovery is not None:
        return settings.discovery.uri
    return f"static:({','.join(_address(remote) for remote in settings.remotes)})"


def _address(remote: RemoteAddress) -> str:
    if not remote.others:
        return remote.uri
    return f"failover:({','.join(address.uri for address in (remote, *remote.others))})"


def _tls(settings: NetworkConnectorSettings) -> ClientTlsSettings | None:
    if settings.discovery is not None:
        return settings.discovery.tls
    addresses = [address for remote in settings.remotes for address in (remote, *remote.others)]
    return next((address.tls for address in addresses if address.tls is not None), None)


def _tls_view(tls: ClientTlsSettings) -> View:
    return {
        "trustStore": None if tls.trust_store is None else str(tls.trust_store.path),
        "keyStore": None if tls.key_store is None else str(tls.key_store.path),
        "verifyHostName": tls.verify_host_name,
    }


def course_view(connector: NetworkConnector) -> dict[str, object]:
    """Return the times of start and stop of a connector, and the failures of its links."""
    failures = connector.failures()
    return {
        "started_ms": connector.started_ms,
        "stopped_ms": connector.stopped_ms,
        "attempts_failed": failures.attempts,
        "local_failures": failures.local,
        "remote_failures": failures.breaks + sum(view.failed for view in connector.views()),
    }


def count_rows(connectors: Iterable[NetworkConnector], accepted: Iterable[AcceptedLink], now: float) -> Iterator[View]:
    """Yield the messages of each link by direction and destination; connectors may come or go meanwhile."""
    waiting = list(accepted)
    for connector in list(connectors):
        for view, counts in connector.counts():
            link: View = {"name": view.name, "uri": view.uri, "remote": view.remote, "accepted": False}
            yield from link_counts_rows(link, counts, now)
    for one in waiting:
        link = {"name": one.name, "uri": one.address, "remote": one.remote_name, "accepted": True}
        yield from link_counts_rows(link, one.counts, now)


def link_counts_rows(link: dict[str, object], counts: LinkCounts, monotonic: float) -> Iterator[dict[str, object]]:
    """Yield the counts of one link as rows."""
    age_s = max(1.0, monotonic - counts.began)
    for direction, destination, messages in counts.rows():
        rate = round(messages / age_s, 3)
        yield {**link, "direction": direction, "destination": destination, "messages": messages, "rate": rate}


def is_setting(value: object) -> bool:
    """Return True for a value that an operator may give an attribute or list of a connector."""
    return isinstance(value, str) or (isinstance(value, list) and all(isinstance(one, str) for one in value))


def answer_rows(connector: NetworkConnector, state: str = "", note: str = "") -> list[View]:
    """Return the answer about an added or removed connector: a row for each link, at least one row.

    Args:
        connector: the connector, which has no link until it finds a broker.
        state: stands in place of the states of the links, unless "".
        note: what the operator should know, unless "".
    """
    settings = connector.settings
    views: list[View] = [asdict(view) for view in connector.views()]
    rows = views or [{"name": settings.bridge.name, "uri": uri_of(settings), "state": ADDED}]
    more = {"state": state} if state else {}
    return [{**row, **more, **({"note": note} if note else {})} for row in rows]


def durable_topics(broker: Broker | None, settings: BridgeSettings) -> list[str]:
    """Return the topics of stored durable subscriptions of a connector's bridges."""
    if broker is None:
        return []
    start = settings.name + settings.client_id_token
    end = settings.client_id_token.join(("", "inbound", broker.name))
    topics = {
        subscription.topic.qualified_name
        for subscription in broker.operations.durable_terms()
        if subscription.client_id.startswith(start) and subscription.client_id.endswith(end)
    }
    return sorted(topics)
