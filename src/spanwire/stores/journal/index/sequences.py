"""Sequences and locations of the messages of one destination, in memory, 20 bytes a message.

Sequences are in rising order in blocks of some thousand, so that no call touches more than one block, whatever the
length of the queue.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from typing import Final

OFFSET_BITS: Final = 29  # offsets count in units of 8 bytes, so a segment may have 4 GiB
OFFSET_MASK: Final = (1 << OFFSET_BITS) - 1
GONE: Final = -1
BLOCK_SEQUENCES: Final = 4096  # sequences of a block; closing the holes takes some ten microseconds
MIN_COMPACTION: Final = 64  # entries; the holes of a smaller block are not worth closing
MAX_LATE_RUNS: Final = 8  # rising runs of late sequences; more are merged
STRETCH_GROWTH: Final = 4  # growth of the compared run after each match


def packed_location(segment: int, offset: int) -> int:
    """Return segment and offset in one number."""
    return segment << OFFSET_BITS | offset >> 3


def location_segment(location: int) -> int:
    """Return the segment of a packed location."""
    return location >> OFFSET_BITS


def location_offset(location: int) -> int:
    """Return the offset of a packed location."""
    return (location & OFFSET_MASK) << 3


class SequenceBlock:
    """Neighbours in rising order, at most `BLOCK_SEQUENCES`. The location of a removed sequence is `GONE`.

    All sequences before ``head`` are removed, ``count`` sequences are left. ``last`` is the index of the last lookup:
    the next lookup mostly wants the next index.
    """

    __slots__ = ("count", "head", "last", "lengths", "locations", "sequences")

    def __init__(self) -> None:
        self.sequences: array[int] = array("q")
        self.locations: array[int] = array("q")
        self.lengths: array[int] = array("I")
        self.head = 0
        self.count = 0
        self.last = 0

    def index_of(self, sequence: int) -> int:
        """Return the index of a sequence, also of a removed sequence; -1 if the block has none."""
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
        index = bisect_left(sequences, sequence, head)
        if index < end and sequences[index] == sequence:
            self.last = index
            return index
        return -1

    def stretch(self, index: int, wanted: array[int], first: int) -> int:
        """Return the length of a run of ``wanted`` from ``first`` on, equal to that from ``index`` on.

        The result is at least a fourth of the longest match. A galloping search bounds the wasted comparisons by a
        constant factor.
        """
        sequences = self.sequences
        most = min(len(sequences) - index, len(wanted) - first)
        if most < 2 or sequences[index + 1] != wanted[first + 1]:
            return 1
        known = 2
        step = STRETCH_GROWTH
        while known < most:
            end = min(known + step, most)
            if sequences[index + known : index + end] != wanted[first + known : first + end]:
                break
            known = end
            step *= STRETCH_GROWTH
        return known

    def holds_all(self, index: int, count: int) -> bool:
        """Return True if none of the ``count`` sequences from ``index`` on is removed."""
        if index >= self.head and self.count == len(self.sequences) - self.head:
            return True
        return GONE not in self.locations[index : index + count]

    def take_stretch(self, index: int, count: int) -> None:
        """Remove the ``count`` sequences from ``index`` on, of which none may be removed already."""
        locations = self.locations
        end = index + count
        locations[index:end] = array("q", [GONE]) * count
        self.count -= count
        if index == self.head:
            last = len(locations)
            while end < last and locations[end] == GONE:
                end += 1
            self.head = end

    def take(self, index: int) -> None:
        """Remove the sequence at ``index``."""
        locations = self.locations
        locations[index] = GONE
        self.count -= 1
        end = len(locations)
        if index == self.head:
            index += 1
            while index < end and locations[index] == GONE:
                index += 1
            self.head = index

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
        for index in range(head, len(self.sequences)):
            location = self.locations[index]
            if location != GONE:
                sequences.append(self.sequences[index])
                locations.append(location)
                lengths.append(self.lengths[index])
        self.sequences = sequences
        self.locations = locations
        self.lengths = lengths
        self.head = 0

    def join(self, other: SequenceBlock) -> None:
        """Append the sequences of the following block."""
        self.sequences.extend(other.sequences)
        self.locations.extend(other.locations)
        self.lengths.extend(other.lengths)
        self.count += other.count


class SequenceIndex:
    """Sequences in rising order, with locations and payload lengths. Holes are closed now and then.

    A start also finds messages that compaction moved behind newer messages: `restore` keeps late sequences in rising
    runs of their own, and `settle` merges the runs. ``removed_length`` is the payload length of the last sequence that
    `remove` found.
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
        """Append a sequence above all others."""
        tail = self._blocks[-1]
        if len(tail.sequences) >= BLOCK_SEQUENCES:
            tail = self._begin(sequence)
        tail.sequences.append(sequence)
        tail.locations.append(location)
        tail.lengths.append(length)
        tail.count += 1
        self._count += 1

    def add_run(self, sequence: int, location: int, step: int, length: int, count: int) -> None:
        """Append ``count`` consecutive sequences above all others; lengths equal, locations ``step`` apart."""
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
        """Return True if ``sequence`` is above all others."""
        tail = self._blocks[-1]
        return len(tail.sequences) == 0 or sequence > tail.sequences[-1]

    def restore(self, sequence: int, location: int, length: int) -> int:
        """Insert a sequence, also below others, or replace its location: records come in writing order.

        Returns:
            The old location, or `GONE`.
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
        """Merge the late runs, once everything is restored."""
        for run in self._late:
            self._merge(run)
        self._late = []

    def find(self, sequence: int) -> int:
        """Return the packed location of a sequence, or `GONE`."""
        block = self._block(sequence)
        index = block.index_of(sequence)
        if index >= 0 and (block.locations[index] != GONE or not self._late):
            return block.locations[index]
        for run in self._late:
            location = run.find(sequence)
            if location != GONE:
                return location
        return GONE

    def locate(self, sequences: list[int], locations: list[int], lengths: list[int]) -> None:
        """Append packed location and payload length of each sequence, or `GONE` and any length.

        Neighbours in ``sequences`` are found together.
        """
        if self._late:
            self.settle()
        wanted = array("q", sequences)
        first = 0
        end = len(sequences)
        while first < end:
            block = self._block(sequences[first])
            index = block.index_of(sequences[first])
            if index < 0:
                locations.append(GONE)
                lengths.append(0)
                first += 1
                continue
            count = block.stretch(index, wanted, first)
            if count == 1:
                locations.append(block.locations[index])
                lengths.append(block.lengths[index])
            else:
                locations.extend(block.locations[index : index + count].tolist())
                lengths.extend(block.lengths[index : index + count].tolist())
                block.last = index + count - 1
            first += count

    def length(self, sequence: int) -> int:
        """Return the payload length of a stored sequence."""
        block = self._block(sequence)
        return block.lengths[block.index_of(sequence)]

    def move(self, sequence: int, location: int) -> None:
        """Change the location of a stored sequence."""
        block = self._block(sequence)
        block.locations[block.index_of(sequence)] = location

    def remove(self, sequence: int) -> int:
        """Remove a sequence and return the packed location, or `GONE` for an unknown sequence."""
        block = self._block(sequence)
        index = block.index_of(sequence)
        location = block.locations[index] if index >= 0 else GONE
        if location == GONE:
            return self._remove_late(sequence) if self._late else GONE
        self.removed_length = block.lengths[index]
        block.take(index)
        self._count -= 1
        self._tidy_sparse(sequence, block)
        return location

    def remove_all(self, sequences: list[int], locations: list[int], lengths: list[int]) -> None:
        """Remove each sequence; append its packed location and length, or `GONE` and any length.

        Neighbours are removed together.
        """
        if self._late:
            self.settle()
        wanted = array("q", sequences)
        first = 0
        end = len(sequences)
        while first < end:
            sequence = sequences[first]
            block = self._block(sequence)
            position = block.index_of(sequence)
            if position < 0:
                locations.append(GONE)
                lengths.append(0)
                first += 1
                continue
            count = block.stretch(position, wanted, first)
            if count == 1:
                location = block.locations[position]
                locations.append(location)
                lengths.append(block.lengths[position])
                if location != GONE:
                    block.take(position)
                    self._count -= 1
                    self._tidy_sparse(sequence, block)
            elif block.holds_all(position, count):
                locations.extend(block.locations[position : position + count].tolist())
                lengths.extend(block.lengths[position : position + count].tolist())
                block.take_stretch(position, count)
                self._count -= count
                self._tidy_sparse(sequence, block)
            else:
                for index in range(first, first + count):
                    locations.append(self.remove(sequences[index]))
                    lengths.append(self.removed_length)
            first += count

    def sequences(self) -> array[int]:
        """Return a copy of all sequences in rising order."""
        copied: array[int] = array("q")
        for block in self._blocks:
            if block.count == len(block.sequences):
                copied.extend(block.sequences)
                continue
            for index in range(block.head, len(block.sequences)):
                if block.locations[index] != GONE:
                    copied.append(block.sequences[index])
        return copied

    def locations(self) -> array[int]:
        """Return a copy of all locations, in the order of the sequences."""
        copied: array[int] = array("q")
        for block in self._blocks:
            for location in block.locations:
                if location != GONE:
                    copied.append(location)
        return copied

    def lengths(self) -> array[int]:
        """Return a copy of all payload lengths, in the order of the sequences."""
        copied: array[int] = array("I")
        for block in self._blocks:
            for index in range(block.head, len(block.sequences)):
                if block.locations[index] != GONE:
                    copied.append(block.lengths[index])
        return copied

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
        """Return the block of a sequence, if the sequence is stored."""
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
        """Tidy up the block of ``sequence`` if most of the block is removed."""
        left = block.count
        if left * 2 < len(block.sequences):
            if len(block.sequences) > MIN_COMPACTION or (left == 0 and len(self._blocks) > 1):
                self._tidy(sequence, block)

    def _tidy(self, sequence: int, block: SequenceBlock) -> None:
        """Make a sparse block smaller, remove an empty block, or join a small block to the block before."""
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
        index = block.index_of(sequence)
        if index < 0 or block.locations[index] == GONE:
            return GONE
        old = block.locations[index]
        block.locations[index] = location
        block.lengths[index] = length
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
        """Merge a late run. Stretches are copied whole: messages that were moved together mostly lie together."""
        mine = self._flat()
        others = run._flat()
        merged = SequenceBlock()
        index = 0
        other = 0
        while other < len(others.sequences):
            stretch = bisect_left(mine.sequences, others.sequences[other], index)
            _extend(merged, mine, index, stretch)
            index = stretch
            end = len(others.sequences)
            if index < len(mine.sequences):
                end = bisect_left(others.sequences, mine.sequences[index], other)
            _extend(merged, others, other, end)
            other = end
        _extend(merged, mine, index, len(mine.sequences))
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
        """Return a copy of the whole index as one block without holes."""
        flat = SequenceBlock()
        flat.sequences = self.sequences()
        flat.locations = self.locations()
        flat.lengths = self.lengths()
        return flat


def _extend(target: SequenceBlock, source: SequenceBlock, start: int, end: int) -> None:
    target.sequences.extend(source.sequences[start:end])
    target.locations.extend(source.locations[start:end])
    target.lengths.extend(source.lengths[start:end])
