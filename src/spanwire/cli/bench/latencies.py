"""Times in buckets of growing size: every percentile within 1 %, in bounded memory.

Layout of HdrHistogram (Gil Tene): each power of two is cut into equal parts.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

PART_BITS: Final = 8  # a bucket is at most 1/128 of its value wide
PARTS: Final = 1 << PART_BITS
MAX_US: Final = (1 << 36) - 1  # microseconds, 19 hours; longer ones count as this
SHIFTS: Final = 36 - PART_BITS
BUCKETS: Final = PARTS * (SHIFTS + 1)


class Latencies:
    """Counts of times in microseconds, with the smallest and the largest time."""

    def __init__(self) -> None:
        self.counts: Final[list[int]] = [0] * BUCKETS
        self.total = 0
        self.longest_us = 0

    def add(self, time_us: int) -> None:
        """Count a time; a time below 0, from different clocks, counts as 0."""
        time_us = 0 if time_us < 0 else MAX_US if time_us > MAX_US else time_us
        shift = time_us.bit_length() - PART_BITS
        index = time_us if shift <= 0 else shift * PARTS + (time_us >> shift)
        self.counts[index] += 1
        self.total += 1
        if time_us > self.longest_us:
            self.longest_us = time_us

    def percentile(self, percent: float) -> int:
        """Return the upper limit in microseconds of ``percent`` of all times; 0 without times."""
        if percent >= 100:
            return self.longest_us
        wanted = max(1, -(-self.total * percent // 100))
        seen = 0
        for index, count in enumerate(self.counts):
            seen += count
            if count and seen >= wanted:
                return min(_highest(index), self.longest_us)
        return self.longest_us

    def merge(self, other: Iterable[tuple[int, int]], longest_us: int) -> None:
        """Add the times of another object, in the form of `pairs`."""
        for index, count in other:
            self.counts[index] += count
            self.total += count
        self.longest_us = max(self.longest_us, longest_us)

    def pairs(self) -> list[tuple[int, int]]:
        """Return the buckets with times, each with the number of times."""
        return [(index, count) for index, count in enumerate(self.counts) if count]

    def clear(self) -> None:
        """Forget all times."""
        for index, _ in self.pairs():
            self.counts[index] = 0
        self.total = self.longest_us = 0


def _highest(index: int) -> int:
    """Return the highest time of a bucket."""
    shift, part = divmod(index, PARTS)
    return index if shift == 0 else ((part + 1) << shift) - 1
