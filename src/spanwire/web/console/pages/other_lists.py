"""The lists beside queues.

The lists are topics, subscriptions, clients, connectors, the network, scheduled messages and tasks.
"""

from __future__ import annotations

from typing import Final

from spanwire.management.tables.ledger_tables import CAME, LEDGER, SINCE_START, WENT
from spanwire.management.tables.network_tables import BRIDGES, LINKS, NETWORK_CONNECTORS
from spanwire.management.tables.operation_table import Role
from spanwire.management.tables.view_table import (
    ADVISORY_TOPICS,
    CONNECTIONS,
    CONNECTORS,
    CONSUMERS,
    PRODUCERS,
    SUBSCRIPTIONS,
    TOPICS,
)
from spanwire.management.tables.work_tables import BRANCHES, JOBS, TASKS
from spanwire.web.console import formats
from spanwire.web.console.forms import HOME
from spanwire.web.console.pages.list_pages import Column, Filter, ListPage, Row, RowAction

TOPIC_PATH: Final = "/admin/topic"
LINK_PATH: Final = "/admin/link"
BRIDGE_PATH: Final = "/admin/bridge"
SUBSCRIPTION_WORDS: Final = (("name", "name"), ("client_id", "client_id"))
ADDS_UP: Final = "adds up"
# The words for the terms of the equation in a sum.
LEDGER_WORDS: Final = {
    "found": "found",
    "sent": "sent",
    "arrived": "from other brokers",
    "moved_in": "moved here",
    "dead_letters": "dead letters",
    "acknowledged": "acknowledged",
    "forwarded": "forwarded",
    "expired": "expired",
    "dead_lettered": "became dead letters",
    "discarded": "discarded",
    "purged": "purged",
    "moved_out": "moved away",
    "replaced": "replaced by newer values",
}
NO_CLIENTS: Final = "No client is connected. The connectors on the overview have the addresses for clients."


def _to_destination(row: Row) -> str:
    return formats.destination_link(row.get("destination"))


def _to_connection(row: Row) -> str:
    name = row.get("connection_id")
    return formats.link("/admin/connection", name=name) if name else ""


def _is_advisory(row: Row) -> bool:
    return str(row.get("destination")).startswith(ADVISORY_TOPICS)


def _is_running(row: Row) -> bool:
    return row.get("state") == "running"


def _is_at_work(row: Row) -> bool:
    """Return True for a bridge that runs, or tries to."""
    return row.get("state") in ("starting", "running", "retrying")


def _is_resumable(row: Row) -> bool:
    is_move = str(row.get("id")).startswith("M")
    return is_move and row.get("state") in ("cancelled", "failed") and not row.get("undone_by")


def _is_undoable(row: Row) -> bool:
    return not _is_running(row) and bool(row.get("undoable"))


def _has_nothing(row: Row) -> bool:
    """Return True for a row of the ledger without any message so far."""
    return not any(row.get(name) for name in (*CAME, *WENT, "difference", "lost"))


def _verdict(row: Row) -> str:
    """Return the result of the ledger's equation."""
    difference = row.get("difference")
    if not isinstance(difference, (int, float)):
        return "unknown"
    if difference == 0:
        return ADDS_UP
    return f"{abs(difference):,} {'missing' if difference > 0 else 'too many'}"


def _lost(row: Row) -> str:
    """Return the number of messages lost with the memory before this start, which only an orderly stop counts."""
    if row.get("scope") != SINCE_START:
        return formats.NONE
    return formats.number(row.get("lost")) if row.get("lost_is_known") else "unknown"


def _is_away(row: Row) -> bool:
    return not row.get("active")


def _is_started(row: Row) -> bool:
    return bool(row.get("started", True))


def _is_stopped(row: Row) -> bool:
    return not _is_started(row)


def _has_stopped(row: Row) -> bool:
    return row.get("state") == "stopped"


def _goes_on(row: Row) -> bool:
    """Return True for a link that can be stopped here: one that another broker has opened is stopped there."""
    return not _has_stopped(row) and not row.get("accepted")


def _is_own(row: Row) -> bool:
    """Return True for a connector of this broker: the settings of another one's say nothing of its start."""
    return row.get("autoStart") is not None


