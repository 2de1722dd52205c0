"""Transfers: messages change their destination without being written again.

The record of a message keeps the destination and sequence of its writing; a TRANSFER record assigns new values. The
index knows the location of each message. `Labels` map sequences as long as the segment with the TRANSFER record exists.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from struct import Struct
from typing import Final

MAX_GAPS: Final = 0xFFFF  # messages of one transfer that are not there, as its record can say; more count as this
NOT_PASSED: Final = -1

_FIXED: Final = Struct("<II")
_RUN: Final = Struct("<QI")

FIXED_BYTES: Final = 8  # of each payload, before the runs
RUN_BYTES: Final = 12  # of each run in the payload


class TransferRuns:
    """The payload of a TRANSFER record.

    ``counts`` sequences from each of ``firsts`` of the destination ``source`` are moved.
    """

    __slots__ = ("counts", "firsts", "source")

    def __init__(self, source: int) -> None:
        self.source: Final[int] = source
        self.firsts: Final[array[int]] = array("q")
        self.counts: Final[array[int]] = array("q")

    def add(self, sequence: int) -> None:
        """Append a sequence."""
        counts = self.counts
        if len(counts) > 0 and self.firsts[-1] + counts[-1] == sequence:
            counts[-1] += 1
        else:
            self.firsts.append(sequence)
            counts.append(1)

    @property
    def count(self) -> int:
        """The number of messages."""
        return sum(self.counts)


def encode_transfer(runs: TransferRuns) -> bytes:
    """Return the payload of the record."""
    parts = [_FIXED.pack(runs.source, len(runs.firsts))]
    for run, first in enumerate(runs.firsts):
        parts.append(_RUN.pack(first, runs.counts[run]))
    return b"".join(parts)


def decode_transfer(payload: bytes) -> TransferRuns | None:
    """Return the transfer in the payload of a TRANSFER record; None if the payload has a wrong length."""
    if len(payload) < FIXED_BYTES:
        return None
    source, count = _FIXED.unpack_from(payload)
    if len(payload) != FIXED_BYTES + RUN_BYTES * count:
        return None
    runs = TransferRuns(source)
    for run in range(count):
        first, length = _RUN.unpack_from(payload, FIXED_BYTES + RUN_BYTES * run)
        runs.firsts.append(first)
        runs.counts.append(length)
    return runs


class Labels:
    """Maps runs of sequences of one destination to sequences of other destinations.

    A run has the number of the other destination, the first sequence there, and the segment of the TRANSFER record. A
    run takes 40 bytes. Runs do not overlap.
    """

    __slots__ = ("_rises", "counts", "firsts", "numbers", "others", "segments")

    def __init__(self) -> None:
        self.firsts: array[int] = array("q")
        self.counts: array[int] = array("q")
        self.numbers: array[int] = array("q")
        self.others: array[int] = array("q")
        self.segments: array[int] = array("q")
        self._rises = True  # ``segments`` rises; always true in the target of the transfers

    def __len__(self) -> int:
        return len(self.firsts)

    def add(self, first: int, count: int, number: int, other: int, segment: int) -> None:
        """Map ``count`` sequences from ``first`` to the sequences from ``other`` of another destination.

        ``segment`` holds the TRANSFER record.
        """
        index = bisect_right(self.firsts, first)
        self.firsts.insert(index, first)
        self.counts.insert(index, count)
        self.numbers.insert(index, number)
        self.others.insert(index, other)
        segments = self.segments
        segments.insert(index, segment)
        if index > 0 and segments[index - 1] > segment:
            self._rises = False
        if index + 1 < len(segments) and segments[index + 1] < segment:
            self._rises = False

    def run_index(self, sequence: int) -> int:
        """Return the index of the run that holds ``sequence``, or `NOT_PASSED`."""
        index = bisect_right(self.firsts, sequence) - 1
        if index >= 0 and sequence - self.firsts[index] < self.counts[index]:
            return index
        return NOT_PASSED

    def other(self, index: int, sequence: int) -> int:
        """Return the sequence in the other destination for ``sequence`` of a run."""
        return self.others[index] + sequence - self.firsts[index]

    def _run_end(self, start: int) -> int:
        """Return the index behind the runs from ``start`` on that have the same segment."""
        segments = self.segments
        segment = segments[start]
        if self._rises:
            return bisect_right(segments, segment, start)
        end = len(segments)
        start += 1
        while start < end and segments[start] == segment:
            start += 1
        return start

    def drop(self, dropped: set[int]) -> None:
        """Forget the runs whose TRANSFER records lie in these deleted segments."""
        remaining = Labels()
        segments = self.segments
        end = len(segments)
        start = 0
        while start < end:
            segment = segments[start]
            after = self._run_end(start)
            if segment not in dropped:
                remaining.firsts.extend(self.firsts[start:after])
                remaining.counts.extend(self.counts[start:after])
                remaining.numbers.extend(self.numbers[start:after])
                remaining.others.extend(self.others[start:after])
                remaining.segments.extend(segments[start:after])
            start = after
        self.firsts = remaining.firsts
        self.counts = remaining.counts
        self.numbers = remaining.numbers
        self.others = remaining.others
        self.segments = remaining.segments
