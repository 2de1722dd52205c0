"""The tables of tasks, scheduled messages and prepared branches (`spanwire.management.view_table`)."""

from __future__ import annotations

from typing import Final

from spanwire.management.attributes import (
    BYTES,
    INTEGER,
    LIST,
    MILLISECONDS,
    NO_METRIC,
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
    "operations that go on after the answer to their request, and those that have ended within an hour",
    "tasks",
    ("id",),
    (
        text("id", "id of the task"),
        text("operation", "command of the operation"),
        text("user_name", "user who began it; empty for the broker's own user"),
        text("state", "running, done, failed or cancelled"),
        integer("processed", "messages processed so far"),
        integer("started_ms", "time of the start, since 1970", "", MILLISECONDS),
        Attribute("ended_ms", INTEGER, "time of the end, since 1970", unit=MILLISECONDS, nullable=True),
        Attribute("result", LIST, "result of the operation; none before the end, and if it is long", nullable=True),
        text("error", "cause of a failure", nullable=True),
    ),
)
