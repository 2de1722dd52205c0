"""The table of an operator's views: each attribute with its type, unit, meaning, ActiveMQ name and metric.

The rows of the control socket (`spanwire.management.views`) have these keys. The command line, the web process and the
reference of metrics read names from this table alone, so a new attribute appears in all of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

# types of JSON Schema
INTEGER: Final = "integer"
NUMBER: Final = "number"
TEXT: Final = "string"
BOOLEAN: Final = "boolean"
LIST: Final = "array"
OBJECT: Final = "object"

COUNTER: Final = "counter"  # only grows, until the broker starts again
GAUGE: Final = "gauge"
NO_METRIC: Final = ""

MESSAGES: Final = "messages"
BYTES: Final = "bytes"
SECONDS: Final = "seconds"
PERCENT: Final = "percent"

METRIC_PREFIX: Final = "spanwire"
RUNNING: Final = "running"  # the state of a link that forwards
ADVISORY_TOPICS: Final = "topic://ActiveMQ.Advisory."


@dataclass(frozen=True, slots=True)
class Attribute:
    """One attribute of a view; ``bean`` is the name in ActiveMQ's beans, "" without one."""

    name: str
    type: str
    meaning: str
    bean: str = ""
    unit: str = ""
    metric: str = NO_METRIC
    nullable: bool = False


@dataclass(frozen=True, slots=True)
class ViewTable:
    """One kind of objects.

    ``command`` of the control socket lists them. ``keys`` identify a row. Metrics of a row have the labels ``labels``:
    pairs of label and attribute.
    """

    name: str
    meaning: str
    command: str
    keys: tuple[str, ...]
    attributes: tuple[Attribute, ...]
    metric_prefix: str = ""
    labels: tuple[tuple[str, str], ...] = ()

    def metrics(self) -> list[Attribute]:
        """Return the attributes that are metrics."""
        return [attribute for attribute in self.attributes if attribute.metric]

    def beans(self) -> list[tuple[str, str]]:
        """Return pairs of ActiveMQ's name and the key of a row."""
        return [(attribute.bean, attribute.name) for attribute in self.attributes if attribute.bean]

    def metric_name(self, attribute: Attribute) -> str:
        """Return the name of a metric, without the ``_total`` of counters."""
        stem, unit = attribute.name, attribute.unit
        if unit == SECONDS:
            stem = f"{stem.removesuffix('_s')}_seconds"
        elif unit == MESSAGES:
            stem = f"{stem}_messages"
        return f"{METRIC_PREFIX}_{self.metric_prefix}_{stem}"


def integer(name: str, meaning: str, bean: str = "", unit: str = "", metric: str = NO_METRIC) -> Attribute:
    """Return an attribute that is a whole number."""
    return Attribute(name, INTEGER, meaning, bean, unit, metric)


def messages(name: str, meaning: str, bean: str = "", metric: str = GAUGE) -> Attribute:
    """Return an attribute that counts messages."""
    return Attribute(name, INTEGER, meaning, bean, MESSAGES, metric)


def text(name: str, meaning: str, bean: str = "", nullable: bool = False) -> Attribute:
    """Return an attribute that is a text."""
    return Attribute(name, TEXT, meaning, bean, nullable=nullable)


def flag(name: str, meaning: str, bean: str = "", metric: str = NO_METRIC) -> Attribute:
    """Return an attribute that is true or false; as a metric 1 or 0."""
    return Attribute(name, BOOLEAN, meaning, bean, metric=metric)


BROKER: Final = ViewTable(
    "broker",
    "the broker, its totals and its use of memory and disk",
    "status",
    ("name",),
    (
        text("name", "name of the broker"),
        text("id", "id of the broker, also in its messages"),
        text("version", "version of Spanwire"),
        Attribute("uptime_s", NUMBER, "time since the start", unit=SECONDS, metric=GAUGE),
        integer("connections", "open client connections", "CurrentConnectionsCount", metric=GAUGE),
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
        integer("parked_sends", "sends that wait for memory or disk", "ParkedSendCount", metric=GAUGE),
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
        text("uri", "address", "Uri"),
        integer("connections", "open connections", "ConnectionCount", metric=GAUGE),
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
        text("connection_id", "id of the connection"),
        text("client_id", "client id", "ClientId", nullable=True),
        text("user_name", "user", "UserName"),
        text("remote_address", "address of the client", "RemoteAddress"),
        text("protocol", "protocol of the client", "Protocol"),
        integer("consumers", "consumers of the connection", "Consumers"),
        integer("producers", "producers of the connection", "Producers"),
        flag("slow", "the client does not read its bytes", "Slow"),
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
    ),
)
LINKS: Final = ViewTable(
    "links",
    "links of network connectors, also those that other brokers have opened",
    "status",
    ("name", "uri"),
    (
        text("name", "name of the network connector"),
        text("uri", "address of the remote broker"),
        text("remote", "name of the remote broker, as far as known"),
        text("state", "state of the link"),
        flag("up", "the state is running", metric=GAUGE),
        text("reason", "cause of the present or last break"),
        Attribute("since_s", NUMBER, "age of the state", unit=SECONDS),
        integer("demand", "destinations with demand at the remote broker", metric=GAUGE),
        messages("in_flight", "forwarded and not acknowledged"),
        messages("enqueued", "offered to the link", "", COUNTER),
        messages("dequeued", "forwarded and acknowledged", "", COUNTER),
        messages("received", "received over a duplex link", "", COUNTER),
        messages("failed", "forwards that the remote broker refused", "", COUNTER),
        integer("reconnects", "connections before the present one", metric=COUNTER),
        flag("duplex", "the link forwards in both directions"),
    ),
    "link",
    (("link", "name"), ("remote", "remote"), ("uri", "uri")),
)
VIEWS: Final = (BROKER, CONNECTORS, CONNECTIONS, CONSUMERS, PRODUCERS, QUEUES, TOPICS, SUBSCRIPTIONS, LINKS)

Row = Mapping[str, object]


def rows_of(view: ViewTable, answer: object) -> list[dict[str, object]]:
    """Return the rows of a view from the answer to its ``command``, with the attributes of the table alone."""
    names = [attribute.name for attribute in view.attributes]
    return [{name: row[name] for name in names if name in row} for row in _raw_rows(view, answer)]


def _raw_rows(view: ViewTable, answer: object) -> list[Row]:
    if view is BROKER:
        return [broker_row(answer)] if isinstance(answer, dict) else []
    if view is CONNECTORS or view is LINKS:
        part = "connectors" if view is CONNECTORS else "network_connectors"
        rows = _rows(answer.get(part)) if isinstance(answer, dict) else []
        return rows if view is CONNECTORS else [{**row, "up": row.get("state") == RUNNING} for row in rows]
    if view is QUEUES or view is TOPICS:
        scheme = "queue" if view is QUEUES else "topic"
        return [row for row in _rows(answer) if type_of(row).removeprefix("temp-") == scheme]
    return _rows(answer)


def type_of(row: Row) -> str:
    """Return ``queue``, ``topic``, ``temp-queue`` or ``temp-topic`` for the row of a destination."""
    return str(row.get("destination")).partition("://")[0]


def metric_type_of(row: Row) -> str:
    """Return the label ``type`` of a destination's metrics: its type, or ``advisory``."""
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
