"""Marks of arrived messages: finds lost and repeated messages, with one bit for each message."""

from __future__ import annotations

from typing import Final

GROWTH: Final = 4096  # bytes by which the marks of a producer grow


class Marks:
    """The messages of some producers, received by one subscriber or by all consumers of a queue."""

    def __init__(self) -> None:
        self._marks: Final[dict[int, bytearray]] = {}
        self.received = 0
        self.duplicates = 0

    def take(self, producer: int, sequence: int) -> None:
        """Mark a message, or count a marked message."""
        marks = self._marks.get(producer)
        if marks is None:
            marks = self._marks[producer] = bytearray(GROWTH)
        place, bit = sequence >> 3, 1 << (sequence & 7)
        if place >= len(marks):
            marks.extend(bytes(max(GROWTH, place + 1 - len(marks), len(marks) // 2)))
        if marks[place] & bit:
            self.duplicates += 1
            return
        marks[place] |= bit
        self.received += 1

    def lost(self, sent: dict[int, int]) -> int:
        """Return the number of messages without a mark, of ``sent`` messages of each producer."""
        lost = 0
        for producer, count in sent.items():
            marks = self._marks.get(producer, b"")
            whole, rest = divmod(count, 8)
            found = int.from_bytes(marks[:whole], "big").bit_count()
            if rest and whole < len(marks):
                found += (marks[whole] & ((1 << rest) - 1)).bit_count()
            lost += count - found
        return lost

    @property
    def size(self) -> int:
        """The bytes of the marks."""
        return sum(map(len, self._marks.values()))
