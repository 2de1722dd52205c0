"""Which sequences of one line there are and where each lies, in memory, 20 bytes each.

They stand in rising order in blocks of some thousand, so that no call has to touch more than one of them, however long
the line is.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from typing import Final

OFFSET_BITS: Final = 29  # offsets count in units of 8 bytes, so a segment may have 4 GiB
OFFSET_MASK: Final = (1 << OFFSET_BITS) - 1
GONE: Final = -1
BLOCK_SEQUENCES: Final = 4096  # of one block: closing its holes takes some ten microseconds
MIN_COMPACTION: Final = 64  # entries of a block below which its holes are not worth closing
MAX_LATE_RUNS: Final = 8  # rising runs of late sequences that are looked through before they are merged
STRETCH_GROWTH: Final = 4  # of neighbours that are compared together, for as long as all of them fit


def packed_location(segment: int, offset: int) -> int:
    """Segment and offset in one number."""
    return segment << OFFSET_BITS | offset >> 3


def location_segment(location: int) -> int:
    """The segment of a packed location."""
    return location >> OFFSET_BITS


def location_offset(location: int) -> int:
    """The offset of a packed location."""
    return (location & OFFSET_MASK) << 3


class SequenceBlock:
    """Neighbours in rising order, at most `BLOCK_SEQUENCES`; where one left is `GONE`. Nothing is left before ``head``,
    ``count`` are left. ``last`` is where one was looked for last: mostly the next one comes next.
    """

    __slots__ = ("count", "head", "last", "lengths", "locations", "sequences")

    def __init__(self) -> None:
        self.sequences: array[int] = array("q")
        self.locations: array[int] = array("q")
        self.lengths: array[int] = array("I")
        self.head = 0
        self.count = 0
        self.last = 0

    def place(self, sequence: int) -> int:
        """Where a sequence stands, or stood; -1 if it does not."""
        sequences = self.sequences
        end = len(sequences)
        head = self.head
        if head < end and sequences[head] == sequence:
            return head
        last = self.last
        if last + 1 < end:
            if sequences[last + 1] == sequence:
                self.last = last + 1
                return last + 1
            if sequences[last] == sequence:
                return last
        place = bisect_left(sequences, sequence, head)
        if place < end and sequences[place] == sequence:
            self.last = place
            return place
        return -1

    def stretch(self, place: int, wanted: array[int], first: int) -> int:
        """How many of ``wanted`` from index ``first`` on certainly stand side by side from ``place`` on, at least a
        fourth of those that do. What is compared in vain is never much more than what is found.
        """
        sequences = self.sequences
        most = min(len(sequences) - place, len(wanted) - first)
        if most < 2 or sequences[place + 1] != wanted[first + 1]:
            return 1
        known = 2
        step = STRETCH_GROWTH
        while known < most:
            end = min(known + step, most)
            if sequences[place + known : place + end] != wanted[first + known : first + end]:
                break
            known = end
            step *= STRETCH_GROWTH
        return known

    def holds_all(self, place: int, count: int) -> bool:
        """Whether nothing of the ``count`` sequences from ``place`` on is gone."""
        if place >= self.head and self.count == len(self.sequences) - self.head:
            return True
        return GONE not in self.locations[place : place + count]

    def take_stretch(self, place: int, count: int) -> None:
        """The ``count`` sequences from ``place`` on, all of which are there, are gone."""
        locations = self.locations
        end = place + count
        locations[place:end] = array("q", [GONE]) * count
        self.count -= count
        if place == self.head:
            last = len(locations)
            while end < last and locations[end] == GONE:
                end += 1
            self.head = end

    def take(self, place: int) -> None:
        """The sequence at ``place`` is gone."""
        locations = self.locations
        locations[place] = GONE
        self.count -= 1
        end = len(locations)
        if place == self.head:
            place += 1
            while place < end and locations[place] == GONE:
                place += 1
            self.head = place

    def compact(self) -> None:
        """Close the holes."""
        head = self.head
        if self.count == len(self.sequences) - head:  # all of them are in front, as where the oldest leave first
            del self.sequences[:head]
            del self.locations[:head]
            del self.lengths[:head]
            self.head = 0
            return
        sequences: array[int] = array("q")
        locations: array[int] = array("q")
        lengths: array[int] = array("I")
        for place in range(head, len(self.sequences)):
            location = self.locations[place]
            if location != GONE:
                sequences.append(self.sequences[place])
                locations.append(location)
                lengths.append(self.lengths[place])
        self.sequences = sequences
        self.locations = locations
        self.lengths = lengths
        self.head = 0

    def join(self, other: SequenceBlock) -> None:
        """Take those of the block that follows."""
        self.sequences.extend(other.sequences)
        self.locations.extend(other.locations)
        self.lengths.extend(other.lengths)
        self.count += other.count


class SequenceIndex:
    """Sequences in rising order, with location and payload length; holes are closed now and then.

    A start also finds messages that were moved, behind newer ones: `restore` keeps these late ones in rising runs of
    their own, which `settle` merges. ``removed_length`` is the payload length of what `remove` last found.
    """

    __slots__ = ("_blocks", "_count", "_late", "_lowest", "removed_length")

    def __init__(self) -> None:
        self._blocks: list[SequenceBlock] = [SequenceBlock()]  # nothing is left in none, unless it is the only one
        self._lowest: array[int] = array("q", [0])  # a sequence of each block that none before it reaches
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
        tail = self._blocks[-1]
        if len(tail.sequences) >= BLOCK_SEQUENCES:
            tail = self._begin(sequence)
        tail.sequences.append(sequence)
        tail.locations.append(location)
        tail.lengths.append(length)
        tail.count += 1
        self._count += 1

    def add_run(self, sequence: int, location: int, step: int, length: int, count: int) -> None:
        """Take ``count`` sequences one after the other, above all others, that lie ``step`` apart; all as long."""
        while count > 0:
            tail = self._blocks[-1]
            if len(tail.sequences) >= BLOCK_SEQUENCES:
                tail = self._begin(sequence)
            some = min(count, BLOCK_SEQUENCES - len(tail.sequences))
            tail.sequences.extend(range(sequence, sequence + some))
            tail.locations.extend(range(location, location + step * some, step))
            tail.lengths.extend(array("I", [length]) * some)
            tail.count += some
            self._count += some
            sequence += some
            location += step * some
            count -= some

    def is_above(self, sequence: int) -> bool:
        """Whether ``sequence`` lies above all others."""
        tail = self._blocks[-1]
        return len(tail.sequences) == 0 or sequence > tail.sequences[-1]

    def restore(self, sequence: int, location: int, length: int) -> int:
        """Take a sequence that may lie below others or be there already; gives its old location, or `GONE`.

        The new location counts: records are found in the order in which they were written.
        """
        if self.is_above(sequence):
            if not self._late:
                self.add(sequence, location, length)
                return GONE
            old = self._replace_late(sequence, location, length)
            if old == GONE:
                self.add(sequence, location, length)
            return old
        old = self._replace(sequence, location, length)
        if old == GONE:
            old = self._replace_late(sequence, location, length)
        if old == GONE:
            self._add_late(sequence, location, length)
        return old

    def settle(self) -> None:
        """Merge what was restored late; to be called when all is restored."""
        for run in self._late:
            self._merge(run)
        self._late = []

    def find(self, sequence: int) -> int:
        """The packed location, or `GONE`."""
        block = self._block(sequence)
        place = block.place(sequence)
        if place >= 0 and (block.locations[place] != GONE or not self._late):
            return block.locations[place]
        for run in self._late:
            location = run.find(sequence)
            if location != GONE:
                return location
        return GONE

    def look_up(self, sequences: list[int], locations: list[int], lengths: list[int]) -> None:
        """Add the packed location of each, or `GONE`, and its payload length, which means nothing for one that is gone.

        Neighbours that are asked for one after the other are found together.
        """
        if self._late:
            self.settle()
        wanted = array("q", sequences)
        first = 0
        end = len(sequences)
        while first < end:
            block = self._block(sequences[first])
            place = block.place(sequences[first])
            if place < 0:
                locations.append(GONE)
                lengths.append(0)
                first += 1
                continue
            count = block.stretch(place, wanted, first)
            if count == 1:
                locations.append(block.locations[place])
                lengths.append(block.lengths[place])
            else:
                locations.extend(block.locations[place : place + count].tolist())
                lengths.extend(block.lengths[place : place + count].tolist())
                block.last = place + count - 1
            first += count

    def length(self, sequence: int) -> int:
        """The payload length of a sequence that is there."""
        block = self._block(sequence)
        return block.lengths[block.place(sequence)]

    def move(self, sequence: int, location: int) -> None:
        """A sequence that is there lies elsewhere from now on."""
        block = self._block(sequence)
        block.locations[block.place(sequence)] = location

    def remove(self, sequence: int) -> int:
        """Forget a sequence; gives its packed location, or `GONE` if it is not there."""
        block = self._block(sequence)
        place = block.place(sequence)
        location = block.locations[place] if place >= 0 else GONE
        if location == GONE:
            return self._remove_late(sequence) if self._late else GONE
        self.removed_length = block.lengths[place]
        block.take(place)
        self._count -= 1
        self._tidy_sparse(sequence, block)
        return location

    def remove_all(self, sequences: list[int], locations: list[int], lengths: list[int]) -> None:
        """`remove` each; adds its packed location, or `GONE`, and its payload length, which means nothing for one that
        was gone. Neighbours go together.
        """
        if self._late:
            self.settle()
        wanted = array("q", sequences)
        first = 0
        end = len(sequences)
        while first < end:
            sequence = sequences[first]
            block = self._block(sequence)
            place = block.place(sequence)
            if place < 0:
                locations.append(GONE)
                lengths.append(0)
                first += 1
                continue
            count = block.stretch(place, wanted, first)
            if count == 1:
                location = block.locations[place]
                locations.append(location)
                lengths.append(block.lengths[place])
                if location != GONE:
                    block.take(place)
                    self._count -= 1
                    self._tidy_sparse(sequence, block)
            elif block.holds_all(place, count):
                locations.extend(block.locations[place : place + count].tolist())
                lengths.extend(block.lengths[place : place + count].tolist())
                block.take_stretch(place, count)
                self._count -= count
                self._tidy_sparse(sequence, block)
            else:
                for index in range(first, first + count):
                    locations.append(self.remove(sequences[index]))
                    lengths.append(self.removed_length)
            first += count

    def sequences(self) -> array[int]:
        """All sequences in rising order, a copy."""
        found: array[int] = array("q")
        for block in self._blocks:
            if block.count == len(block.sequences):
                found.extend(block.sequences)
                continue
            for place in range(block.head, len(block.sequences)):
                if block.locations[place] != GONE:
                    found.append(block.sequences[place])
        return found

    def locations(self) -> array[int]:
        """Where they lie, in the same order, a copy."""
        found: array[int] = array("q")
        for block in self._blocks:
            for location in block.locations:
                if location != GONE:
                    found.append(location)
        return found

    def lengths(self) -> array[int]:
        """Their payload lengths, in the same order, a copy."""
        found: array[int] = array("I")
        for block in self._blocks:
            for place in range(block.head, len(block.sequences)):
                if block.locations[place] != GONE:
                    found.append(block.lengths[place])
        return found

    def pop_block(self) -> SequenceBlock | None:
        """Take the newest block out of the index; None if no sequence is left."""
        if self._late:
            self.settle()
        if self._count == 0:
            return None
        block = self._blocks.pop()
        self._lowest.pop()
        self._count -= block.count
        if not self._blocks:
            self._begin(0)
        return block

    def _block(self, sequence: int) -> SequenceBlock:
        """The block in which a sequence is, if it is there."""
        lowest = self._lowest
        if len(lowest) == 1 or sequence < lowest[1]:
            return self._blocks[0]
        return self._blocks[bisect_right(lowest, sequence) - 1]

    def _begin(self, sequence: int) -> SequenceBlock:
        block = SequenceBlock()
        self._blocks.append(block)
        self._lowest.append(sequence)
        return block

    def _tidy_sparse(self, sequence: int, block: SequenceBlock) -> None:
        """Something left the block that held ``sequence``: tidy it up if that is worth it."""
        left = block.count
        if left * 2 < len(block.sequences):
            if len(block.sequences) > MIN_COMPACTION or (left == 0 and len(self._blocks) > 1):
                self._tidy(sequence, block)

    def _tidy(self, sequence: int, block: SequenceBlock) -> None:
        """Most of a block is gone: it becomes smaller, goes, or becomes one with the block before it."""
        blocks = self._blocks
        if len(blocks) == 1:
            block.compact()
            return
        number = 0 if sequence < self._lowest[1] else bisect_right(self._lowest, sequence) - 1
        if block.count > 0:
            block.compact()
            before = blocks[number - 1] if number > 0 else block
            if number == 0 or block.count + len(before.sequences) > BLOCK_SEQUENCES // 2:
                return
            before.join(block)
        del blocks[number]
        del self._lowest[number]

    def _replace(self, sequence: int, location: int, length: int) -> int:
        block = self._block(sequence)
        place = block.place(sequence)
        if place < 0 or block.locations[place] == GONE:
            return GONE
        old = block.locations[place]
        block.locations[place] = location
        block.lengths[place] = length
        return old

    def _replace_late(self, sequence: int, location: int, length: int) -> int:
        for run in self._late:
            old = run._replace(sequence, location, length)
            if old != GONE:
                return old
        return GONE

    def _add_late(self, sequence: int, location: int, length: int) -> None:
        for run in self._late:
            if run.is_above(sequence):
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
        mine = self._flat()
        others = run._flat()
        merged = SequenceBlock()
        place = 0
        other = 0
        while other < len(others.sequences):
            stretch = bisect_left(mine.sequences, others.sequences[other], place)
            _extend(merged, mine, place, stretch)
            place = stretch
            end = len(others.sequences)
            if place < len(mine.sequences):
                end = bisect_left(others.sequences, mine.sequences[place], other)
            _extend(merged, others, other, end)
            other = end
        _extend(merged, mine, place, len(mine.sequences))
        self._blocks = []
        self._lowest = array("q")
        self._count = len(merged.sequences)
        for first in range(0, self._count, BLOCK_SEQUENCES):
            block = self._begin(merged.sequences[first])
            _extend(block, merged, first, min(first + BLOCK_SEQUENCES, self._count))
            block.count = len(block.sequences)
        if not self._blocks:
            self._begin(0)

    def _flat(self) -> SequenceBlock:
        """All of it in one block without holes, a copy."""
        flat = SequenceBlock()
        flat.sequences = self.sequences()
        flat.locations = self.locations()
        flat.lengths = self.lengths()
        return flat


def _extend(target: SequenceBlock, source: SequenceBlock, start: int, end: int) -> None:
    target.sequences.extend(source.sequences[start:end])
    target.locations.extend(source.locations[start:end])
    target.lengths.extend(source.lengths[start:end])
