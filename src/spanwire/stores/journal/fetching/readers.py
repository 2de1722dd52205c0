"""Who still reads in which files, so that a segment is not deleted under a fetch that was asked for before it went."""

from __future__ import annotations

from typing import Final


class Readers:
    """Fetches by serial number, and the dropped segments that wait for those before them."""

    __slots__ = ("_dropped", "_open", "_serial")

    def __init__(self) -> None:
        self._serial = 0
        self._open: Final[dict[int, bool]] = {}  # serials of the fetches that are not answered, in rising order
        self._dropped: list[tuple[int, int]] = []  # (serial of the last fetch before it, segment)

    def begin(self) -> int:
        """A fetch begins; gives its serial."""
        self._serial += 1
        self._open[self._serial] = True
        return self._serial

    def end(self, serial: int) -> None:
        """A fetch was answered."""
        self._open.pop(serial, False)

    def drop(self, segment: int) -> None:
        """A segment is not needed any more, and that is on the disk."""
        self._dropped.append((self._serial, segment))

    def add_unread(self, deletions: list[int]) -> None:
        """Adds the dropped segments that nobody reads any more to ``deletions``."""
        if not self._dropped:
            return
        oldest = self._serial + 1
        for serial in self._open:
            oldest = serial
            break
        kept: list[tuple[int, int]] = []
        for dropped in self._dropped:
            if dropped[0] < oldest:
                deletions.append(dropped[1])
            else:
                kept.append(dropped)
        self._dropped = kept
