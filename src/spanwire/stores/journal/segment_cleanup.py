"""Drops segments without live records or references, also after the removal of a destination."""

from __future__ import annotations

from typing import Final

from spanwire.stores.journal.active_segment import ActiveSegment
from spanwire.stores.journal.index.index import JournalIndex
from spanwire.stores.journal.outbox import Outbox
from spanwire.stores.journal.segments.record import SEGMENT_DROPPED


class SegmentCleanup:
    """Puts the records that drop segments into the outbox. The files go when such a record is on the disk."""

    __slots__ = ("_active", "_index", "_outbox")

    def __init__(self, index: JournalIndex, active: ActiveSegment, outbox: Outbox) -> None:
        self._index: Final[JournalIndex] = index
        self._active: Final[ActiveSegment] = active
        self._outbox: Final[Outbox] = outbox

    def release_removed(self) -> bool:
        """Release a slice of the messages of removed destinations; False if there is none."""
        removals = self._index.removals
        if removals.is_empty:
            return False
        removals.release()
        if removals.is_empty:
            self.drop_segments()
        return True

    def drop_segments(self) -> None:
        """Drop segments without live records or references."""
        for number in self._index.segments.droppable(self._active.number):
            self._index.drop_segment(number)
            self._outbox.record(SEGMENT_DROPPED, self._outbox.nobody, number, b"")
