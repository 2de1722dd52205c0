"""A message store in memory; its contents end with the process.

The broker sees no difference to the journal: calls are stored and fetches answered later, never inside the call. The
class follows `spanwire.broker.ports.Store` by duck typing, because interpreted classes cannot name a compiled
port as their base.
"""

from __future__ import annotations

from typing import Final

from spanwire.broker.metadata import ACCEPTED_IDS, MetadataRecord, check_metadata
from spanwire.broker.persistence.store_unit import StoreUnit, Transfer
from spanwire.broker.persistence.stored_sums import StoredSums
from spanwire.model.destination import Destination
from spanwire.model.ledger import ACKNOWLEDGED, Sums
from spanwire.model.message import Message


class MemoryStore:
    """Keeps messages in dictionaries.

    `turn` stores all calls so far; `take_fetched` returns the answers to earlier fetches.
    """

    def __init__(self) -> None:
        self.metadata: Final[dict[int, dict[bytes, bytes]]] = {}
        self._messages: Final[dict[str, dict[int, Message]]] = {}
        self._high: Final[dict[str, int]] = {}
        self._floor = 0  # a new queue starts above the sequences of every removed queue
        self._position = 0
        self._stored = 0
        self._requests: list[tuple[int, Destination, list[int]]] = []
        self._fetched: list[tuple[int, list[Message | None]]] = []

    def append(self, destination: Destination, message: Message) -> int:
        self._position += 1
        return self._add(destination, message)

    def remove(self, destination: Destination, sequence: int, way: int = ACKNOWLEDGED) -> None:
        if self._messages.get(destination.qualified_name, {}).pop(sequence, None) is not None:
            self._position += 1

    def remove_all(self, destination: Destination, sequences: list[int], way: int = ACKNOWLEDGED) -> None:
        for sequence in sequences:
            self.remove(destination, sequence)

    def next_sequence(self, destination: Destination) -> int:
        return self._high.get(destination.qualified_name, self._floor) + 1

    def append_shared(self, destinations: list[Destination], message: Message) -> list[int]:
        self._position += 1
        return [self._add(destination, message) for destination in destinations]

    def append_unit(
        self,
        additions: list[tuple[Destination, Message]],
        removals: list[tuple[Destination, int]],
        metadata: list[MetadataRecord],
        way: int = ACKNOWLEDGED,
    ) -> list[int]:
        for metadata_record in metadata:
            check_metadata(metadata_record.key, b"" if metadata_record.value is None else metadata_record.value)
        self._position += 1
        sequences = [self._add(destination, message) for destination, message in additions]
        for destination, sequence in removals:
            self._messages.get(destination.qualified_name, {}).pop(sequence, None)
        for metadata_record in metadata:
            if metadata_record.table == ACCEPTED_IDS:
                continue  # nothing outlives this store
            if metadata_record.value is None:
                self.metadata.get(metadata_record.table, {}).pop(metadata_record.key, None)
            else:
                self.metadata.setdefault(metadata_record.table, {})[metadata_record.key] = metadata_record.value
        return sequences

    def append_gathered(self, unit: StoreUnit, metadata: list[MetadataRecord]) -> None:
        if unit.transfers:
            transfers = [transfer.transfer() for transfer in unit.transfers]
            unit.take_transferred(self.transfer_unit(transfers, unit.removed(), [*metadata, *unit.metadata]))
        else:
            unit.take(self.append_unit(unit.additions(), unit.removed(), [*metadata, *unit.metadata]))

    def transfer_unit(
        self, transfers: list[Transfer], removals: list[tuple[Destination, int]], metadata: list[MetadataRecord]
    ) -> list[int]:
        for metadata_record in metadata:
            check_metadata(metadata_record.key, b"" if metadata_record.value is None else metadata_record.value)
        firsts: list[int] = []
        for transfer in transfers:
            self.add_destination(transfer.target)
            firsts.append(self._high[transfer.target.qualified_name] + 1)
            messages = self._messages.get(transfer.source.qualified_name, {})
            for sequence in transfer.sequences:
                message = messages.pop(sequence, None)
                if message is None:
                    self._high[transfer.target.qualified_name] += 1
                else:
                    self._add(transfer.target, message)
        self.append_unit([], removals, metadata)
        return firsts

    def put_metadata(self, table: int, key: bytes, value: bytes) -> None:
        self.append_unit([], [], [MetadataRecord(table, key, value)])

    def discard_metadata(self, table: int, key: bytes) -> None:
        self.append_unit([], [], [MetadataRecord(table, key, None)])

    def note_redelivery(self, destination: Destination, sequence: int, redelivery_count: int) -> None:
        self._position += 1

    def fetch(self, request: int, destination: Destination, sequences: list[int]) -> None:
        self._requests.append((request, destination, sequences))

    def sizes(self, destination: Destination, sequences: list[int]) -> list[int]:
        messages = self._messages.get(destination.qualified_name, {})
        return [messages[sequence].size if sequence in messages else 0 for sequence in sequences]

    def add_destination(self, destination: Destination) -> None:
        if destination.qualified_name not in self._high:
            self._position += 1
            self._high[destination.qualified_name] = self._floor
            self._messages[destination.qualified_name] = {}

    def remove_destination(self, destination: Destination) -> None:
        high = self._high.pop(destination.qualified_name, None)
        if high is not None:
            self._position += 1
            self._floor = max(self._floor, high)
            del self._messages[destination.qualified_name]

    def position(self) -> int:
        return self._position

    def used_bytes(self) -> int:
        return 0

    def has_room(self) -> bool:
        return True

    def counted(self) -> list[Destination]:
        return []  # nothing is kept for longer than the broker's own counts

    def sums(self, destination: Destination | None) -> StoredSums | None:
        return None

    def link_sums(self) -> Sums:
        return Sums()

    # The driver

    def turn(self) -> int:
        """Simulate one turn of the loop: return the stored position and prepare the answers to fetches."""
        self._stored = self._position
        for request, destination, sequences in self._requests:
            messages = self._messages.get(destination.qualified_name, {})
            self._fetched.append((request, [messages.get(sequence) for sequence in sequences]))
        self._requests = []
        return self._stored

    def take_fetched(self) -> list[tuple[int, list[Message | None]]]:
        """Return (request, messages) for each answered fetch."""
        fetched = self._fetched
        self._fetched = []
        return fetched

    def _add(self, destination: Destination, message: Message) -> int:
        self.add_destination(destination)
        sequence = self._high[destination.qualified_name] + 1
        self._high[destination.qualified_name] = sequence
        self._messages[destination.qualified_name][sequence] = message
        return sequence
