"""Counts the bytes on the way to the disk.

Sends are blocked before the number grows too large.
"""

from __future__ import annotations

from typing import Final, Protocol

from spanwire.broker.dispatch.jobs import Alarm
from spanwire.broker.dispatch.memory_usage import UsageLimits
from spanwire.broker.ports import MessageStore

MAX_UNSYNCED_BYTES: Final = 64 * 1024 * 1024  # bytes of persistent messages not synced; above this sends wait
UNSYNCED_SHARE: Final = 10  # percent of memoryUsage and of storeUsage; unsynced bytes come on top of both
UNSYNCED_STEPS: Final = 64  # steps in which unsynced bytes are counted


class UnsyncedStep:
    """A number of bytes, safe once the store reaches ``position``."""

    __slots__ = ("position", "size")

    def __init__(self, position: int, size: int) -> None:
        self.position: Final[int] = position
        self.size: Final[int] = size


class SyncListener(Protocol):
    """Learns of each sync; there is one while an operator follows messages."""

    def stored(self, position: int) -> None:
        """See that all changes up to ``position`` survive a power failure."""
        ...


class AwaitedPosition:
    """An alarm that waits until the store reaches ``position``."""

    __slots__ = ("alarm", "position")

    def __init__(self, position: int, alarm: Alarm) -> None:
        self.position: Final[int] = position
        self.alarm: Final[Alarm] = alarm


class UnsyncedBytes:
    """Counts, in steps, the bytes of messages taken by the store and not yet reported as safe."""

    def __init__(self, store: MessageStore | None, limit_bytes: int = MAX_UNSYNCED_BYTES) -> None:
        self._store: Final[MessageStore | None] = store
        self.limit_bytes: Final[int] = limit_bytes
        self._step_bytes: Final[int] = limit_bytes // UNSYNCED_STEPS
        self._steps: Final[list[UnsyncedStep]] = []
        self._awaited: list[AwaitedPosition] = []  # one of each running move
        self.position = 0  # the last one that is safe
        self.listener: SyncListener | None = None
        self._bytes = 0
        self._uncounted_bytes = 0

    @property
    def count(self) -> int:
        """The number of bytes on the way to the disk."""
        return self._bytes

    def is_full(self) -> bool:
        """Return True if the disk is too far behind for further messages."""
        return self._bytes >= self.limit_bytes

    def is_half_full(self) -> bool:
        """Return True if deferrable work should wait for the disk."""
        return self._bytes * 2 >= self.limit_bytes

    def add(self, size: int) -> None:
        """Count ``size`` more bytes on the way to the disk."""
        self._bytes += size
        self._uncounted_bytes += size
        if self._uncounted_bytes >= self._step_bytes:
            assert self._store is not None
            self._steps.append(UnsyncedStep(self._store.position(), self._uncounted_bytes))
            self._uncounted_bytes = 0

    def stored(self, position: int) -> None:
        """Record that all bytes up to ``position`` reached the disk."""
        self.position = position
        while self._steps and self._steps[0].position <= position:
            self._bytes -= self._steps.pop(0).size
        if self.listener is not None:
            self.listener.stored(position)
        if self._awaited:
            due = [awaited for awaited in self._awaited if awaited.position <= position]
            self._awaited = [awaited for awaited in self._awaited if awaited.position > position]
            for awaited in due:
                awaited.alarm.wake()

    def wake(self, alarm: Alarm, position: int) -> bool:
        """Wake ``alarm`` when ``position`` is safe. Return False if it is so now."""
        if position <= self.position:
            return False
        self._awaited.append(AwaitedPosition(position, alarm))
        return True


def unsynced_limit(limits: UsageLimits) -> int:
    """Return the limit of bytes on the way to the disk, from the usage limits of a broker."""
    limit = MAX_UNSYNCED_BYTES
    for total in (limits.memory_bytes, limits.store_bytes):
        if total > 0:
            limit = min(limit, total * UNSYNCED_SHARE // 100)
    return limit