TOPIC_LIST: Final = ListPage(
    TOPICS,
    "Topics",
    "/admin/topics",
    (
        Column("destination", "Topic", TOPIC_PATH),
        Column("consumers", "Consumers"),
        Column("durable_subscriptions", "Durable subscriptions"),
        Column("producers", "Producers"),
        Column("enqueued", "Sent"),
        Column("dequeued", "Acknowledged"),
        Column("pending", "Pending"),
        Column("memory_bytes", "Memory"),
    ),
    "destination",
    "destination",
    "A topic comes into being when a client sends to it or subscribes to it.",
    (Filter("without consumers", "consumers", "0"),),
    hidden=_is_advisory,
    hidden_label="advisory topics",
    actions=(
        RowAction("Send", "/send", Role.OPERATE, (("name", "destination"),), lambda row: not _is_advisory(row), HOME),
    ),
    create=("Create a topic", "/topics/create"),
)
SUBSCRIPTION_LIST: Final = ListPage(
    SUBSCRIPTIONS,
    "Durable subscriptions",
    "/admin/subscribers",
    (
        Column("name", "Subscription"),
        Column("client_id", "Client id"),
        Column("topic", "Topic", TOPIC_PATH),
        Column("selector", "Selector"),
        Column("active", "Active"),
        Column("away_s", "Away for"),
        Column("pending", "Pending"),
        Column("dispatched", "Dispatched"),
        Column("dequeued", "Acknowledged"),
    ),
    "client_id",
    "client_id",
    "No durable subscription exists. A client creates one when it subscribes with a client id and a name.",
    (Filter("active", "active", "true"), Filter("away", "active", "false"), Filter("with messages", "pending", ">0")),
    actions=(
        RowAction("Why", "/why", Role.VIEW, SUBSCRIPTION_WORDS, folder=HOME, fixed=(("kind", "subscription"),)),
        RowAction("Delete", "/subscriptions/remove", Role.ADMIN, SUBSCRIPTION_WORDS, _is_away),
    ),
    create=("Create a subscription", "/subscriptions/create"),
)
CONNECTION_LIST: Final = ListPage(
    CONNECTIONS,
    "Connections",
    "/admin/connections",
    (
        Column("connection_id", "Connection", "/admin/connection"),
        Column("client_id", "Client id"),
        Column("remote_address", "Address"),
        Column("user_name", "User"),
        Column("connector", "Connector"),
        Column("protocol", "Protocol"),
        Column("connected_ms", "Since"),
        Column("consumers", "Consumers"),
        Column("producers", "Producers"),
        Column("in_flight", "In flight"),
    ),
    "remote_address",
    "connection_id",
    NO_CLIENTS,
    (
        Filter("slow", "slow", "true"),
        Filter("blocked", "blocked", "true"),
        Filter("other brokers", "network", "true"),
    ),
    actions=(RowAction("Disconnect", "/connections/disconnect", Role.ADMIN, (("client", "connection_id"),)),),
    also=(("Connectors", "/admin/connectors"),),
)
CONSUMER_LIST: Final = ListPage(
    CONSUMERS,
    "Consumers",
    "/admin/consumers",
    (
        Column("consumer_id", "Consumer", leads=_to_connection),
        Column("destination", "Destination", leads=_to_destination),
        Column("client_id", "Client id"),
        Column("remote_address", "Address"),
        Column("selector", "Selector"),
        Column("prefetch_size", "Prefetch"),
        Column("in_flight", "In flight"),
        Column("dequeued", "Acknowledged"),
        Column("slow", "Slow"),
    ),
    "destination",
    "destination",
    "No client consumes or subscribes.",
    (Filter("slow", "slow", "true"), Filter("other brokers", "network", "true")),
    actions=(RowAction("End", "/consumers/end", Role.ADMIN, (("consumer_id", "consumer_id"),)),),
)
PRODUCER_LIST: Final = ListPage(
    PRODUCERS,
    "Producers",
    "/admin/producers",
    (
        Column("producer_id", "Producer", leads=_to_connection),
        Column("destination", "Destination", leads=_to_destination),
        Column("client_id", "Client id"),
        Column("remote_address", "Address"),
        Column("user_name", "User"),
        Column("window_bytes", "Window"),
        Column("waiting_sends", "Sends that wait"),
    ),
    "remote_address",
    "producer_id",
    "No OpenWire client has a producer open. STOMP clients have none: they send without one.",
    (Filter("blocked", "blocked", "true"),),
)
CONNECTOR_LIST: Final = ListPage(
    CONNECTORS,
    "Connectors",
    "/admin/connectors",
    (
        Column("name", "Connector"),
        Column("uri", "Address"),
        Column("started", "Open"),
        Column("connections", "Connections"),
        Column("connections_ever", "Since the start"),
        Column("refused", "Refused"),
        Column("maximum_connections", "Limit"),
    ),
    "name",
    "name",
    "The broker listens nowhere. Add a transport connector to its configuration.",
    actions=(
        RowAction("Close", "/connectors/stop", Role.ADMIN, (("connectors", "name"),), _is_started),
        RowAction("Open", "/connectors/start", Role.ADMIN, (("connectors", "name"),), _is_stopped),
        RowAction("Spread clients", "/connectors/rebalance", Role.ADMIN, (("connectors", "name"),), _is_started),
    ),
)
LINK_LIST: Final = ListPage(
    LINKS,
    "Network",
    "/admin/network",
    (
        Column("name", "Network connector", LINK_PATH),
        Column("remote", "Remote broker"),
        Column("uri", "Address"),
        Column("state", "State"),
        Column("reason", "Last break"),
        Column("since_s", "State since"),
        Column("duplex", "Duplex"),
        Column("accepted", "Opened there"),
        Column("demand", "Demand"),
        Column("in_flight", "In flight"),
        Column("dequeued", "Forwarded"),
        Column("received", "Received"),
        Column("reconnects", "Reconnects"),
    ),
    "remote",
    "name",
    "This broker is linked to no other one. A network connector links it: in its configuration, or added here.",
    (Filter("running", "up", "true"), Filter("not running", "up", "false")),
    actions=(
        RowAction("Stop", "/links/stop", Role.ADMIN, (("connectors", "name"),), _goes_on),
        RowAction("Start", "/links/start", Role.ADMIN, (("connectors", "name"),), _has_stopped),
    ),
    create=("Add a network connector", "/network_connectors/add"),
    also=(
        ("Map", "/admin/network-map"),
        ("Network connectors", "/admin/network-connectors"),
        ("Bridges", "/admin/bridges"),
    ),
)
NETWORK_CONNECTOR_LIST: Final = ListPage(
    NETWORK_CONNECTORS,
    "Network connectors",
    "/admin/network-connectors",
    (
        Column("name", "Network connector"),
        Column("uri", "Brokers"),
        Column("duplex", "Duplex"),
        Column("messageTTL", "Message TTL"),
        Column("consumerTTL", "Consumer TTL"),
        Column("prefetchSize", "Prefetch"),
        Column("conduitSubscriptions", "Conduit"),
        Column("dynamicOnly", "Dynamic only"),
        Column("userName", "User"),
        Column("remoteUserName", "Remote user"),
    ),
    "name",
    "name",
    "The broker has no network connector. One links it to another broker: in its configuration, or added here.",
    actions=(RowAction("Remove", "/network_connectors/remove", Role.ADMIN, (("connectors", "name"),), _is_own),),
    create=("Add a network connector", "/network_connectors/add"),
    also=(("Links", "/admin/network"), ("Map", "/admin/network-map")),
)
BRIDGE_LIST: Final = ListPage(
    BRIDGES,
    "Bridges",
    "/admin/bridges",
    (
        Column("name", "Bridge", BRIDGE_PATH),
        Column("source", "Source"),
        Column("target", "Target"),
        Column("state", "State"),
        Column("since_s", "State since"),
        Column("forwarded", "Forwarded"),
        Column("retries", "Retries"),
        Column("dead_letters", "Dead letters"),
        Column("lag_s", "Lag"),
        Column("last_error", "Last failure"),
    ),
    "name",
    "name",
    "The broker has no bridges. Create one here, or write some into its configuration.",
    actions=(
        RowAction("Pause", "/bridges/pause", Role.OPERATE, (("bridges", "name"),), _is_at_work),
        RowAction("Resume", "/bridges/resume", Role.OPERATE, (("bridges", "name"),), lambda row: not _is_at_work(row)),
        RowAction("Restart", "/bridges/restart", Role.OPERATE, (("bridges", "name"),)),
        RowAction("Change", "/bridge", Role.ADMIN, (("name", "name"),), folder=HOME),
        RowAction("Delete", "/bridges/delete", Role.ADMIN, (("bridges", "name"),)),
    ),
    create=("Create a bridge", "/bridges/create"),
    also=(("Map", "/admin/network-map"),),
)
JOB_LIST: Final = ListPage(
    JOBS,
    "Scheduled messages",
    "/admin/scheduled",
    (
        Column("job_id", "Job"),
        Column("due_ms", "Next delivery"),
        Column("cron", "Cron entry"),
        Column("period_ms", "Period, ms"),
        Column("repeat", "Deliveries after it"),
        Column("redelivery", "Redelivery"),
        Column("user_name", "User"),
        Column("size_bytes", "Size"),
    ),
    "job_id",
    "due_ms",
    'No message waits for its time. Send one with a delay; the broker needs schedulerSupport="true".',
    actions=(RowAction("Remove", "/jobs/remove", Role.ADMIN, (("job_id", "job_id"),)),),
)
BRANCH_LIST: Final = ListPage(
    BRANCHES,
    "Prepared transactions",
    "/admin/branches",
    (
        Column("xid", "Branch"),
        Column("user_name", "User"),
        Column("sends", "Sends"),
        Column("acknowledgements", "Acknowledgements"),
        Column("recovered", "From before a restart"),
    ),
    "xid",
    "xid",
    "No prepared transaction waits for its transaction manager.",
    actions=(
        RowAction("Commit", "/branches/commit", Role.ADMIN, (("xid", "xid"),)),
        RowAction("Roll back", "/branches/rollback", Role.ADMIN, (("xid", "xid"),)),
    ),
)
TASK_LIST: Final = ListPage(
    TASKS,
    "Tasks",
    "/admin/tasks",
    (
        Column("id", "Task"),
        Column("operation", "Operation"),
        Column("sources", "Queues"),
        Column("target", "Target"),
        Column("user_name", "User"),
        Column("state", "State"),
        Column("waits_for", "Waits for"),
        Column("processed", "Messages"),
        Column("seconds_left", "Seconds left"),
        Column("started_ms", "Began"),
        Column("ended_ms", "Ended"),
        Column("error", "Failure"),
    ),
    "operation",
    "-started_ms",
    "No operation goes on, and none has ended lately. Purge, move, copy and retry become tasks.",
    actions=(
        RowAction("Cancel", "/tasks/cancel", Role.OPERATE, (("id", "id"),), _is_running),
        RowAction("Resume", "/tasks/resume", Role.OPERATE, (("id", "id"),), _is_resumable),
        RowAction("Undo", "/tasks/undo", Role.OPERATE, (("id", "id"),), _is_undoable),
    ),
    also=(("Prepared transactions", "/admin/branches"),),
)
LEDGER_LIST: Final = ListPage(
    LEDGER,
    "Ledger",
    "/admin/ledger",
    (
        Column("destination", "Destination", leads=_to_destination),
        Column("scope", "Counted"),
        Column("sent", "Came in", terms=tuple((name, LEDGER_WORDS[name]) for name in CAME)),
        Column("acknowledged", "Left", terms=tuple((name, LEDGER_WORDS[name]) for name in WENT if name != "pending")),
        Column("pending", "Pending"),
        Column("difference", "Verdict", words=_verdict),
        Column("lost", "Lost with the memory", words=_lost, is_plain=True),
    ),
    "destination",
    "destination",
    "No message has come to a queue or durable subscription yet.",
    (
        Filter("stored", "scope", "stored"),
        Filter("since the start", "scope", SINCE_START),
        Filter("does not add up", "adds_up", "false"),
    ),
    hidden=_has_nothing,
    hidden_label="rows without messages",
)
OTHER_LISTS: Final = (
    TOPIC_LIST, SUBSCRIPTION_LIST, CONNECTION_LIST, CONSUMER_LIST, PRODUCER_LIST, CONNECTOR_LIST, LINK_LIST,
    NETWORK_CONNECTOR_LIST, BRIDGE_LIST, JOB_LIST, BRANCH_LIST, TASK_LIST, LEDGER_LIST,
)  # fmt: skip
