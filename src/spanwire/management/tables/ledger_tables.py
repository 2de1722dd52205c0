"""Tables of `view_table` about the ledger: the equation of each destination, and the traffic of links."""

from __future__ import annotations

from typing import Final

from spanwire.management.tables.attributes import LIST, NO_METRIC, Attribute, ViewTable, flag, messages, text

SINCE_START: Final = "since start"  # the scope of rows with all messages since the start
CAME: Final = ("found", "sent", "arrived", "moved_in", "dead_letters")  # the left side of the equation
WENT: Final = (
    "acknowledged", "forwarded", "expired", "dead_lettered", "discarded", "purged", "moved_out", "replaced", "pending",
)  # fmt: skip
LEDGER: Final = ViewTable(
    "ledger",
    "what came to each queue and durable subscription, what left it, and whether that adds up",
    "ledger",
    ("destination", "scope"),
    (
        text("destination", "queue or durable subscription, or all that were removed"),
        text("scope", "stored: persistent messages over all restarts; since start: all messages since the start"),
        messages("found", "in the store when the count began", "", NO_METRIC),
        messages("sent", "sent here, also by committed transactions and the scheduler", "", NO_METRIC),
        messages("arrived", "that other brokers forwarded here", "", NO_METRIC),
        messages("moved_in", "that operators moved or copied here", "", NO_METRIC),
        messages("dead_letters", "that died elsewhere, and came here as dead letters", "", NO_METRIC),
        messages("acknowledged", "acknowledged by consumers", "", NO_METRIC),
        messages("forwarded", "acknowledged by other brokers", "", NO_METRIC),
        messages("expired", "whose time to live was over, without a dead letter", "", NO_METRIC),
        messages("dead_lettered", "that died here and became dead letters", "", NO_METRIC),
        messages("discarded", "that died here, and no policy wanted a dead letter", "", NO_METRIC),
        messages("purged", "removed by operators, or with the destination", "", NO_METRIC),
        messages("moved_out", "that operators moved away", "", NO_METRIC),
        messages("replaced", "that newer ones of their keys replaced in a last-value queue", "", NO_METRIC),
        messages("pending", "waiting or out at consumers", "", NO_METRIC),
        messages("difference", "that came and neither left nor wait; 0 if it adds up", "", NO_METRIC),
        flag("adds_up", "the difference is 0"),
        messages("duplicates", "not taken because they had come before, so no part of the equation", "", NO_METRIC),
        Attribute("suspects", LIST, "if it does not add up, the latest of its messages that left unacknowledged"),
        messages("lost", "lost with the memory when the run before was stopped in order; since start", "", NO_METRIC),
        flag(
            "lost_is_known", "the run before was stopped in order; after a crash nobody knows what was in memory alone"
        ),
    ),
)
LEDGER_LINKS: Final = ViewTable(
    "ledger_links",
    "messages of queues that crossed the links to and from each other broker",
    "ledger-links",
    ("remote",),
    (
        text("remote", "name of the other broker"),
        messages("forwarded", "persistent ones that it has acknowledged, over all restarts", "", NO_METRIC),
        messages("arrived", "persistent ones that it has forwarded here, over all restarts", "", NO_METRIC),
        messages("forwarded_since_start", "all that it has acknowledged since the start", "", NO_METRIC),
        messages("arrived_since_start", "all that it has forwarded here since the start", "", NO_METRIC),
        messages("in_flight", "handed to links, and not acknowledged by it", "", NO_METRIC),
    ),
)
