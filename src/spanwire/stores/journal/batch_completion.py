"""Counts the entries of a written batch as stored."""

from __future__ import annotations

from typing import Final

from spanwire.broker.metadata import PRODUCER_AUDIT
from spanwire.stores.journal.audit_copies import AuditCopies
from spanwire.stores.journal.fetching.readers import Readers
from spanwire.stores.journal.index.index import JournalIndex
from spanwire.stores.journal.index.sequences import GONE
from spanwire.stores.journal.index.stored_destination import Entry
from spanwire.stores.journal.segments.record import AUDIT_MARK, MESSAGE, METADATA, MOVED, REFERENCE, SEGMENT_DROPPED


class BatchCompletion:
    """Reports entries that are on the disk to index, readers and audit."""

    __slots__ = ("_audit", "_index", "_readers")

    def __init__(self, index: JournalIndex, readers: Readers, audit: AuditCopies) -> None:
        self._index: Final[JournalIndex] = index
        self._readers: Final[Readers] = readers
        self._audit: Final[AuditCopies] = audit

    def complete(self, entries: list[Entry]) -> None:
        dropped: set[int] = set()
        for entry in entries:
            if entry.kind == MESSAGE:
                owner = entry.owner
                if owner.unwritten.get(entry.sequence) is entry:
                    del owner.unwritten[entry.sequence]
            elif entry.kind == SEGMENT_DROPPED:
                dropped.add(entry.sequence)
                self._readers.drop(entry.sequence)
            elif entry.kind > SEGMENT_DROPPED:
                self._complete_rare(entry)
        if dropped:
            self._index.drop_labels(dropped)  # what was moved out of them is read elsewhere since the batch before

    def _complete_rare(self, entry: Entry) -> None:
        kind = entry.kind
        owner = entry.owner
        if kind == MOVED or (kind == REFERENCE and entry.location != GONE):
            self._index.moved(owner, entry.sequence)
        elif kind == REFERENCE and owner.unwritten.get(entry.sequence) is entry:
            del owner.unwritten[entry.sequence]
        elif kind == METADATA and entry.table == PRODUCER_AUDIT and entry.payload == AUDIT_MARK:
            self._audit.waits = False
