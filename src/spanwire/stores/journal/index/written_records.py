"""The effects of encoded records on the index and the ledger."""

from __future__ import annotations

from typing import Final

from spanwire.model.ledger import LINK_SHIFT, NO_MESSAGE
from spanwire.stores.journal.index.index import JournalIndex
from spanwire.stores.journal.index.sequences import GONE
from spanwire.stores.journal.index.stored_destination import Entry
from spanwire.stores.journal.segments.record import (
    BODY,
    CANCELLED,
    DESTINATION,
    DESTINATION_REMOVED,
    FORMAT_MASK,
    MESSAGE,
    METADATA,
    METADATA_DISCARDED,
    MOVED,
    MOVED_BODY,
    ORIGIN_SHIFT,
    REDELIVERY,
    REFERENCE,
    REMOVAL,
    TRANSFER,
)
from spanwire.stores.journal.segments.transfers import MAX_GAPS, decode_transfer


class WrittenRecords:
    """Applies records in their order, as `spanwire.stores.journal.recovery.replay` does after a start."""

    __slots__ = ("_index",)

    def __init__(self, index: JournalIndex) -> None:
        self._index: Final[JournalIndex] = index

    def before(self, entry: Entry) -> None:
        """Note for the ledger whether a removal, or each part of a transfer, finds a message."""
        owner = entry.owner
        if entry.kind == REMOVAL and entry.location == GONE:
            entry.location = owner.take_out(entry.sequence)
            entry.length = owner.index.removed_length
            owner.leaving.discard(entry.sequence)
            if entry.location == GONE:
                entry.flags = NO_MESSAGE
            else:
                owner.departing += 1
        elif entry.kind == TRANSFER:
            runs = decode_transfer(entry.payload)
            if runs is not None:
                entry.format_id = min(self._index.absent(runs), MAX_GAPS)

    def written(self, entry: Entry, segment: int, offset: int, length: int) -> None:
        """Apply a record that is encoded at ``offset`` of ``segment``, with a payload of ``length`` bytes."""
        index = self._index
        owner = entry.owner
        kind = entry.kind
        entry.handed_over = True
        if kind == MESSAGE:
            entry.payload = b""
            index.written_message(owner, entry.sequence, segment, offset, length)
            index.came(owner, entry.format_id >> ORIGIN_SHIFT, 1)
        elif kind == REMOVAL:
            if entry.location != GONE:
                owner.departing -= 1
                index.written_removal(owner, entry.sequence, entry.location, entry.length, segment)
                index.went(owner, entry.flags | entry.format_id << LINK_SHIFT, 1)
        elif kind == REDELIVERY:
            index.written_redelivery(owner, entry.sequence, segment, offset)
        elif kind == REFERENCE:
            self._written_reference(entry, segment)
        else:
            self._written_rare(entry, segment, offset, length)

    def _written_reference(self, entry: Entry, segment: int) -> None:
        shared = entry.shared
        if shared is None:
            return
        index = self._index
        if entry.location != GONE:
            index.written_move(entry.owner, entry.sequence, entry.location, segment, shared.offset, shared.length)
        else:
            index.written_message(entry.owner, entry.sequence, segment, shared.offset, shared.length)
            index.came(entry.owner, entry.format_id >> ORIGIN_SHIFT, 1)

    def _written_rare(self, entry: Entry, segment: int, offset: int, length: int) -> None:
        index = self._index
        kind = entry.kind
        if kind == BODY or kind == MOVED_BODY:
            entry.payload = b""
            if entry.shared is not None:
                entry.shared.offset = offset
                entry.shared.length = length
        elif kind == MOVED:
            entry.payload = b""
            index.written_move(entry.owner, entry.sequence, entry.location, segment, offset, length)
        elif kind == CANCELLED:
            index.came(entry.owner, entry.format_id >> ORIGIN_SHIFT, 1)
            index.went(entry.owner, entry.flags | (entry.format_id & FORMAT_MASK) << LINK_SHIFT, 1)
        elif kind == DESTINATION:
            index.enter(entry.owner)
        elif kind == DESTINATION_REMOVED:
            index.written_destination_removal(entry.owner, segment)
        elif kind == METADATA:
            index.written_metadata(entry.table, entry.payload[: entry.sequence], segment, offset, length)
        elif kind == METADATA_DISCARDED:
            index.written_metadata_discard(entry.table, entry.payload, segment)
        elif kind == TRANSFER:
            self._written_transfer(entry, segment)

    def _written_transfer(self, entry: Entry, segment: int) -> None:
        runs = decode_transfer(entry.payload)
        if runs is not None:
            owner = entry.owner
            self._index.written_transfer(owner, entry.sequence, runs, entry.format_id, segment)
            for index, arrival in enumerate(owner.arriving):
                if arrival.first == entry.sequence:
                    del owner.arriving[index]
                    break
