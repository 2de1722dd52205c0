"""A message store for tests that says "stored" and answers reads only when the test wants it, and keeps a log.

`crash` gives what a broker finds after a power cut: exactly the calls up to the last position that was synced.
"""

from __future__ import annotations

from array import array
from typing import Final

from spanwire.broker.broker import Broker
from spanwire.broker.metadata import MetadataRecord
from spanwire.broker.persistence.recovered import Expirations, RecoveredDestination
from spanwire.broker.persistence.store_unit import StoreUnit, Transfer
from spanwire.broker.persistence.stored_sums import StoredSums
from spanwire.model.destination import QUEUE, STORED_SCHEMES, Destination
from spanwire.model.environment import Time
from spanwire.model.errors import ResourceAllocationError
from spanwire.model.ledger import ACKNOWLEDGED, MOVED_OUT, Sums
from spanwire.model.message import Message

NOWHERE: Final = Destination(QUEUE, "-")


class Change:
    """One thing a call did: ``kind`` of add, remove, note, make, drop, fact."""

    def __init__(
        self, position: int, kind: str, destination: Destination, sequence: int = 0, message: Message | None = None
    ) -> None:
        self.position = position
        self.kind = kind
        self.destination = destination
        self.sequence = sequence
        self.message = message
        self.count = 0
        self.metadata_record: MetadataRecord | None = None

    def __str__(self) -> str:
        return f"{self.kind} {self.destination} {self.sequence}"


class Pending:
    """A read that was asked for."""

    def __init__(self, request: int, destination: Destination, sequences: list[int]) -> None:
        self.request = request
        self.destination = destination
        self.sequences = sequences


