"""Attributes of ``broker``, ``transportConnector`` and ``networkConnector``."""

from __future__ import annotations

import re
from typing import Any, Final

from spanwire.broker.destinations.inactive_destinations import NEVER, UpkeepSettings
from spanwire.broker.dispatch.history.departures import MAX_DEPARTURES
from spanwire.broker.dispatch.subscription import MAX_PREFETCH
from spanwire.model.errors import ConfigurationError
from spanwire.model.routing import MAX_PATH, MIN_CONSUMER_PRIORITY
from spanwire.network.demand.bridge_settings import BridgeSettings
from spanwire.service.config.model import BrokerConfiguration, TracingConfiguration, WebConfiguration, WebTls
from spanwire.service.config.tables.attributes import (
    DIRECTORY,
    FLAG,
    MAX_INT,
    TEXT,
    Attribute,
    AttributeTable,
    Kind,
    clamped,
    number,
)
from spanwire.service.config.values.diagnostics import MAX_WORD
from spanwire.service.config.values.values import Settings
from spanwire.tracing.endpoint import check_endpoint
from spanwire.transports.base import ConnectorSettings
from spanwire.transports.published_address import STRATEGIES, PublishedAddress

QUERY: Final = re.compile(r"[!-~]{0,1024}")  # printable ASCII without blanks
MAX_PERIOD_MS: Final = 365 * 24 * 3600 * 1000  # a year
MAX_UNCOMMITTED_COUNT: Final = 10_000_000  # highest maxUncommittedCount; memoryUsage is reached before
MAX_PER_CONNECTION: Final = 100_000  # highest configurable number of consumers or producers
MAX_PRIORITY: Final = 127  # of a consumer; a Java byte
MAX_PORT: Final = 65535
PERIOD: Final = number("milliseconds", NEVER, MAX_PERIOD_MS)
HOPS: Final = clamped("links", -1, MAX_PATH)
COUNT: Final = Kind(
    f"messages, 0 to {MAX_UNCOMMITTED_COUNT}; 0 for the default",
    lambda settings, name, default: settings.number(name, 0, 0, MAX_UNCOMMITTED_COUNT) or default,
)


def read_share(settings: Settings, name: str, default: Any) -> object:
    """Read a share of all."""
    text = settings.text(name) or ""
    try:
        share = float(text)
    except ValueError:
        share = -1.0
    if not 0.0 <= share <= 1.0:
        settings.error_of(name, f" is {text!r}: a share is a number from 0 to 1, such as 0.01")
        return default
    return share


def read_endpoint(settings: Settings, name: str, default: Any) -> object:
    """Read the address of a collector."""
    text = settings.text(name) or ""
    try:
        check_endpoint(text)
    except ConfigurationError as error:
        settings.error_of(name, f" {error}")
        return default
    return text


def read_strategy(settings: Settings, name: str, default: Any) -> object:
    """Read the form of a host, in any case."""
    strategy = (settings.text(name) or "").strip().lower()
    if strategy not in STRATEGIES:
        known = ", ".join(one.upper() for one in STRATEGIES)
        settings.error_of(name, f" is {strategy[:MAX_WORD]!r}, there are {known}")
        return default
    return strategy


def read_query(settings: Settings, name: str, default: Any) -> object:
    """Read the options behind an announced address."""
    query = (settings.text(name) or "").removeprefix("?")
    if QUERY.fullmatch(query) is None:
        settings.error_of(name, " must be options of a URL, such as wireFormat.maxInactivityDuration=5000")
        return default
    return query


