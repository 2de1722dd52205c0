"""Decides which segments are still needed.

A segment stays while a message, redelivery count or metadata record in the segment is in force (``live``). A segment
also stays while it holds the end of a record in another segment (``refers``). Without a removal the message would come
back, without a moved record the old location would count, without a transfer the message would be in the old
destination. A dropped segment is deleted once a record on the disk says so. Check-points of later segments do not list
a dropped segment, so the file does no harm until then.
"""

from __future__ import annotations

from typing import Final

NOTHING_KEPT: Final = 1 << 62  # a number above all segments
MAX_DROPPED: Final = 1_000  # segments in one turn of the loop: some milliseconds, and files that the writer deletes
MAX_GONE: Final = 16  # references of a segment to segments that are gone until the references are forgotten


class SegmentState:
    """One segment.

    ``size`` is the size of file and summary, ``end`` the end of the last batch, 0 during writing.

    ``live_bytes`` are the records in force, ``held_bytes`` all records so far. A body that several destinations share
    counts in both for each destination. ``is_whole`` is False once a damaged record was found.
    """

    __slots__ = (
        "end",
        "held_bytes",
        "is_whole",
        "live",
        "live_bytes",
        "number",
        "refers",
        "seed",
        "size",
        "version",
    )

    def __init__(self, number: int, seed: int, version: int, size: int) -> None:
        self.number: Final[int] = number
        self.seed: Final[int] = seed
        self.version: Final[int] = version
        self.size = size
        self.end = 0
        self.live = 0
        self.live_bytes = 0
        self.held_bytes = 0
        self.refers: set[int] = set()
        self.is_whole = True

    def hold(self, size: int) -> None:
        """Count one more record of ``size`` bytes in force."""
        self.live += 1
        self.live_bytes += size
        self.held_bytes += size

    @property
    def true_live_bytes(self) -> int:
        """Estimate how many bytes compaction of the segment would write."""
        if self.held_bytes <= self.end:
            return self.live_bytes
        return self.live_bytes * self.end // self.held_bytes


class SegmentTable:
    """Counts what each segment holds, without I/O.

    ``used_bytes`` is the size of all files. Segments from ``keep_from`` on all stay.
    """

    __slots__ = ("_deletable", "by_number", "changed", "keep_from", "seeds", "used_bytes")

    def __init__(self) -> None:
        self.by_number: Final[dict[int, SegmentState]] = {}
        self.seeds: Final[dict[int, int]] = {}
        self._deletable: Final[dict[int, int]] = {}  # sizes of dropped segments whose files are there
        self.changed = False
        self.keep_from = NOTHING_KEPT
        self.used_bytes = 0

    def open(self, number: int, seed: int, version: int, size: int) -> SegmentState:
        """Add a segment."""
        state = SegmentState(number, seed, version, size)
        self.by_number[number] = state
        self.seeds[number] = seed
        self.used_bytes += size
        self.changed = True
        return state

    def seal(self, number: int, end: int) -> None:
        """Record the end of writing into a segment; the last batch ends at ``end``."""
        state = self.by_number.get(number)
        if state is not None:
            state.end = end

    def grow(self, number: int, size: int) -> None:
        """Add ``size`` bytes, which may be negative, to the files of the segment, with the summary."""
        state = self.by_number.get(number)
        if state is not None:
            self.used_bytes += size
            state.size += size

    def numbers(self) -> list[int]:
        """Return the needed segments in rising order."""
        return sorted(self.by_number)

    def hold(self, number: int, size: int) -> None:
        """Count one more live record of ``size`` bytes in the segment."""
        self.by_number[number].hold(size)

    def hold_many(self, number: int, count: int, size: int) -> None:
        """Count ``count`` more live records of ``size`` bytes each in the segment."""
        state = self.by_number[number]
        state.live += count
        state.live_bytes += count * size
        state.held_bytes += count * size

    def release(self, number: int, count: int, size: int, by: int) -> None:
        """Count the end of ``count`` records in segment ``number``, by a record in segment ``by``.

        The records have ``size`` bytes in all.
        """
        state = self.by_number[number]
        left = state.live - count
        state.live = left
        state.live_bytes -= size
        if by != number:
            self.by_number[by].refers.add(number)
        if left == 0:
            self.changed = True

    def refer(self, number: int, by: int) -> None:
        """Record that segment ``by`` holds a record about a live record in segment ``number``."""
        if by != number:
            self.by_number[by].refers.add(number)

    def pin(self, number: int) -> None:
        """Keep a segment until `unpin`, even without live records."""
        self.by_number[number].refers.add(number)

    def unpin(self, number: int) -> None:
        """Allow the deletion of a pinned segment without live records."""
        self.by_number[number].refers.discard(number)
        self.changed = True

    def droppable(self, active: int) -> list[int]:
        """Return segments that nothing needs any more, in rising order.

        At most `MAX_DROPPED` are returned, the next call has more.

        ``active`` is the segment that is being written.
        """
        if not self.changed:
            return []
        self.changed = False
        chosen: dict[int, bool] = {}
        for number in self.numbers():
            state = self.by_number[number]
            if number == active or state.live > 0 or number >= self.keep_from or self._refers(state, chosen):
                continue
            if len(chosen) == MAX_DROPPED:
                self.changed = True
                break
            chosen[number] = True
        return list(chosen)

    def _refers(self, state: SegmentState, chosen: dict[int, bool]) -> bool:
        """Return True if a segment refers to an existing segment outside of ``chosen``."""
        for number in state.refers:
            if number in self.by_number and number not in chosen:
                return True
        return False

    def has_references(self, state: SegmentState) -> bool:
        """Return True if a segment refers to an existing segment. A pinned segment refers to itself.

        A segment without references may be deleted once all records are dead.
        """
        return self._refers(state, {})

    def only_reference(self, state: SegmentState) -> int:
        """Return the only segment referred to by a segment, or 0 for none or several."""
        only = 0
        absent = 0
        for number in state.refers:
            if number not in self.by_number:
                absent += 1
            elif only > 0:
                return 0
            else:
                only = number
        if absent > MAX_GONE:
            state.refers = {number for number in state.refers if number in self.by_number}
        return only

    def drop(self, number: int) -> None:
        """Remove segment ``number``; the record of that is still to be written."""
        self._deletable[number] = self.by_number.pop(number).size

    def deleted(self, number: int) -> None:
        """Record that the file of a dropped segment is deleted."""
        self.seeds.pop(number, None)
        self.used_bytes -= self._deletable.pop(number, 0)
