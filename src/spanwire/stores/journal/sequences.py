"""Which sequences of one line there are and where each lies, in memory, 20 bytes each."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from typing import Final

OFFSET_BITS: Final = 29  # offsets count in units of 8 bytes, so a segment may have 4 GiB
OFFSET_MASK: Final = (1 << OFFSET_BITS) - 1
GONE: Final = -1
MIN_COMPACTION: Final = 1024  # entries below which holes are not worth closing
MAX_LATE_RUNS: Final = 8  # rising runs of late sequences that are looked through before they are merged


def packed_location(segment: int, offset: int) -> int:
    """Segment and offset in one number."""
    return segment << OFFSET_BITS | offset >> 3


def location_segment(location: int) -> int:
    """The segment of a packed location."""
    return location >> OFFSET_BITS


def location_offset(location: int) -> int:
    """The offset of a packed location."""
    return (location & OFFSET_MASK) << 3


class SequenceIndex:
    """Sequences in rising order, with location and payload length; holes are closed now and then.

    A start also finds messages that were moved, behind newer ones: `restore` keeps these late ones in rising runs of
    their own, which `settle` merges. ``removed_length`` is the payload length of what `remove` last found.
    """

    __slots__ = ("_count", "_head", "_late", "_lengths", "_locations", "_sequences", "removed_length")

    def __init__(self) -> None:
        self._sequences: array[int] = array("q")
        self._locations: array[int] = array("q")
        self._lengths: array[int] = array("I")
        self._head = 0
        self._count = 0
        self._late: list[SequenceIndex] = []
        self.removed_length = 0

    def __len__(self) -> int:
        count = self._count
        for run in self._late:
            count += len(run)
        return count

    def add(self, sequence: int, location: int, length: int) -> None:
        """Take a sequence above all others."""
        self._sequences.append(sequence)
        self._locations.append(location)
        self._lengths.append(length)
        self._count += 1

    def add_run(self, sequence: int, location: int, step: int, length: int, count: int) -> None:
        """Take ``count`` sequences one after the other, above all others, that lie ``step`` apart; all as long."""
        self._sequences.extend(range(sequence, sequence + count))
        self._locations.extend(range(location, location + step * count, step))
        self._lengths.extend(array("I", [length]) * count)
        self._count += count

    def is_above(self, sequence: int) -> bool:
        """Whether ``sequence`` lies above all others."""
        return not self._sequences or sequence > self._sequences[-1]

    def restore(self, sequence: int, location: int, length: int) -> int:
        """Take a sequence that may lie below others or be there already; gives its old location, or `GONE`.

        The new location counts: records are found in the order in which they were written.
        """
        if not self._sequences or sequence > self._sequences[-1]:
            self.add(sequence, location, length)
            return GONE
        old = self._replace(sequence, location, length)
        if old != GONE:
            return old
        for run in self._late:
            old = run._replace(sequence, location, length)
            if old != GONE:
                return old
        self._add_late(sequence, location, length)
        return GONE

    def settle(self) -> None:
        """Merge what was restored late; to be called when all is restored."""
        for run in self._late:
            self._merge(run)
        self._late = []

    def find(self, sequence: int) -> int:
        """The packed location, or `GONE`."""
        place = self._place(sequence)
        if place >= 0 and (self._locations[place] != GONE or not self._late):
            return self._locations[place]
        for run in self._late:
            location = run.find(sequence)
            if location != GONE:
                return location
        return GONE

    def length(self, sequence: int) -> int:
        """The payload length of a sequence that is there."""
        return self._lengths[self._place(sequence)]

    def move(self, sequence: int, location: int) -> None:
        """A sequence that is there lies elsewhere from now on."""
        self._locations[self._place(sequence)] = location

    def remove(self, sequence: int) -> int:
        """Forget a sequence; gives its packed location, or `GONE` if it is not there."""
        place = self._place(sequence)
        location = self._locations[place] if place >= 0 else GONE
        if location == GONE:
            return self._remove_late(sequence) if self._late else GONE
        self.removed_length = self._lengths[place]
        self._locations[place] = GONE
        self._count -= 1
        if place == self._head:
            self._advance()
        if len(self._sequences) > MIN_COMPACTION and self._count * 2 < len(self._sequences):
            self._compact()
        return location

    def sequences(self) -> array[int]:
        """All sequences in rising order, a copy."""
        if self._count == len(self._sequences):
            return self._sequences[:]
        found: array[int] = array("q")
        for place in range(self._head, len(self._sequences)):
            if self._locations[place] != GONE:
                found.append(self._sequences[place])
        return found

    def locations(self) -> array[int]:
        """Where they lie, in the same order, a copy."""
        found: array[int] = array("q")
        for location in self._locations:
            if location != GONE:
                found.append(location)
        return found

    def lengths(self) -> array[int]:
        """Their payload lengths, in the same order, a copy."""
        found: array[int] = array("I")
        for place in range(self._head, len(self._sequences)):
            if self._locations[place] != GONE:
                found.append(self._lengths[place])
        return found

    def clear(self) -> None:
        """Forget everything."""
        self._sequences = array("q")
        self._locations = array("q")
        self._lengths = array("I")
        self._head = 0
        self._count = 0
        self._late = []

    def _place(self, sequence: int) -> int:
        sequences = self._sequences
        head = self._head
        if head < len(sequences) and sequences[head] == sequence:
            return head
        place = bisect_left(sequences, sequence, head)
        if place < len(sequences) and sequences[place] == sequence:
            return place
        return -1

    def _advance(self) -> None:
        head = self._head
        end = len(self._locations)
        while head < end and self._locations[head] == GONE:
            head += 1
        self._head = head

    def _compact(self) -> None:
        sequences: array[int] = array("q")
        locations: array[int] = array("q")
        lengths: array[int] = array("I")
        for place in range(self._head, len(self._sequences)):
            location = self._locations[place]
            if location != GONE:
                sequences.append(self._sequences[place])
                locations.append(location)
                lengths.append(self._lengths[place])
        self._sequences = sequences
        self._locations = locations
        self._lengths = lengths
        self._head = 0

    def _replace(self, sequence: int, location: int, length: int) -> int:
        place = self._place(sequence)
        if place < 0 or self._locations[place] == GONE:
            return GONE
        old = self._locations[place]
        self._locations[place] = location
        self._lengths[place] = length
        return old

    def _add_late(self, sequence: int, location: int, length: int) -> None:
        for run in self._late:
            if run._sequences[-1] < sequence:
                run.add(sequence, location, length)
                return
        if len(self._late) == MAX_LATE_RUNS:
            self.settle()
        run = SequenceIndex()
        run.add(sequence, location, length)
        self._late.append(run)

    def _remove_late(self, sequence: int) -> int:
        for run in self._late:
            location = run.remove(sequence)
            if location != GONE:
                self.removed_length = run.removed_length
                return location
        return GONE

    def _merge(self, run: SequenceIndex) -> None:
        """Stretches of both are copied whole: what was moved together mostly lies together."""
        self._compact()
        run._compact()
        merged = SequenceIndex()
        place = 0
        other = 0
        while other < len(run._sequences):
            stretch = bisect_left(self._sequences, run._sequences[other], place)
            merged._extend(self, place, stretch)
            place = stretch
            end = len(run._sequences)
            if place < len(self._sequences):
                end = bisect_left(run._sequences, self._sequences[place], other)
            merged._extend(run, other, end)
            other = end
        merged._extend(self, place, len(self._sequences))
        self._sequences = merged._sequences
        self._locations = merged._locations
        self._lengths = merged._lengths
        self._count = len(merged._sequences)

    def _extend(self, source: SequenceIndex, start: int, end: int) -> None:
        self._sequences.extend(source._sequences[start:end])
        self._locations.extend(source._locations[start:end])
        self._lengths.extend(source._lengths[start:end])