BROKER: Final = AttributeTable(
    BrokerConfiguration,
    Attribute("dataDirectory", DIRECTORY, "data_directory", "that of the broker's name"),
    Attribute("dataDirectoryFile", DIRECTORY, "data_directory", "that of the broker's name"),
    Attribute("brokerId", TEXT, "broker_id", "made by the broker"),
    Attribute("advisorySupport", FLAG, "advisory_support"),
    Attribute("anonymousProducerAdvisorySupport", FLAG, "anonymous_producer_advisories"),
    Attribute("deleteAllMessagesOnStartup", FLAG, "delete_all_messages_on_startup"),
    Attribute("allowTempAutoCreationOnSend", FLAG, "temporary_by_send"),
    Attribute("start", FLAG, "start"),
    Attribute("startAsync", FLAG, "start_async"),
    Attribute("maxUncommittedCount", COUNT, "max_uncommitted"),
    Attribute("rememberedDepartures", number("messages", 0, MAX_DEPARTURES), "departures"),
)
UPKEEP: Final = AttributeTable(
    UpkeepSettings,
    Attribute("schedulePeriodForDestinationPurge", number("milliseconds", 0, MAX_INT), "destinations_period_ms"),
    Attribute("maxPurgedDestinationsPerSweep", number("destinations", 0, MAX_INT), "max_removed"),
    Attribute("offlineDurableSubscriberTimeout", PERIOD, "offline_timeout_ms", "never"),
    Attribute("offlineDurableSubscriberTaskSchedule", PERIOD, "offline_check_ms"),
    Attribute("enableMessageExpirationOnActiveDurableSubs", FLAG, "expire_active_durables"),
)
TRANSPORT_CONNECTOR: Final = AttributeTable(
    ConnectorSettings,
    Attribute("maximumConsumersAllowedPerConnection", number("consumers", 1, MAX_PER_CONNECTION), "max_consumers"),
    Attribute("maximumProducersAllowedPerConnection", number("producers", 1, MAX_PER_CONNECTION), "max_producers"),
    Attribute("auditNetworkProducers", FLAG, "audit_makers"),
    Attribute("allowLinkStealing", FLAG, "steals_links"),
    Attribute("updateClusterClients", FLAG, "updates_clients"),
    Attribute("rebalanceClusterClients", FLAG, "rebalances_clients"),
    Attribute("updateClusterClientsOnRemove", FLAG, "updates_on_remove"),
    Attribute("autoStart", FLAG, "auto_start"),
)
PUBLISHED: Final = AttributeTable(
    PublishedAddress,
    Attribute(
        "publishedHostStrategy",
        Kind(" or ".join(f"`{name.upper()}`" for name in STRATEGIES), read_strategy),
        "strategy",
    ),
    Attribute("clusterClientUriQuery", Kind("options of a URL", read_query), "query", "none"),
)
WEB: Final = AttributeTable(
    WebConfiguration,
    Attribute("host", TEXT, "host"),
    Attribute("port", number("0 for a free port", 0, MAX_PORT), "port"),
    Attribute("networkFiles", TEXT, "network_files", "none"),
    Attribute("viewersSeeBodies", FLAG, "viewers_see_bodies"),
)
TRACING: Final = AttributeTable(
    TracingConfiguration,
    Attribute("endpoint", Kind("the base URL of a collector", read_endpoint), "endpoint", "that of the environment"),
    Attribute("samplingRate", Kind("a share, 0 to 1", read_share), "sampling_rate"),
)
WEB_TLS: Final = AttributeTable(
    WebTls,
    Attribute("tls", FLAG, "is_on"),
    Attribute("needClientAuth", FLAG, "needs_certificate"),
    Attribute("wantClientAuth", FLAG, "wants_certificate"),
    Attribute("enabledProtocols", TEXT, "protocols", "TLSv1.2,TLSv1.3"),
    Attribute("enabledCipherSuites", TEXT, "cipher_suites", "the safe ones"),
)
NETWORK_CONNECTOR: Final = AttributeTable(
    BridgeSettings,
    Attribute("name", TEXT, "name"),
    Attribute("networkTTL", HOPS, "message_ttl consumer_ttl"),
    Attribute("messageTTL", HOPS, "message_ttl", "that of networkTTL"),
    Attribute("consumerTTL", HOPS, "consumer_ttl", "that of networkTTL"),
    Attribute("conduitSubscriptions", FLAG, "conduit"),
    Attribute("decreaseNetworkConsumerPriority", FLAG, "decrease_priority"),
    Attribute("consumerPriorityBase", number("priority", MIN_CONSUMER_PRIORITY, MAX_PRIORITY), "priority_base"),
    Attribute("prefetchSize", clamped("messages", 1, MAX_PREFETCH), "prefetch_size"),
    Attribute("alwaysSyncSend", FLAG, "always_sync_send"),
    Attribute("bridgeTempDestinations", FLAG, "bridge_temporary"),
    Attribute("userName", TEXT, "user_name", "none"),
    Attribute("remoteUserName", TEXT, "remote_user_name", "that of userName"),
    Attribute("staticBridge", FLAG, "static_bridge"),
    Attribute("destinationFilter", TEXT, "advisory_filter", "none"),
    Attribute("conduitNetworkQueueSubscriptions", FLAG, "conduit_network_queues"),
    Attribute("suppressDuplicateQueueSubscriptions", FLAG, "suppress_queue_duplicates"),
    Attribute("suppressDuplicateTopicSubscriptions", FLAG, "suppress_topic_duplicates"),
    Attribute("dynamicOnly", FLAG, "dynamic_only"),
    Attribute("useVirtualDestSubs", FLAG, "virtual_demand"),
    Attribute("syncDurableSubs", FLAG, "sync_durable"),
    Attribute("duplex", FLAG, "duplex"),
    Attribute("checkDuplicateMessagesOnDuplex", FLAG, "check_duplicates"),
    Attribute("advisoryForFailedForward", FLAG, "tells_failures"),
    Attribute("useCompression", FLAG, "compresses"),
    Attribute("clientIdToken", TEXT, "client_id_token"),
)
