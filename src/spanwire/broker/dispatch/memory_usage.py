"""How much memory and disk messages may take, for the whole broker and for each destination."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from mypy_extensions import i64

from spanwire.model.units import MIB

DEFAULT_MEMORY_LIMIT_BYTES: Final = 1024 * MIB  # memoryUsage of the broker when the configuration names none
RESUME_SHARE: Final = 90  # percent of a limit below which waiting sends go on
OVERSHOOT_SHARE: Final = 10  # percent over its limit that the last message taken may bring
HOP_SHARE: Final = 2  # percent over that for messages from other brokers, for each broker that they have passed
MAX_HOP_SHARES: Final = 5  # brokers for which it is given
VAST_BYTES: Final = 1 << 54  # from here on a percentage of a limit may need more than 63 bits
EMPTY_SHARE: Final = 30  # percent over that for the first message from another broker in a destination that is empty


@dataclass(frozen=True)
class UsageLimits:
    """ActiveMQ's systemUsage. ``store_bytes`` limits the files of the store, ``temporary_bytes`` how large they may be
    for messages that are not persistent to be written there; 0 means as much as the disk has.

    ``fail_if_no_space`` refuses sends that would have to wait, ``fail_after_ms`` those that have waited so long (0:
    they wait as long as they must). A policy may say otherwise for its destinations.
    """

    memory_bytes: int = DEFAULT_MEMORY_LIMIT_BYTES
    store_bytes: int = 0
    temporary_bytes: int = 0
    fail_if_no_space: bool = False
    fail_after_ms: int = 0


class MemoryUsage:
    """Bytes in use against a limit, chained to a parent that counts the same bytes. A limit of 0 means none of its
    own.
    """

    __slots__ = ("limit_bytes", "parent", "used_bytes")

    def __init__(self, limit_bytes: int, parent: MemoryUsage | None = None) -> None:
        self.limit_bytes: int = limit_bytes
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

    def takes(self, size: int) -> bool:
        """Whether ``size`` bytes may come in addition: no limit is reached, and none would be exceeded by more than
        `OVERSHOOT_SHARE`. A destination that is empty takes a message of any size; the broker does not.
        """
        limit = self.limit_bytes
        if limit > 0 and self.used_bytes + size > limit and not self._takes_here(size):
            return False
        parent = self.parent
        return parent is None or parent.takes(size)

    def takes_forwarded(self, hops: int) -> bool:
        """Whether a message that came through ``hops`` brokers may come in addition where `takes` says no.

        Brokers that are full and wait for each other would wait for ever: each has what the other needs room for. So
        there is a reserve for what comes from other brokers, and more of it for what came further, that what has a long
        way behind it is not held up by what is still to go there. What nobody has held up, advisories above all, may
        have taken that; so an empty destination, whose consumers wait for something, has a reserve of its own.
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
        """Whether ``size`` bytes would fit if nothing else were in use."""
        parent = self.parent
        if parent is not None:
            return parent.takes_ever(size)
        return self.limit_bytes <= 0 or size * 100 <= self.limit_bytes * (100 + OVERSHOOT_SHARE)

    def room(self, percent: int) -> int:
        """Bytes left below ``percent`` of the tightest limit, 0 or less when there are none."""
        room = 1 << 62 if self.parent is None else self.parent.room(percent)
        if self.limit_bytes > 0:
            room = min(room, self.limit_bytes * percent // 100 - self.used_bytes)
        return room

    def is_above(self, percent: int) -> bool:
        """Whether ``percent`` of this or a parent's limit is in use."""
        if self.limit_bytes > 0 and _reaches(self.used_bytes, self.limit_bytes, percent):
            return True
        return self.parent is not None and self.parent.is_above(percent)

    def full_level(self, size: int) -> MemoryUsage:
        """The level that does not take ``size`` bytes; the topmost one if all do."""
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
    """Whether ``used`` is ``percent`` of ``limit`` or more; asked for each message."""
    if limit >= VAST_BYTES or used >= VAST_BYTES:
        return used * 100 >= limit * percent
    whole: i64 = limit
    part: i64 = used
    return part * 100 >= whole * percent


def _exceeds(used: int, limit: int, percent: int) -> bool:
    """Whether ``used`` is more than ``percent`` of ``limit``."""
    if limit >= VAST_BYTES or used >= VAST_BYTES:
        return used * 100 > limit * percent
    whole: i64 = limit
    part: i64 = used
    return part * 100 > whole * percent
