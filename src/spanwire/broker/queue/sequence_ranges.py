"""Sequences of messages that positions held and gave back, as runs of neighbours."""

from __future__ import annotations

from array import array
from bisect import bisect_right

from spanwire.broker.exactly_once.reserved_messages import runs_of


class SequenceRanges:
    """Grows only. Who fills it adds nothing but what the store had when the broker started, which is its limit."""

    __slots__ = ("_ends", "_starts")

    def __init__(self) -> None:
        self._starts: array[int] = array("q")
        self._ends: array[int] = array("q")

    def __len__(self) -> int:
        """How many runs there are."""
        return len(self._starts)

    def add(self, sequences: array[int]) -> None:
        """These too, in any order."""
        runs = [(first, first + count) for first, count in runs_of(array("q", sorted(sequences)))]
        for place, start in enumerate(self._starts):
            runs.append((start, self._ends[place]))
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
        """Whether ``sequence`` was added."""
        place = bisect_right(self._starts, sequence)
        return place > 0 and sequence < self._ends[place - 1]
