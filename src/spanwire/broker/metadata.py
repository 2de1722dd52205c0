"""Facts: small values that a message store keeps under a table and a key until they are replaced or discarded.

What must survive a restart and is no message is one of them; the store never looks inside. Where a feature keeps
messages of its own (those that wait for a durable subscription, the sends of a prepared branch), these lie in a line of
the store (`spanwire.model.destination`: SUBSCRIPTION, TRANSACTION, SCHEDULE) and the fact only describes it.
"""

from __future__ import annotations

from typing import Final

from spanwire.model.errors import ResourceAllocationError

SUBSCRIPTIONS: Final = 1  # durable subscriptions: client id and name → what they asked for
XA_BRANCHES: Final = 2  # transaction id → the state of a prepared branch
SCHEDULES: Final = 3  # job id → when it is due next and how it repeats
PRODUCER_AUDIT: Final = 4  # producer id → the sequences that were stored
CURSORS: Final = 5  # pipeline: reader → how far it has read
STAGED_BATCHES: Final = 6  # pipeline: batch → what it holds
SINK_LEDGERS: Final = 7  # pipeline: sink → what it has taken over
REMOTE_SUBSCRIBERS: Final = 8  # a bridge's durable subscription and a durable subscription of another broker behind it

MAX_KEY_BYTES: Final = 1024  # as long as a destination's name may be
MAX_VALUE_BYTES: Final = 1024 * 1024  # all facts stay in memory during a start


class Fact:
    """One fact to be put, or with ``value`` None to be discarded."""

    __slots__ = ("key", "table", "value")

    def __init__(self, table: int, key: bytes, value: bytes | None) -> None:
        self.table: Final[int] = table
        self.key: Final[bytes] = key
        self.value: Final[bytes | None] = value


def check_fact(key: bytes, value: bytes) -> None:
    """Refuses what no store takes: raises `ResourceAllocationError`."""
    if len(key) > MAX_KEY_BYTES:
        raise ResourceAllocationError(f"the key of a fact has {len(key)} bytes, at most {MAX_KEY_BYTES} are allowed")
    if len(value) > MAX_VALUE_BYTES:
        raise ResourceAllocationError(f"a fact has {len(value)} bytes, at most {MAX_VALUE_BYTES} are allowed")