class LateStore:
    """Duck-typed to `spanwire.broker.ports.Store`."""

    def __init__(self) -> None:
        self.log: list[Change] = []
        self.synced = 0
        self.reads: list[Pending] = []
        self.refused: Exception | None = None
        self.metadata: dict[int, dict[bytes, bytes]] = {}
        self.used = 0
        self.room = True
        self._position = 0
        self._messages: dict[str, dict[int, Message]] = {}
        self._not_copied: dict[str, set[int]] = {}  # of the store before a crash, which the broker did not read yet
        self._redeliveries: dict[str, dict[int, int]] = {}
        self._high: dict[str, int] = {}
        self.ledgers: dict[str, Sums] = {}

    # The port

    def append(self, destination: Destination, message: Message) -> int:
        self._position += 1
        return self._add(destination, message)

    def remove(self, destination: Destination, sequence: int, way: int = ACKNOWLEDGED) -> None:
        self._position += 1
        self._remove(destination, sequence, way)

    def remove_all(self, destination: Destination, sequences: list[int], way: int = ACKNOWLEDGED) -> None:
        for sequence in sequences:
            self.remove(destination, sequence, way)

    def next_sequence(self, destination: Destination) -> int:
        return self._high.get(destination.qualified_name, 0) + 1

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
        if self.refused is not None:
            raise self.refused
        if additions and not self.room:
            raise ResourceAllocationError("the disk of the message store is full: try again when there is room")
        self._position += 1
        sequences = [self._add(destination, message) for destination, message in additions]
        for destination, sequence in removals:
            self._remove(destination, sequence, way)
        for metadata_record in metadata:
            self._put(metadata_record)
        return sequences

    def append_gathered(self, unit: StoreUnit, metadata: list[MetadataRecord]) -> None:
        removals = [
            (own.destination, sequence)
            for own in unit.removals()
            for sequence in own.sequences
            if own.way == ACKNOWLEDGED or unit.transfers
        ]
        if unit.transfers:
            transfers = [transfer.transfer() for transfer in unit.transfers]
            unit.take_transferred(self.transfer_unit(transfers, removals, [*metadata, *unit.metadata]))
            return
        additions = [
            (line.destination, message) for line, message in zip(unit.additions_of, unit.messages, strict=True)
        ]
        sequences = self.append_unit(additions, removals, [*metadata, *unit.metadata])
        for own in unit.removals():
            if own.way != ACKNOWLEDGED:
                for sequence in own.sequences:
                    self._remove(own.destination, sequence, own.way)
        for line, sequence in zip(reversed(unit.additions_of), reversed(sequences), strict=True):
            line.first = sequence

    def transfer_unit(
        self, transfers: list[Transfer], removals: list[tuple[Destination, int]], metadata: list[MetadataRecord]
    ) -> list[int]:
        if self.refused is not None:
            raise self.refused
        if transfers and not self.room:
            raise ResourceAllocationError("the disk of the message store is full: try again when there is room")
        self._position += 1
        firsts: list[int] = []
        for transfer in transfers:
            name = transfer.target.qualified_name
            self._high.setdefault(name, 0)
            firsts.append(self._high[name] + 1)
            kept = self._messages.get(transfer.source.qualified_name, {})
            for sequence in transfer.sequences:
                message = kept.get(sequence)
                if message is None:
                    self._high[name] += 1  # what is not there leaves a gap
                else:
                    self._add(transfer.target, message.twin())
                    self._remove(transfer.source, sequence, MOVED_OUT)
        for destination, sequence in removals:
            self._remove(destination, sequence, ACKNOWLEDGED)
        for metadata_record in metadata:
            self._put(metadata_record)
        return firsts

    def put_metadata(self, table: int, key: bytes, value: bytes) -> None:
        self._position += 1
        self._put(MetadataRecord(table, key, value))

    def discard_metadata(self, table: int, key: bytes) -> None:
        self._position += 1
        self._put(MetadataRecord(table, key, None))

    def used_bytes(self) -> int:
        return self.used

    def counted(self) -> list[Destination]:
        return []

    def sums(self, destination: Destination | None) -> StoredSums | None:
        return None if destination is None else StoredSums(self.ledger_of(destination), len(self.kept(destination)))

    def link_sums(self) -> Sums:
        return Sums()

    def has_room(self) -> bool:
        return self.room

    def note_redelivery(self, destination: Destination, sequence: int, redelivery_count: int) -> None:
        self._position += 1
        change = Change(self._position, "note", destination, sequence)
        change.count = redelivery_count
        self.log.append(change)

    def fetch(self, request: int, destination: Destination, sequences: list[int]) -> None:
        self.reads.append(Pending(request, destination, sequences))

    def sizes(self, destination: Destination, sequences: list[int]) -> list[int]:
        kept = self._messages.get(destination.qualified_name, {})
        return [kept[sequence].size if sequence in kept else 0 for sequence in sequences]

    def add_destination(self, destination: Destination) -> None:
        self._position += 1
        self._messages.setdefault(destination.qualified_name, {})
        self.log.append(Change(self._position, "make", destination))

    def remove_destination(self, destination: Destination) -> None:
        self._position += 1
        self._messages.pop(destination.qualified_name, None)
        self.log.append(Change(self._position, "drop", destination))

    def position(self) -> int:
        return self._position

    # What the tests do

    def sync(self, broker: Broker, now: Time, position: int = -1) -> None:
        """All calls so far, or those up to ``position``, are safe."""
        self.synced = self._position if position < 0 else position
        broker.stored(self.synced, now)

    def answer(self, broker: Broker, now: Time, place: int = 0) -> int:
        """Answer one of the reads that wait; gives how many messages it asked for."""
        pending = self.reads.pop(place)
        name = pending.destination.qualified_name
        kept = self._messages.get(name, {})
        if not_copied := self._not_copied.get(name):
            for sequence in not_copied.intersection(pending.sequences):
                not_copied.remove(sequence)
                if sequence in kept:
                    kept[sequence] = kept[sequence].twin()
        broker.on_fetched(pending.request, [kept.get(sequence) for sequence in pending.sequences], now)
        return len(pending.sequences)

    def read(self, destination: Destination, sequences: list[int]) -> list[Message | None]:
        """What an operator's read gets: messages beside those of the broker."""
        kept = self._messages.get(destination.qualified_name, {})
        return [kept.get(sequence) for sequence in sequences]

    def lose(self, destination: Destination, sequence: int) -> None:
        """A message is missing though nobody removed it."""
        del self._messages[destination.qualified_name][sequence]

    def kept(self, destination: Destination) -> list[Message]:
        """The messages of one destination, synced or not, by sequence."""
        kept = self._messages.get(destination.qualified_name, {})
        return [kept[sequence] for sequence in sorted(kept)]

    def calls(self, kind: str) -> list[str]:
        """The log of one kind, as text."""
        return [str(change) for change in self.log if change.kind == kind]

    def crash(self, position: int = -1) -> LateStore:
        """The store after a power cut: what was synced, or everything up to ``position``."""
        limit = self.synced if position < 0 else position
        found = LateStore()
        for change in self.log:
            if change.position > limit:
                break
            found._replay(change)
            found.log.append(change)
        for change in found.log:
            change.position = 0  # what was found at the start is safe
        # Nobody holds these messages any more. Each is copied when the broker reads it: few tests read all.
        found._not_copied = {name: set(kept) for name, kept in found._messages.items()}
        found._high = {name: high + 1 for name, high in self._high.items()}
        return found

    def recovered(self) -> list[RecoveredDestination]:
        """What `Broker.recover` gets."""
        found: list[RecoveredDestination] = []
        for name, kept in self._messages.items():
            destination = _destination(name)
            sequences = array("q", sorted(kept))
            redeliveries = dict(self._redeliveries.get(name, {}))
            priorities = {sequence: kept[sequence].priority for sequence in sequences if kept[sequence].priority != 4}
            expiring = [sequence for sequence in sequences if kept[sequence].expiration_ms > 0]
            times = [kept[sequence].expiration_ms for sequence in expiring]
            expirations = Expirations(array("q", expiring), array("q", times))
            found.append(RecoveredDestination(destination, sequences, redeliveries, priorities, expirations))
        return found

    def _replay(self, change: Change) -> None:
        name = change.destination.qualified_name
        if change.kind == "add":  # most of all changes
            assert change.message is not None
            self._messages.setdefault(name, {})[change.sequence] = change.message
        elif change.kind == "remove":
            self._messages.get(name, {}).pop(change.sequence, None)
            self._redeliveries.get(name, {}).pop(change.sequence, None)
        elif change.kind == "make":
            self._messages.setdefault(name, {})
        elif change.kind == "drop":
            self._messages.pop(name, None)
        elif change.kind == "fact":
            assert change.metadata_record is not None
            self._apply(change.metadata_record)
        else:
            assert change.kind == "note"
            if change.sequence in self._messages.get(name, {}):
                self._redeliveries.setdefault(name, {})[change.sequence] = change.count

    def ledger_of(self, destination: Destination) -> Sums:
        """What came to a destination and left it, by the words of the calls."""
        return self.ledgers.setdefault(destination.qualified_name, Sums())

    def _add(self, destination: Destination, message: Message) -> int:
        name = destination.qualified_name
        sequence = self._high.get(name, 0) + 1
        self._high[name] = sequence
        self._messages.setdefault(name, {})[sequence] = message
        self.ledger_of(destination).came(message.origin, 1)
        self.log.append(Change(self._position, "add", destination, sequence, message))
        return sequence

    def _put(self, metadata_record: MetadataRecord) -> None:
        self._apply(metadata_record)
        change = Change(self._position, "fact", NOWHERE)
        change.metadata_record = metadata_record
        self.log.append(change)

    def _apply(self, metadata_record: MetadataRecord) -> None:
        if metadata_record.value is None:
            self.metadata.get(metadata_record.table, {}).pop(metadata_record.key, None)
        else:
            self.metadata.setdefault(metadata_record.table, {})[metadata_record.key] = metadata_record.value

    def _remove(self, destination: Destination, sequence: int, way: int) -> None:
        gone = self._messages.get(destination.qualified_name, {}).pop(sequence, None)
        if gone is not None:
            self.ledger_of(destination).went(way, 1)
        self.log.append(Change(self._position, "remove", destination, sequence))


def _destination(qualified_name: str) -> Destination:
    for kind, scheme in enumerate(STORED_SCHEMES):
        if qualified_name.startswith(scheme):
            return Destination(kind, qualified_name.removeprefix(scheme))
    raise AssertionError(qualified_name)
