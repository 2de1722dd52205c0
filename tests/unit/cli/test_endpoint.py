"""Rates, tables, and texts of strangers on a terminal."""

from __future__ import annotations

from spanwire.cli.endpoint import rate
from spanwire.cli.messages.dstat import table


def test_a_rate_of_no_time_is_told() -> None:
    assert rate(1000, 0.31) == "0.31 s (3226/s)"
    assert rate(0, 0.0) == "0.00 s (0/s)"


def test_the_table_has_a_line_for_each_destination() -> None:
    row = {
        "destination": "queue://ORDERS",
        "pending": 5,
        "producers": 1,
        "consumers": 2,
        "enqueued": 10,
        "dequeued": 5,
        "in_flight": 3,
        "memory_bytes": 2048,
    }
    heading, line = table([row]).splitlines()
    assert " ".join(heading.split()) == ("Name Queue Size Producer # Consumer # Enqueue # Dequeue # In Flight Memory B")
    assert line.split() == ["queue://ORDERS", "5", "1", "2", "10", "5", "3", "2048"]
