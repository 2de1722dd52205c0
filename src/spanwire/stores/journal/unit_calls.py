"""Calls of the broker with several changes: all changes of a call count, or none."""

from __future__ import annotations

from typing import Final

from spanwire.broker.metadata import MetadataRecord
from spanwire.broker.persistence.store_unit import StoreUnit, Transfer
from spanwire.model.destination import Destination
from spanwire.model.errors import ResourceAllocationError
from spanwire.model.ledger import ACKNOWLEDGED
from spanwire.model.message import Message
from spanwire.stores.journal.index.index import JournalIndex
from spanwire.stores.journal.index.stored_destination import OwnedRemovals, StoredDestination
from spanwire.stores.journal.outbox import Outbox, check_unit, check_unit_bytes, moved_bytes, transfer_bytes, unit_bytes
from spanwire.stores.journal.segments.record import DESTINATION
from spanwire.stores.journal.space import DiskSpace


class UnitCalls:
    """Queues the records of such calls, and of new destinations."""

    __slots__ = ("_index", "_outbox", "_space")

    def __init__(self, index: JournalIndex, outbox: Outbox, space: DiskSpace) -> None:
        self._index: Final[JournalIndex] = index
        self._outbox: Final[Outbox] = outbox
        self._space: Final[DiskSpace] = space

    def create(self, destination: Destination) -> StoredDestination:
        owner = self._index.create(destination)
        self._outbox.position += 1
        self._outbox.has_additions = True
        self._outbox.record(DESTINATION, owner, owner.high, destination.qualified_name.encode("utf-8", "surrogatepass"))
        return owner

    def _owners(self, destinations: list[Destination]) -> list[StoredDestination]:
        return [self._index.by_name.get(known.qualified_name) or self.create(known) for known in destinations]

    def append_shared(self, destinations: list[Destination], message: Message) -> list[int]:
        """See `UnitStore.append_shared`."""
        if not destinations:
            return []
        owners = self._owners(destinations)
        self._outbox.position += 1
        self._outbox.has_additions = True
        if len(owners) == 1:
            return [self._outbox.message(owners[0], message)]
        before, size = len(self._outbox.entries), self._outbox.size
        sequences = self._outbox.references(owners, message)
        self._outbox.note_call(before, size)
        return sequences

    def append_unit(
        self,
        additions: list[tuple[Destination, Message]],
        removals: list[tuple[Destination, int]],
        metadata: list[MetadataRecord],
        way: int,
    ) -> list[int]:
        """See `UnitStore.append_unit`; raises `ResourceAllocationError` for a unit above `MAX_UNIT_BYTES`."""
        check_unit(additions, removals, metadata)
        if additions and not self._space.has_room:
            raise ResourceAllocationError("the disk of the message store is full: try again when there is room")
        owners = self._owners([addition[0] for addition in additions])
        before, size = self._begin_unit()
        sequences: list[int] = []
        for index, addition in enumerate(additions):
            sequences.append(self._outbox.message(owners[index], addition[1]))
        self._end_unit(removals, metadata, before, size, way)
        return sequences

    def append_gathered(self, unit: StoreUnit, metadata: list[MetadataRecord]) -> None:
        """See `UnitStore.append_gathered`; raises the errors of `append_unit`."""
        removals: list[OwnedRemovals] = []
        for wanted in unit.removals():
            owner = self._index.by_name.get(wanted.destination.qualified_name)
            if owner is not None:
                removals.append(OwnedRemovals(owner, wanted.sequences, wanted.way))
        size = unit_bytes(unit, removals) + moved_bytes(unit, self._outbox.slice_records)
        check_unit_bytes(size, metadata)
        if (unit.messages or unit.transfers) and not self._space.has_room:
            raise ResourceAllocationError("the disk of the message store is full: try again when there is room")
        owners = self._owners([target.destination for target in unit.targets()])
        if not (unit.messages or unit.transfers or removals or unit.metadata or metadata):
            return
        self._begin_unit()
        for metadata_record in metadata:
            self._outbox.put_metadata(metadata_record.table, metadata_record.key, metadata_record.value)
        if unit.messages or unit.transfers or removals or unit.metadata:
            by_name = self._index.by_name
            sources = [by_name.get(transfer.source.qualified_name) for transfer in unit.transfers]
            self._outbox.unit(unit, owners, removals, sources)

    def transfer_unit(
        self, transfers: list[Transfer], removals: list[tuple[Destination, int]], metadata: list[MetadataRecord]
    ) -> list[int]:
        """See `UnitStore.transfer_unit`; raises the errors of `append_unit`."""
        by_name = self._index.by_name
        sources = [by_name.get(transfer.source.qualified_name) for transfer in transfers]
        size = 0
        for index, transfer in enumerate(transfers):
            size += transfer_bytes(sources[index], transfer.sequences)
        check_unit([], removals, metadata, size)
        if transfers and not self._space.has_room:
            raise ResourceAllocationError("the disk of the message store is full: try again when there is room")
        targets = self._owners([transfer.target for transfer in transfers])
        before, size = self._begin_unit()
        firsts: list[int] = []
        for index, transfer in enumerate(transfers):
            firsts.append(self._outbox.transfer(sources[index], targets[index], transfer.sequences))
        self._end_unit(removals, metadata, before, size, ACKNOWLEDGED)
        return firsts

    def _begin_unit(self) -> tuple[int, int]:
        self._outbox.position += 1
        self._outbox.has_additions = True
        return len(self._outbox.entries), self._outbox.size

    def _end_unit(
        self, removals: list[tuple[Destination, int]], metadata: list[MetadataRecord], before: int, size: int, way: int
    ) -> None:
        for destination, sequence in removals:
            owner = self._index.by_name.get(destination.qualified_name)
            if owner is not None:
                self._outbox.remove_in_unit(owner, sequence, way)
        for metadata_record in metadata:
            self._outbox.put_metadata(metadata_record.table, metadata_record.key, metadata_record.value)
        if len(self._outbox.entries) == before:
            self._outbox.position -= 1  # nothing to write, so nothing would ever report this position
        else:
            self._outbox.note_call(before, size)
