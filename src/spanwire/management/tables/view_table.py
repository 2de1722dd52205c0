"""The table of an operator's views: attributes with type, unit, meaning, ActiveMQ name and metric.

The rows of the control socket (`spanwire.management.views`) have the names of the attributes as keys. The command line,
the web process and the reference of metrics read names from the table alone, so a new attribute appears in all.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from spanwire.management.tables.attributes import (
    BOOLEAN,
    BYTES,
    COUNTER,
    GAUGE,
    INTEGER,
    MESSAGES,
    MILLISECONDS,
    NO_METRIC,
    NUMBER,
    OBJECT,
    PERCENT,
    SECONDS,
    TEXT,
    Attribute,
    ViewTable,
    detail,
    flag,
    integer,
    messages,
    text,
)
from spanwire.management.tables.ledger_tables import LEDGER, LEDGER_LINKS
from spanwire.management.tables.network_tables import BRIDGES, LINKS, NETWORK_CONNECTORS, RUNNING
from spanwire.management.tables.work_tables import BRANCHES, JOBS, LINK_DESTINATIONS, STORES, STRATEGIES, TASKS

ADVISORY_TOPICS: Final = "topic://ActiveMQ.Advisory."

BROKER: Final = ViewTable(
    "broker",
    "the broker, its totals and its use of memory and disk",
    "status",
    ("name",),
    (
        text("name", "name of the broker", "BrokerName"),
        text("id", "id of the broker, also in its messages", "BrokerId"),
        text("version", "version of Spanwire", "BrokerVersion"),
        flag("persistent", "messages survive a restart", "Persistent"),
        flag("standby", "another broker waits for the lock of the store"),
        text("data_directory", "directory of store and control socket", "DataDirectory"),
        text("configuration", "file of the configuration", nullable=True),
        Attribute("uptime_s", NUMBER, "time since the start", unit=SECONDS, metric=GAUGE),
        integer("connections", "open client connections", "CurrentConnectionsCount", metric=GAUGE),
        integer("connections_ever", "client connections since the start", "TotalConnectionsCount", metric=COUNTER),
        integer("destinations", "queues and topics, with advisory topics"),
        messages("enqueued", "messages sent to destinations that exist", "TotalEnqueueCount", NO_METRIC),
        messages("dequeued", "acknowledged messages of destinations that exist", "TotalDequeueCount", NO_METRIC),
        messages("dispatched", "dispatched messages of destinations that exist", "", NO_METRIC),
        messages("expired", "expired messages of destinations that exist", "", NO_METRIC),
        messages("pending", "messages in queues, for consumers of topics and for durable subscriptions",
                 "TotalMessageCount", NO_METRIC),
        integer("durable_subscriptions", "durable subscriptions", "DurableTopicSubscriptions", metric=GAUGE),
        integer("durable_subscriptions_away", "durable subscriptions without a subscriber",
                "InactiveDurableTopicSubscriptions", metric=GAUGE),
        messages("durable_pending", "messages that wait for durable subscriptions", "DurablePendingCount"),
        integer("prepared_transactions", "XA branches that wait for their transaction manager",
                "PreparedTransactionCount", metric=GAUGE),
        integer("scheduled_messages", "messages that wait for their time", "ScheduledMessageCount", metric=GAUGE),
        integer("parked_sends", "sends that wait for memory or disk", "ParkedSendCount", metric=GAUGE),
        integer("maximum_uncommitted", "most messages in the open transactions of a connection", "MaxUncommittedCount",
                MESSAGES),
        messages("refused_uncommitted", "sends and acknowledgements refused beyond that number",
                 "TotalMaxUncommittedExceededCount", COUNTER),
        integer("memory_bytes", "memory of pending messages", "MemoryUsageByteCount", BYTES, GAUGE),
        integer("memory_limit_bytes", "limit of that memory", "MemoryLimit", BYTES, GAUGE),
        integer("store_bytes", "size of the store's files", "StoreUsageByteCount", BYTES, GAUGE),
        integer("store_limit_bytes", "limit of the store; 0 for the whole disk", "StoreLimit", BYTES, GAUGE),
        integer("temporary_limit_bytes", "limit of non-persistent messages on the disk; 0 for the whole disk",
                "TempLimit", BYTES, GAUGE),
        integer("memory_percent", "used part of the memory limit", "MemoryPercentUsage", PERCENT),
        integer("store_percent", "used part of the store's limit, or of the disk where less", "StorePercentUsage",
                PERCENT),
        integer("temporary_percent", "used part of the limit of non-persistent messages", "TempPercentUsage", PERCENT),
        Attribute("disk_free_bytes", INTEGER, "free bytes of the store's disk", "DiskFreeByteCount", BYTES, GAUGE,
                  nullable=True),
        flag("disk_full", "the disk has no room for persistent messages, whose sends wait", "DiskFull", GAUGE),
        Attribute("average_size_bytes", INTEGER, "average size of messages, over destinations that are measured",
                  "AverageMessageSize", BYTES, nullable=True),
        Attribute("least_size_bytes", INTEGER, "smallest of these messages", "MinMessageSize", BYTES, nullable=True),
        Attribute("greatest_size_bytes", INTEGER, "largest of these messages", "MaxMessageSize", BYTES, nullable=True),
    ),
    "broker",
)  # fmt: skip
CONNECTORS: Final = ViewTable(
    "connectors",
    "addresses that the broker listens on",
    "status",
    ("name",),
    (
        text("name", "name in the configuration", "Name"),
        text("uri", "address", "URI"),
        integer("connections", "open connections", "ConnectionCount", metric=GAUGE),
        flag("started", "the connector accepts connections", "Started", GAUGE),
        integer("connections_ever", "connections since the start", metric=COUNTER),
        integer("refused", "connections refused at a limit", "MaxConnectionExceededCount", metric=COUNTER),
        integer("maximum_connections", "most open connections"),
        integer("maximum_producers", "most producers of a connection", "MaximumProducersAllowedPerConnection"),
        integer("maximum_consumers", "most consumers of a connection", "MaximumConsumersAllowedPerConnection"),
        flag("link_stealing", "a new connection takes its client id over", "AllowLinkStealingEnabled"),
        flag("updates_clients", "clients learn of other brokers", "UpdateClusterClients"),
        flag("rebalances_clients", "clients are spread over brokers", "RebalanceClusterClients"),
        flag("updates_on_remove", "clients learn of brokers that leave", "UpdateClusterClientsOnRemove"),
        flag("audits_producers", "repeated messages of other brokers are found", "AuditNetworkProducers"),
        text("cluster_filter", "patterns of the brokers of which clients learn", "UpdateClusterFilter"),
        flag("auto_start", "the connector opens with the broker", "AutoStart"),
        text("discovery_uri", "group in which the connector is announced", "DiscoveryURI"),
        Attribute(
            "certificate_expires_s",
            INTEGER,
            "end of the certificate, since 1970; none without TLS",
            "",
            SECONDS,
            GAUGE,
            nullable=True,
        ),
    ),
    "connector",
    (("connector", "name"),),
)
CONNECTIONS: Final = ViewTable(
    "connections",
    "connected clients",
    "connections",
    ("connection_id",),
    (
        text("connection_id", "id of the connection", "ConnectionId"),
        text("client_id", "client id", "ClientId", nullable=True),
        text("user_name", "user", "UserName"),
        text("remote_address", "address of the client", "RemoteAddress"),
        text("connector", "name of the connector; empty inside of the broker's process"),
        text("protocol", "protocol of the client", "Protocol"),
        Attribute("connected_ms", INTEGER, "time of the login, since 1970", "ConnectedTimestamp", MILLISECONDS),
        integer("sessions", "sessions of the connection"),
        integer("consumers", "consumers of the connection", "Consumers"),
        integer("producers", "producers of the connection", "Producers"),
        integer("transactions", "open transactions and XA branches", "ActiveTransactionCount"),
        messages("in_flight", "dispatched and not acknowledged", "", NO_METRIC),
        integer("unsent_bytes", "bytes that the client has not read", "", BYTES),
        integer("waiting_sends", "sends that wait for memory or disk"),
        flag("blocked", "the broker reads no further bytes until sends have room", "Blocked"),
        flag("slow", "the client does not read its bytes", "Slow"),
        flag("network", "another broker is connected", "NetworkConnection"),
        flag("fault_tolerant", "the client connects again after a break", "FaultTolerantConnection"),
        Attribute(
            "oldest_transaction_ms",
            INTEGER,
            "age of the oldest open transaction",
            "OldestActiveTransactionDuration",
            MILLISECONDS,
            nullable=True,
        ),
    ),
)
SESSIONS: Final = ViewTable(
    "sessions",
    "sessions of connected clients",
    "sessions",
    ("connection_id", "session"),
    (
        text("connection_id", "id of the connection", "ConnectionId"),
        integer("session", "number of the session; -1 is that of the client's own advisories", "SessionId"),
        text("client_id", "client id", "ClientId", nullable=True),
        integer("consumers", "consumers of the session"),
        integer("producers", "producers of the session"),
    ),
)
CONSUMERS: Final = ViewTable(
    "consumers",
    "consumers of connected clients",
    "consumers",
    ("consumer_id",),
    (
        text("consumer_id", "id of the consumer"),
        text("client_id", "client id", "ClientId", nullable=True),
        text("user_name", "user", "UserName"),
        text("remote_address", "address of the client", "RemoteAddress"),
        text("destination", "queue or topic", "DestinationName"),
        text("selector", "selector", "Selector", nullable=True),
        text("durable", "name of the durable subscription", "SubscriptionName", nullable=True),
        integer("prefetch_size", "messages that the consumer may have unacknowledged", "PrefetchSize", MESSAGES),
        messages("in_flight", "dispatched and not acknowledged", "DispatchedQueueSize", NO_METRIC),
        messages("dispatched", "dispatched since the consumer exists", "DispatchedCounter", NO_METRIC),
        messages("dequeued", "acknowledged since the consumer exists", "DequeueCounter", NO_METRIC),
        flag("browser", "a browser, which removes no message", "Browser"),
        text("connection_id", "id of the connection", "ConnectionId"),
        integer("session", "number of the session", "SessionId"),
        integer("number", "number of the consumer in its session", "SubscriptionId"),
        messages("pending", "messages of topics that wait for the consumer", "PendingQueueSize", NO_METRIC),
        flag("slow", "messages wait, and the consumer has as many as it may", "SlowConsumer"),
        flag("network", "a bridge of another broker", "Network"),
        flag("exclusive", "no other consumer of the queue gets messages meanwhile", "Exclusive"),
        flag("retroactive", "asked for earlier messages of the topic", "Retroactive"),
        flag("no_local", "messages of its own connection are left out", "NoLocal"),
        integer("priority", "priority among the consumers of a queue", "Priority"),
        integer(
            "most_pending",
            "pending messages before some are discarded, as the client asked; 0 for the policy's",
            "MaximumPendingMessageLimit",
            MESSAGES,
        ),
        messages("discarded", "messages of topics discarded because more waited than may", "DiscardedCount", NO_METRIC),
        Attribute(
            "pending_limit",
            INTEGER,
            "pending messages of a topic before some are discarded, by policy and client; none without a limit",
            "MaximumPendingQueueSize",
            MESSAGES,
            nullable=True,
        ),
    ),
)
PRODUCERS: Final = ViewTable(
    "producers",
    "producers of connected clients",
    "producers",
    ("producer_id",),
    (
        text("producer_id", "id of the producer"),
        text("client_id", "client id", "ClientId", nullable=True),
        text("user_name", "user", "UserName"),
        text("remote_address", "address of the client", "RemoteAddress"),
        text("destination", "queue or topic; none if each message names its own", "DestinationName", nullable=True),
        integer("window_bytes", "bytes that may be unanswered; 0 for no such limit", "ProducerWindowSize", BYTES),
        text("connection_id", "id of the connection", "ConnectionId"),
        integer("session", "number of the session", "SessionId"),
        integer("waiting_sends", "sends that wait for memory or disk"),
        flag("blocked", "a send waits for memory or disk", "ProducerBlocked"),
        messages("sent", "sent since the producer exists", "SentCount", NO_METRIC),
        integer("blocked_sends", "sends that waited for memory or disk since the producer exists"),
        integer("blocked_ms", "time that they waited, all together", "TotalTimeBlocked", MILLISECONDS),
        integer("blocked_percent", "sends that waited, of all", "PercentageBlocked", PERCENT),
    ),
)
DESTINATION_ATTRIBUTES: Final = (
    text("destination", "name, such as queue://ORDERS"),
    messages("pending", "waiting and unacknowledged messages; of a topic those for its durable subscriptions, too",
             "QueueSize"),
    messages("enqueued", "sent since the broker started", "EnqueueCount", COUNTER),
    messages("dequeued", "acknowledged since the broker started", "DequeueCount", COUNTER),
    messages("dispatched", "dispatched since the broker started", "DispatchCount", COUNTER),
    messages("in_flight", "dispatched and not acknowledged", "InFlightCount"),
    messages("expired", "expired since the broker started", "ExpiredCount", COUNTER),
    integer("consumers", "consumers", "ConsumerCount", metric=GAUGE),
    integer("producers", "producers", "ProducerCount", metric=GAUGE),
    integer("memory_bytes", "memory of its messages", "MemoryUsageByteCount", BYTES, GAUGE),
    integer("memory_limit_bytes", "limit of that memory; 0 for the broker's", "MemoryLimit", BYTES, GAUGE),
    flag("paused", "an operator has paused the dispatch", "Paused", GAUGE),
    integer("durable_subscriptions", "durable subscriptions", "DurableSubscriptions"),
    messages("cached", "pending messages in memory", "MessagesCachedCount", NO_METRIC),
    integer("memory_percent", "used part of the memory limit", "MemoryPercentUsage", PERCENT),
    integer("blocked_sends", "sends that waited for memory or disk since the broker started", "BlockedSends",
            metric=COUNTER),
    integer("blocked_ms", "time that they waited, all together", "TotalBlockedTime", MILLISECONDS),
    Attribute("average_blocked_ms", NUMBER, "time that each waited, on average", "AverageBlockedTime", MILLISECONDS),
    flag("dead_letters", "a policy sends dead letters here", "DLQ"),
    detail("statistics_enabled", BOOLEAN, "messages are measured", "StatisticsEnabled"),
    detail("average_size_bytes", INTEGER, "average size of messages, measured", "AverageMessageSize", BYTES, True),
    detail("least_size_bytes", INTEGER, "smallest message, measured", "MinMessageSize", BYTES, True),
    detail("greatest_size_bytes", INTEGER, "largest message, measured", "MaxMessageSize", BYTES, True),
    detail("average_held_ms", NUMBER, "average time from the send to the removal, in a topic to the dispatch",
           "AverageEnqueueTime",
           MILLISECONDS, True),
    detail("least_held_ms", INTEGER, "shortest such time", "MinEnqueueTime", MILLISECONDS, True),
    detail("greatest_held_ms", INTEGER, "longest such time", "MaxEnqueueTime", MILLISECONDS, True),
    detail("producer_flow_control", BOOLEAN, "sends wait at the memory limit", "ProducerFlowControl"),
    detail("prioritized_messages", BOOLEAN, "messages are dispatched by priority", "PrioritizedMessages"),
    detail("always_retroactive", BOOLEAN, "each consumer of the topic gets earlier messages", "AlwaysRetroactive"),
    detail("audits_copies", BOOLEAN, "a topic takes copies over several routes once", "EnableAudit"),
    detail("blocked_warning_ms", INTEGER, "pause between two warnings of waiting sends",
           "BlockedProducerWarningInterval", MILLISECONDS),
    detail("expiry_period_ms", INTEGER, "pause between two scans for expired messages; 0 for none", "", MILLISECONDS),
    detail("cursor_full", BOOLEAN, "further persistent messages of the queue stay on the disk", "CursorFull"),
    detail("groups", OBJECT, "message groups of the queue with their consumers, 1,000 at most", "MessageGroups"),
    detail("group_map", TEXT, "kind of the map of message groups", "MessageGroupType"),
    detail("dead_letter_destination", TEXT, "destination of its dead letters; none if they are dropped, or if it takes "
           "dead letters itself", "", "", True),
    detail("policy", TEXT, "pattern of the policy entry"),
    detail("from_brokers", INTEGER, "messages that other brokers have forwarded here", "NetworkEnqueues", MESSAGES),
    detail("to_brokers", INTEGER, "messages that bridges of other brokers have acknowledged", "NetworkDequeues",
           MESSAGES),
    detail("refused_uncommitted", INTEGER, "messages refused because the transaction was too large",
           "MaxUncommittedExceededCount", MESSAGES),
    detail("duplicates", INTEGER, "messages dropped because their `_AMQ_DUPL_ID` was accepted before", "", MESSAGES),
    detail("pushed_out", INTEGER, "messages that newer ones pushed out of a ring queue", "", MESSAGES),
    detail("replaced", INTEGER, "messages that newer ones of their keys replaced in a last-value queue", "", MESSAGES),
    detail("slow_consumer_strategy", TEXT, "policy entry with the strategy for slow consumers", "", "", True),
    detail("last_in_id", TEXT, "id of the last message that came, measured", "EnqueuedMessageId", "", True),
    detail("last_in_sent_ms", INTEGER, "its time of the send, since 1970", "EnqueuedMessageTimestamp", MILLISECONDS,
           True),
    detail("last_in_ms", INTEGER, "its time of arrival, since 1970", "EnqueuedMessageBrokerInTime", MILLISECONDS, True),
    detail("last_in_connection", TEXT, "connection of its producer", "", "", True),
    detail("last_out_id", TEXT, "id of the last message that was removed from a queue, measured", "DequeuedMessageId",
           "", True),
    detail("last_out_sent_ms", INTEGER, "its time of the send, since 1970", "DequeuedMessageTimestamp", MILLISECONDS,
           True),
    detail("last_out_ms", INTEGER, "its time of removal, since 1970", "DequeuedMessageBrokerOutTime", MILLISECONDS,
           True),
)  # fmt: skip
DESTINATION_LABELS: Final = (("type", "type"), ("destination", "name"))
# Attributes of destinations of which the broker's metrics have sums; memory has a figure of its own.
SUMMED: Final = ("pending", "enqueued", "dequeued", "dispatched", "in_flight", "expired", "consumers", "producers")
QUEUES: Final = ViewTable(
    "queues",
    "queues, with temporary ones",
    "destinations",
    ("destination",),
    DESTINATION_ATTRIBUTES,
    "destination",
    DESTINATION_LABELS,
)
TOPICS: Final = ViewTable(
    "topics",
    "topics, with temporary and advisory ones",
    "destinations",
    ("destination",),
    DESTINATION_ATTRIBUTES,
    "destination",
    DESTINATION_LABELS,
)
SUBSCRIPTIONS: Final = ViewTable(
    "subscriptions",
    "durable subscriptions, with and without a subscriber",
    "subscriptions",
    ("client_id", "name"),
    (
        text("client_id", "client id", "ClientId"),
        text("name", "name of the subscription", "SubscriptionName"),
        text("topic", "topic", "DestinationName"),
        text("selector", "selector", "Selector", nullable=True),
        flag("no_local", "messages of its own connection are left out", "NoLocal"),
        flag("active", "a subscriber is connected", "Active"),
        Attribute("away_s", INTEGER, "time without a subscriber", "AwaySeconds", SECONDS, nullable=True),
        messages("pending", "waiting and unacknowledged messages", "PendingQueueSize", NO_METRIC),
        messages("in_flight", "dispatched and not acknowledged", "DispatchedQueueSize", NO_METRIC),
        messages("enqueued", "received since the broker started", "EnqueueCounter", NO_METRIC),
        messages("dequeued", "acknowledged since the broker started", "DequeueCounter", NO_METRIC),
        messages("dispatched", "dispatched since the broker started", "DispatchedCounter", NO_METRIC),
        messages("expired", "expired since the broker started", "", NO_METRIC),
        messages("cached", "pending messages in memory", "MessagesCachedCount", NO_METRIC),
        integer("memory_bytes", "memory of its messages", "CursorMemoryUsage", BYTES),
        text("user_name", "user who subscribed last", "UserName", nullable=True),
        integer("memory_percent", "used part of the memory limit of its policy", "CursorPercentUsage", PERCENT),
        flag("full", "further messages stay on the disk", "CursorFull"),
    ),
)
VIEWS: Final = (
    BROKER, CONNECTORS, CONNECTIONS, SESSIONS, CONSUMERS, PRODUCERS, QUEUES, TOPICS, SUBSCRIPTIONS, NETWORK_CONNECTORS,
    LINKS, LINK_DESTINATIONS, BRIDGES, JOBS, BRANCHES, STRATEGIES, TASKS, STORES,
    LEDGER, LEDGER_LINKS,
)  # fmt: skip
# Views that are parts of the answer to ``status`` or ``summary``.
STATUS_PARTS: Final = {
    CONNECTORS.name: "connectors",
    LINKS.name: "network_connectors",
    BRIDGES.name: "bridges",
    NETWORK_CONNECTORS.name: "network_settings",
    STORES.name: "stores",
}

Row = Mapping[str, object]


def rows_of(view: ViewTable, answer: object) -> list[dict[str, object]]:
    """Return the rows of a view from the answer to ``command``, with the attributes of the table alone."""
    names = [attribute.name for attribute in view.attributes]
    return [{name: row[name] for name in names if name in row} for row in _raw_rows(view, answer)]


def _raw_rows(view: ViewTable, answer: object) -> list[Row]:
    if view is BROKER:
        return [broker_row(answer)] if isinstance(answer, dict) else []
    if view.name in STATUS_PARTS:
        rows = _rows(answer.get(STATUS_PARTS[view.name])) if isinstance(answer, dict) else []
        return [{**row, "up": row.get("state") == RUNNING} for row in rows] if view is LINKS else rows
    if view is QUEUES or view is TOPICS:
        scheme = "queue" if view is QUEUES else "topic"
        return [with_averages(row) for row in _rows(answer) if type_of(row).removeprefix("temp-") == scheme]
    if view is PRODUCERS:
        return [_producer(row) for row in _rows(answer)]
    return _rows(answer)


def listed_rows(view: ViewTable, rows: list[dict[str, object]]) -> list[dict[str, object]]:
    """Return the rows of queues or topics among the rows of all destinations, without copies.

    The rows have all attributes of a list (`spanwire.web.mirror`).
    """
    schemes = ("queue://", "temp-queue://") if view is QUEUES else ("topic://", "temp-topic://")
    return [row for row in rows if str(row["destination"]).startswith(schemes)]


def rows_of_changes(answer: object) -> list[dict[str, object]]:
    """Return the rows of all destinations from a complete answer to ``changes``."""
    header = answer[0] if isinstance(answer, list) and answer else None
    if not isinstance(answer, list) or not isinstance(header, dict) or not header.get("complete"):
        return []
    return [dict(zip(header["columns"], values, strict=True)) for values in answer[1:]]


def with_averages(row: Row) -> dict[str, object]:
    """Return the row of a destination with the derived figures.

    The figures are calculated in the reader of the row, not in the broker's turn.
    """
    limit, blocked = _number(row.get("memory_limit_bytes")), _number(row.get("blocked_sends"))
    return {
        **row,
        "memory_percent": _number(row.get("memory_bytes")) * 100 // limit if limit > 0 else 0,
        "average_blocked_ms": round(_number(row.get("blocked_ms")) / blocked, 3) if blocked > 0 else 0,
    }


def _producer(row: Row) -> dict[str, object]:
    sent = _number(row.get("sent"))
    share = _number(row.get("blocked_sends")) * 100 // sent if sent > 0 else 0
    return {**row, "blocked": _number(row.get("waiting_sends")) > 0, "blocked_percent": min(share, 100)}


def type_of(row: Row) -> str:
    """Return ``queue``, ``topic``, ``temp-queue`` or ``temp-topic`` for the row of a destination."""
    return str(row.get("destination")).partition("://")[0]


def metric_type_of(row: Row) -> str:
    """Return the label ``type`` of a destination's metrics: the destination type, or ``advisory``."""
    return "advisory" if str(row.get("destination")).startswith(ADVISORY_TOPICS) else type_of(row)


def broker_row(status: Row) -> dict[str, object]:
    """Return the row of the broker from the answer to ``status``."""
    row = dict(status)
    for part in ("statistics", "usage"):
        values = status.get(part)
        if isinstance(values, Mapping):
            row.update(values)
    return row


def _rows(answer: object) -> list[Row]:
    return [row for row in answer if isinstance(row, Mapping)] if isinstance(answer, list) else []


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0
