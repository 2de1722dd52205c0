"""The store of a broker without persistence.

So only the path of a stored message asks for a store.
"""

from __future__ import annotations

from spanwire.broker.metadata import MetadataRecord
from spanwire.broker.persistence.store_unit import StoreUnit, Transfer
from spanwire.broker.persistence.stored_sums import StoredSums, StoreLedger
from spanwire.broker.ports import MetadataStore, StoreUsage, UnitStore
from spanwire.model.destination import Destination
from spanwire.model.ledger import ACKNOWLEDGED, Sums
from spanwire.model.message import Message


class NoStore(UnitStore, MetadataStore, StoreUsage, StoreLedger):
    """Keeps no messages, always has room, and gives each message the sequence 0: "not stored"."""

    def next_sequence(self, destination: Destination) -> int:
        """Return 0."""
        return 0

    def append_shared(self, destinations: list[Destination], message: Message) -> list[int]:
        """Return 0 for each destination."""
        return [0 for _ in destinations]

    def append_unit(
        self,
        additions: list[tuple[Destination, Message]],
        removals: list[tuple[Destination, int]],
        metadata: list[MetadataRecord],
        way: int = ACKNOWLEDGED,
    ) -> list[int]:
        """Return 0 for each addition."""
        return [0 for _ in additions]

    def append_gathered(self, unit: StoreUnit, metadata: list[MetadataRecord]) -> None:
        """Leave the unit without sequences."""

    def transfer_unit(
        self, transfers: list[Transfer], removals: list[tuple[Destination, int]], metadata: list[MetadataRecord]
    ) -> list[int]:
        """Return 0 for each transfer."""
        return [0 for _ in transfers]

    def put_metadata(self, table: int, key: bytes, value: bytes) -> None:
        """Forget the value."""

    def discard_metadata(self, table: int, key: bytes) -> None:
        """Return at once: there is no value."""

    def sizes(self, destination: Destination, sequences: list[int]) -> list[int]:
        """Return 0 for each message: all are missing."""
        return [0 for _ in sequences]

    def used_bytes(self) -> int:
        """Return 0."""
        return 0

    def has_room(self) -> bool:
        """Return True: no disk can be full."""
        return True

    def counted(self) -> list[Destination]:
        """Return an empty result."""
        return []

    def sums(self, destination: Destination | None) -> StoredSums | None:
        """Return None: there is no store."""
        return None

    def link_sums(self) -> Sums:
        """Return empty sums."""
        return Sums()
