"""Releases, slice by slice, the room of a removed destination and of the destination's messages.

Clients and the index no longer see the destination. Only the segments count each message as live until the slice of the
message, so no segment is dropped too early. After a crash recovery counts anew.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from spanwire.stores.journal.index.cleanup import SegmentTable
from spanwire.stores.journal.index.sequences import GONE, SequenceBlock, location_segment
from spanwire.stores.journal.index.stored_destination import NOTE_BYTES, StoredDestination
from spanwire.stores.journal.segments.record import record_size

MAX_RELEASED: Final = 8_192  # messages released in one slice: some milliseconds


class DestinationRemoval:
    """The messages and redelivery counts of ``owner``, whose removal is written in segment ``segment``."""

    __slots__ = ("_owner", "_segments", "segment")

    def __init__(self, owner: StoredDestination, segments: SegmentTable, segment: int) -> None:
        self._owner: Final[StoredDestination] = owner
        self._segments: Final[SegmentTable] = segments
        self.segment: Final[int] = segment

    def release(self, most: int) -> int:
        """Release whole blocks of messages, and redelivery counts, until at least ``most`` are released.

        Returns:
            The number of released messages and counts; below ``most`` when none is left.
        """
        released = 0
        index = self._owner.index
        while released < most:
            block = index.pop_block()
            if block is None:
                break
            released += block.count
            self._release_block(block)
        note_locations = self._owner.note_locations
        while released < most and note_locations:
            sequence, location = note_locations.popitem()
            self._owner.notes.pop(sequence, 0)
            self._segments.release(location_segment(location), 1, NOTE_BYTES, self.segment)
            released += 1
        return released

    def _release_block(self, block: SequenceBlock) -> None:
        """Release the messages of one block; neighbours of one segment are released together."""
        moving = self._owner.moving
        locations = block.locations
        lengths = block.lengths
        segment = -1
        count = 0
        size = 0
        for index in range(block.head, len(locations)):
            location = locations[index]
            if location == GONE:
                continue
            if moving:
                location = moving.pop(block.sequences[index], location)
            if location_segment(location) != segment:
                if count > 0:
                    self._segments.release(segment, count, size, self.segment)
                segment = location_segment(location)
                count = 0
                size = 0
            count += 1
            size += record_size(lengths[index])
        if count > 0:
            self._segments.release(segment, count, size, self.segment)


class DestinationRemovals:
    """All removals with unreleased messages, in the order of the removal records.

    A segment with such a removal record stays until the release, because without the record the messages would come
    back.
    """

    __slots__ = ("_removals", "_segments")

    def __init__(self, segments: SegmentTable) -> None:
        self._segments: Final[SegmentTable] = segments
        self._removals: Final[deque[DestinationRemoval]] = deque()

    @property
    def is_empty(self) -> bool:
        """Return True if all is released."""
        return not self._removals

    def add(self, owner: StoredDestination, segment: int) -> None:
        """Begin to release the room of ``owner``; ``segment`` has the removal record."""
        self._segments.pin(segment)
        self._removals.append(DestinationRemoval(owner, self._segments, segment))

    def release(self) -> int:
        """Release one slice.

        Returns:
            The number of released messages and redelivery counts, and one more for each destination.
        """
        released = 0
        while self._removals and released < MAX_RELEASED:
            most = MAX_RELEASED - released
            count = self._removals[0].release(most)
            released += count + 1
            if count < most:
                segment = self._removals.popleft().segment
                if not self._removals or self._removals[0].segment != segment:
                    self._segments.unpin(segment)
        return released

    def release_all(self) -> None:
        """Release everything, at a start."""
        while self._removals:
            self.release()
