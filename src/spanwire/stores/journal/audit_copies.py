"""Copies of the producer audit in the journal, one for each segment.

So a start reads only the newest segments.
"""

from __future__ import annotations

from spanwire.broker.metadata import PRODUCER_AUDIT
from spanwire.broker.ports import AuditSource
from spanwire.stores.journal.index.index import JournalIndex
from spanwire.stores.journal.outbox import Outbox
from spanwire.stores.journal.segments.record import AUDIT_MARK


class AuditCopies:
    """Queues copies behind all queued calls.

    The messages of a copy are on the disk before the copy.

    ``waits`` is True until a queued copy is written. All segments from the newest copy on are kept: only their messages
    show later sends.
    """

    __slots__ = ("_segment", "_source", "waits")

    def __init__(self, segment: int) -> None:
        self._segment = segment  # the one with the newest copy that recovery found, or 0
        self._source: AuditSource | None = None
        self.waits = False

    def attach(self, source: AuditSource, index: JournalIndex, active: int) -> None:
        """Copy ``source`` from now on."""
        self._source = source
        index.segments.keep_from = self._segment if self._segment > 0 else active

    def copy(self, index: JournalIndex, outbox: Outbox) -> None:
        """Queue a copy, unless a copy is queued already."""
        source = self._source
        if source is None or self.waits:
            return
        self.waits = True
        outbox.position += 1
        gone = set(index.metadata.get(PRODUCER_AUDIT, {}))
        for metadata_record in source.audit_metadata():
            gone.discard(metadata_record.key)
            outbox.put_metadata(PRODUCER_AUDIT, metadata_record.key, metadata_record.value)
        for key in gone:
            outbox.put_metadata(PRODUCER_AUDIT, key, None)
        outbox.put_metadata(PRODUCER_AUDIT, AUDIT_MARK, b"")
