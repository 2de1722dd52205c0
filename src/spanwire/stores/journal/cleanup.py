"""Which segments are still needed, and so which may go.

A segment stays while it holds a message or redelivery count that is in force (``live``), or the removal of something
whose own segment is still there (``refers``: without the removal it would come back). A segment that is dropped is not
deleted before a record says so on the disk; the check-points of later segments do not list it any more, so it may lie
about for a while without harm. Sparse old segments stay whole; moving their messages is a later version's work.
"""

from __future__ import annotations

from typing import Final


class SegmentTable:
    """Bookkeeping about all segments by number; does no I/O."""

    __slots__ = ("_refers", "changed", "live", "seeds")

    def __init__(self) -> None:
        self.live: Final[dict[int, int]] = {}
        self.seeds: Final[dict[int, int]] = {}
        self._refers: Final[dict[int, set[int]]] = {}
        self.changed = False

    def open(self, number: int, seed: int) -> None:
        """A segment exists."""
        self.live[number] = 0
        self.seeds[number] = seed
        self._refers[number] = set()
        self.changed = True

    def numbers(self) -> list[int]:
        """The segments that are needed, in rising order."""
        return sorted(self.live)

    def hold(self, number: int) -> None:
        """One more live thing lies in the segment."""
        self.live[number] += 1

    def release(self, number: int, count: int, by: int) -> None:
        """``count`` things in segment ``number`` ended through a record in segment ``by``."""
        left = self.live[number] - count
        self.live[number] = left
        if by != number:
            self._refers[by].add(number)
        if left == 0:
            self.changed = True

    def droppable(self, active: int) -> list[int]:
        """The segments that nothing needs any more, in rising order; ``active`` is the one being written."""
        if not self.changed:
            return []
        self.changed = False
        chosen: list[int] = []
        for number in self.numbers():
            if number == active or self.live[number] > 0:
                continue
            needed = False
            for referred in self._refers[number]:
                if referred in self.live and referred not in chosen:
                    needed = True
            if not needed:
                chosen.append(number)
        return chosen

    def drop(self, number: int) -> None:
        """Segment ``number`` is not needed any more, and that will be written."""
        del self.live[number]
        del self._refers[number]

    def deleted(self, number: int) -> None:
        """The file of a dropped segment is gone for good."""
        self.seeds.pop(number, None)
