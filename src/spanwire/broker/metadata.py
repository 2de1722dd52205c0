"""Metadata records: small values that a message store keeps under a table and a key.

A value is kept until replaced or discarded.

All state except messages that must survive a restart is stored as metadata records. The store never interprets a
metadata record. Some features keep messages of their own, such as pending messages of a durable subscription or sends
of a prepared branch. Such messages have a separate destination in the store (`spanwire.model.destination`:
SUBSCRIPTION, TRANSACTION, SCHEDULE), described by the metadata record.

The number of a table is also the format of its values. A change that an older Spanwire would misread takes a new table,
and the values of the old one are read on: ``tests/vectors/metadata`` has values of each. A store with a table beyond
`MAX_TABLE` is refused.
"""

from __future__ import annotations

from typing import Final

from spanwire.model.errors import ResourceAllocationError

SUBSCRIPTIONS: Final = 1  # durable subscriptions: client id and name → description
XA_BRANCHES: Final = 2  # transaction id → the state of a prepared branch
SCHEDULES: Final = 3  # job id → next due time and repetition
PRODUCER_AUDIT: Final = 4  # producer id → stored sequences
CURSORS: Final = 5  # cursor name → progress and reserved messages
STAGED_BATCHES: Final = 6  # staged part → its final destinations
SINK_LEDGERS: Final = 7  # sink → ledger of its batches
MOVES: Final = 10  # move and part → its order, its state, or places of moved messages
REMOTE_SUBSCRIBERS: Final = 8  # a bridge's durable subscription and a durable subscription of another broker behind it
ACCEPTED_IDS: Final = 9  # duplicate ids of messages; not kept, the copies of PRODUCER_AUDIT contain them
LEDGER_LINKS: Final = 11  # number of a link in the ledger → name of the broker at its other end
DRAINS: Final = 12  # number of a drain → its order and state
NETWORK_CONNECTORS: Final = 13  # name of a network connector that an operator added → its attributes
NETWORK_MEMBERS: Final = 14  # brokers that gossip connectors have linked: one key → names and addresses
BRIDGES: Final = 15  # name of a bridge that an operator created → its definition
LOST_MESSAGES: Final = 16  # one key → counts of messages that an orderly stop has lost with the memory, by destination

MAX_TABLE: Final = LOST_MESSAGES  # the highest table of this version

MAX_KEY_BYTES: Final = 1024  # bytes; the longest name of a destination fits
MAX_VALUE_BYTES: Final = 1024 * 1024  # bytes; a start holds all metadata records in memory


class MetadataRecord:
    """One metadata record to store, or with ``value`` None to discard."""

    __slots__ = ("key", "table", "value")

    def __init__(self, table: int, key: bytes, value: bytes | None) -> None:
        self.table: Final[int] = table
        self.key: Final[bytes] = key
        self.value: Final[bytes | None] = value


def check_metadata(key: bytes, value: bytes) -> None:
    """Check the sizes of a metadata record.

    Raises:
        ResourceAllocationError: the key or the value is too long.
    """
    if len(key) > MAX_KEY_BYTES:
        raise ResourceAllocationError(
            f"the key of a metadata record has {len(key)} bytes, at most {MAX_KEY_BYTES} are allowed"
        )
    if len(value) > MAX_VALUE_BYTES:
        raise ResourceAllocationError(
            f"a metadata record has {len(value)} bytes, at most {MAX_VALUE_BYTES} are allowed"
        )
