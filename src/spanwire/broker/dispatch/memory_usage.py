"""Limits and usage of memory and disk, for the whole broker and for each destination."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from mypy_extensions import i64

DEFAULT_MEMORY_LIMIT_BYTES: Final = 1024 * 1024 * 1024  # memoryUsage of the broker when the configuration names none
RESUME_SHARE: Final = 90  # percent of a limit; blocked sends continue below this level
OVERSHOOT_SHARE: Final = 10  # percent of a limit; the last message taken may exceed the limit by so much
HOP_SHARE: Final = 2  # percent of a limit; further reserve of a forwarded message for each broker on its route
MAX_HOP_SHARES: Final = 5  # brokers; more hops add no reserve
VAST_BYTES: Final = 1 << 54  # bytes; from here on a percentage of a limit may need more than 63 bits
EMPTY_SHARE: Final = 30  # percent of a limit; further reserve for the first forwarded message of an empty destination


@dataclass(frozen=True)
class UsageLimits:
    """Limits of ActiveMQ's systemUsage.

    ``store_bytes`` limits the files of the store. Non-persistent messages go to the store while the files are below
    ``temporary_bytes``. For both limits 0 means the capacity of the disk.

    ``fail_if_no_space`` refuses sends instead of blocking the producer. ``fail_after_ms`` refuses sends after blocking
    for so many milliseconds; 0 sets no limit. A policy entry may override both settings.
    """

    memory_bytes: int = DEFAULT_MEMORY_LIMIT_BYTES
    store_bytes: int = 0
    temporary_bytes: int = 0
    fail_if_no_space: bool = False
    fail_after_ms: int = 0


class MemoryUsage:
    """Bytes in use against a limit.

    The parent counts the same bytes. ``limit_bytes`` 0 sets no limit at this level.
    """

    __slots__ = ("limit_bytes", "parent", "used_bytes")

    def __init__(self, limit_bytes: int, parent: MemoryUsage | None = None) -> None:
        self.limit_bytes: int = limit_bytes
        self.parent: Final[MemoryUsage | None] = parent
        self.used_bytes = 0

    def add(self, size: int) -> None:
        """Add ``size`` bytes (negative to subtract), also to all parents."""
        level: MemoryUsage | None = self
        while level is not None:
            level.used_bytes += size
            level = level.parent

    def is_full(self) -> bool:
        """Return True if the limit of this level or of a parent is reached."""
        if self.limit_bytes > 0 and self.used_bytes >= self.limit_bytes:
            return True
        return self.parent is not None and self.parent.is_full()

    def takes(self, size: int) -> bool:
        """Return True if ``size`` more bytes may be taken.

        No limit may be reached before, or exceeded by more than `OVERSHOOT_SHARE` percent after. An empty destination
        takes a message of any size, the broker does not.
        """
        level: MemoryUsage | None = self  # a loop: each message asks, and calls take half as much again
        while level is not None:
            limit = level.limit_bytes
            if limit > 0 and level.used_bytes + size > limit and not level._takes_here(size):
                return False
            level = level.parent
        return True

    def takes_forwarded(self, hops: int) -> bool:
        """Return True if a message forwarded by ``hops`` brokers may be taken although `takes` refuses.

        Prevents a deadlock between full brokers: forwarded messages may exceed the limit by a reserve. The reserve
        grows with the hop count, so that messages at the beginning of a route do not block messages near the end.
        Messages without flow control, above all advisories, may use up the reserve. Therefore an empty destination has
        an extra reserve.
        """
        percent = 100 + OVERSHOOT_SHARE + HOP_SHARE * min(hops, MAX_HOP_SHARES)
        if self.used_bytes == 0:
            percent += EMPTY_SHARE
        return self._is_below(percent)

    def _is_below(self, percent: int) -> bool:
        if self.limit_bytes > 0 and _reaches(self.used_bytes, self.limit_bytes, percent):
            return False
        return self.parent is None or self.parent._is_below(percent)

    def takes_ever(self, size: int) -> bool:
        """Return True if ``size`` bytes would fit into an empty broker."""
        parent = self.parent
        if parent is not None:
            return parent.takes_ever(size)
        return self.limit_bytes <= 0 or size * 100 <= self.limit_bytes * (100 + OVERSHOOT_SHARE)

    def room(self, percent: int) -> int:
        """Return the bytes left below ``percent`` of the tightest limit; 0 or less if the limit is reached."""
        room = 1 << 62 if self.parent is None else self.parent.room(percent)
        if self.limit_bytes > 0:
            room = min(room, self.limit_bytes * percent // 100 - self.used_bytes)
        return room

    def is_above(self, percent: int) -> bool:
        """Return True if ``percent`` of the limit of this level or of a parent is in use."""
        level: MemoryUsage | None = self  # a loop: each persistent message asks
        while level is not None:
            limit = level.limit_bytes
            if limit > 0 and _reaches(level.used_bytes, limit, percent):
                return True
            level = level.parent
        return False

    def full_level(self, size: int) -> MemoryUsage:
        """Return the level that refuses ``size`` bytes.

        If every level below takes the bytes, the topmost level is returned.
        """
        parent = self.parent
        if parent is None or not (self.limit_bytes <= 0 or self._takes_here(size)):
            return self
        return parent.full_level(size)

    def _takes_here(self, size: int) -> bool:
        used = self.used_bytes
        limit = self.limit_bytes
        if used >= limit:
            return False
        return (used == 0 and self.parent is not None) or not _exceeds(used + size, limit, 100 + OVERSHOOT_SHARE)


def _reaches(used: int, limit: int, percent: int) -> bool:
    """Return True if ``used`` is at least ``percent`` of ``limit``. Called for each message."""
    if limit >= VAST_BYTES or used >= VAST_BYTES:
        return used * 100 >= limit * percent
    whole: i64 = limit
    part: i64 = used
    return part * 100 >= whole * percent


def _exceeds(used: int, limit: int, percent: int) -> bool:
    """Return True if ``used`` is more than ``percent`` of ``limit``."""
    if limit >= VAST_BYTES or used >= VAST_BYTES:
        return used * 100 > limit * percent
    whole: i64 = limit
    part: i64 = used
    return part * 100 > whole * percent
