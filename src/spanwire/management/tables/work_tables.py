"""Tables of `view_table` about work: tasks, scheduled messages, prepared branches, stores, links."""

from __future__ import annotations

from typing import Final

from spanwire.management.tables.attributes import (
    BYTES,
    COUNTER,
    INTEGER,
    LIST,
    MESSAGES,
    MILLISECONDS,
    NO_METRIC,
    NUMBER,
    Attribute,
    ViewTable,
    flag,
    integer,
    messages,
    text,
)

JOBS: Final = ViewTable(
    "jobs",
    "scheduled messages",
    "jobs",
    ("job_id",),
    (
        text("job_id", "id of the job", "jobId"),
        integer("due_ms", "time of the next delivery, since 1970", "next", MILLISECONDS),
        text("cron", "times as a cron entry", "cronEntry"),
        integer("delay_ms", "delay of the first delivery", "delay", MILLISECONDS),
        integer("period_ms", "pause between two deliveries", "period", MILLISECONDS),
        integer("repeat", "deliveries after the next one; below 0 without end", "repeat"),
        text("user_name", "user whose rights the delivery has"),
        integer("size_bytes", "size of the message", "", BYTES),
        flag("redelivery", "a failed message on the way back to its destination"),
    ),
)
STRATEGIES: Final = ViewTable(
    "slow_consumer_strategies",
    "strategies that end slow consumers, one for each policy entry that has one",
    "slow-consumer-strategies",
    ("name",),
    (
        text("name", "pattern of the policy entry"),
        integer("max_slow_count", "slow phases before the end; 0 or less for no such limit", "MaxSlowCount"),
        integer(
            "max_slow_ms",
            "time of slowness before the end; 0 or less for no such limit",
            "MaxSlowDuration",
            MILLISECONDS,
        ),
        integer("check_period_ms", "pause between two checks", "CheckPeriod", MILLISECONDS),
        flag("aborts_connections", "the connection ends, not the consumer alone"),
        Attribute(
            "max_since_ack_ms",
            INTEGER,
            "time without an acknowledgement that makes a consumer slow; none if pending messages do",
            "MaxTimeSinceLastAck",
            MILLISECONDS,
            nullable=True,
        ),
        flag("ignores_idle", "a consumer without messages is not slow", "IgnoreIdleConsumers"),
        flag("ignores_network", "bridges of other brokers are never ended", "IgnoreNetworkConsumers"),
        Attribute("slow", LIST, "slow consumers with their phases and checks, 1,000 at most"),
    ),
)
BRANCHES: Final = ViewTable(
    "branches",
    "prepared XA branches, which wait for their transaction manager",
    "branches",
    ("xid",),
    (
        text("xid", "id of the branch"),
        integer("format_id", "format of the id", "FormatId"),
        text("global_id", "id of the transaction, in hexadecimal", "GlobalTransactionId"),
        text("branch_qualifier", "qualifier of the branch, in hexadecimal", "BranchQualifier"),
        text("user_name", "user who began the branch"),
        messages("sends", "messages sent in the branch", "", NO_METRIC),
        messages("acknowledgements", "messages acknowledged in the branch", "", NO_METRIC),
        flag("recovered", "the broker has started again since"),
        flag("finishing", "a commit or rollback is under way"),
    ),
)
TASKS: Final = ViewTable(
    "tasks",
    "operations that go on after the answer to their request, and those that have ended: moves within a day, others "
    "within an hour",
    "tasks",
    ("id",),
    (
        text("id", "id of the task"),
        text("operation", "command of the operation, or undo"),
        text("sources", "queues of the operation, the first ones of many"),
        text("target", "destination of a move or copy", nullable=True),
        text("user_name", "user who began it; empty for the broker's own user"),
        text("state", "running, done, failed or cancelled"),
        text("waits_for", "what a running move waits for", nullable=True),
        integer("processed", "messages processed so far"),
        integer("left", "selected messages that had to stay"),
        Attribute("looked", INTEGER, "messages that a running move has looked at", unit=MESSAGES, nullable=True),
        Attribute("total", INTEGER, "messages that it will look at, about", unit=MESSAGES, nullable=True),
        Attribute("seconds_left", INTEGER, "seconds to its end at the speed so far", nullable=True),
        Attribute("rate", INTEGER, "most messages a second", unit=MESSAGES, nullable=True),
        integer("undoable", "moved messages that an undo would look for"),
        text("undoes", "task that an undo brings back", nullable=True),
        text("undone_by", "task that has brought messages back", nullable=True),
        integer("started_ms", "time of the start, since 1970", "", MILLISECONDS),
        Attribute("ended_ms", INTEGER, "time of the end, since 1970", unit=MILLISECONDS, nullable=True),
        Attribute("result", LIST, "result of the operation; none before the end, and if it is long", nullable=True),
        text("error", "cause of a failure", nullable=True),
    ),
)
LINK_DESTINATIONS: Final = ViewTable(
    "link_destinations",
    "messages of links by direction and destination, 1,000 destinations of each",
    "link-destinations",
    ("name", "uri", "direction", "destination"),
    (
        text("name", "name of the network connector"),
        text("uri", "address of the remote broker"),
        text("remote", "name of the remote broker, as far as known"),
        flag("accepted", "the remote broker has opened the link"),
        text("direction", "outbound, or inbound over a duplex link"),
        text("destination", "queue or topic; none for all further ones together", nullable=True),
        messages("messages", "forwarded or received since the first connection", "Count", NO_METRIC),
        Attribute("rate", NUMBER, "of these in a second, on average", "Rate", MESSAGES),
    ),
)
STORES: Final = ViewTable(
    "stores",
    "the store of the broker, none without persistence",
    "status",
    ("name",),
    (
        text("name", "directory of the store", "Name"),
        text("directory", "directory of the store", "Data"),
        integer("size_bytes", "size of the store's files", "Size", BYTES),
        integer("segments", "files of the journal"),
        integer("segment_bytes", "size of a full segment", "", BYTES),
        integer("moved_bytes", "bytes that compaction has written since the start", "", BYTES, COUNTER),
        flag("synced", "acknowledged messages survive a power cut"),
    ),
    "journal",
)
