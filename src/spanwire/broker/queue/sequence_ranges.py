"""A set of store sequences, kept as ranges."""

from __future__ import annotations

from array import array
from bisect import bisect_right

from spanwire.broker.exactly_once.reservations.reserved_messages import runs_of


class SequenceRanges:
    """Sequences of messages released by exactly-once cursors.

    The set only grows. Its limit is the number of messages in the store at the start of the broker.
    """

    __slots__ = ("_ends", "_starts")

    def __init__(self) -> None:
        self._starts: array[int] = array("q")
        self._ends: array[int] = array("q")

    def __len__(self) -> int:
        """Return the number of ranges."""
        return len(self._starts)

    def add(self, sequences: array[int]) -> None:
        """Add sequences in any order."""
        runs = [(first, first + count) for first, count in runs_of(array("q", sorted(sequences)))]
        for index, start in enumerate(self._starts):
            runs.append((start, self._ends[index]))
        runs.sort()
        starts: array[int] = array("q")
        ends: array[int] = array("q")
        for start, end in runs:
            if len(ends) > 0 and start <= ends[-1]:
                ends[-1] = max(ends[-1], end)
            else:
                starts.append(start)
                ends.append(end)
        self._starts = starts
        self._ends = ends

    def holds(self, sequence: int) -> bool:
        """Return True if ``sequence`` was added."""
        index = bisect_right(self._starts, sequence)
        return index > 0 and sequence < self._ends[index - 1]
