"""Counts open fetches, so that no segment is deleted before earlier fetches have read the file."""

from __future__ import annotations

from typing import Final


class Readers:
    """Open fetches by serial number, and dropped segments that wait for earlier fetches."""

    __slots__ = ("_dropped", "_open", "_serial")

    def __init__(self) -> None:
        self._serial = 0
        self._open: Final[dict[int, bool]] = {}  # serials of the fetches that are not answered, in rising order
        self._dropped: list[tuple[int, int]] = []  # (serial of the last fetch before it, segment)

    def begin(self) -> int:
        """Begin a fetch and return its serial."""
        self._serial += 1
        self._open[self._serial] = True
        return self._serial

    def end(self, serial: int) -> None:
        """End an answered fetch."""
        self._open.pop(serial, False)

    def drop(self, segment: int) -> None:
        """Record that a segment is dropped on the disk."""
        self._dropped.append((self._serial, segment))

    def add_unread(self, deletions: list[int]) -> None:
        """Append the dropped segments without readers to ``deletions``."""
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
