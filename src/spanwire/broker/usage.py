"""How much memory pending messages may take, for the whole broker and for each destination."""

from __future__ import annotations

from typing import Final

MIB: Final = 1024 * 1024
DEFAULT_MEMORY_LIMIT_BYTES: Final = 1024 * MIB  # memoryUsage of the broker when the configuration names none
RESIDENT_SHARE: Final = (
    70  # percent of a limit above which persistent messages stay on disk only (cursor high-water mark)
)
RESUME_SHARE: Final = 90  # percent of a limit below which waiting sends go on


class MemoryUsage:
    """Bytes in use against a limit, chained to a parent that counts the same bytes. A limit of 0 means none of its
    own.
    """

    __slots__ = ("limit_bytes", "parent", "used_bytes")

    def __init__(self, limit_bytes: int, parent: MemoryUsage | None = None) -> None:
        self.limit_bytes: Final[int] = limit_bytes
        self.parent: Final[MemoryUsage | None] = parent
        self.used_bytes = 0

    def add(self, size: int) -> None:
        """Count ``size`` more bytes (fewer when negative), here and above."""
        self.used_bytes += size
        parent = self.parent
        if parent is not None:
            parent.add(size)

    def is_full(self) -> bool:
        """Whether this or a parent's limit is reached."""
        if self.limit_bytes > 0 and self.used_bytes >= self.limit_bytes:
            return True
        return self.parent is not None and self.parent.is_full()

    def room(self, percent: int) -> int:
        """Bytes left below ``percent`` of the tightest limit, 0 or less when there are none."""
        room = 1 << 62 if self.parent is None else self.parent.room(percent)
        if self.limit_bytes > 0:
            room = min(room, self.limit_bytes * percent // 100 - self.used_bytes)
        return room

    def is_above(self, percent: int) -> bool:
        """Whether ``percent`` of this or a parent's limit is in use."""
        if self.limit_bytes > 0 and self.used_bytes * 100 >= self.limit_bytes * percent:
            return True
        return self.parent is not None and self.parent.is_above(percent)
