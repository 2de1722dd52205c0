"""The time zone of the machine by the system's rules at each moment; the zone of cron entries."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final

NOTHING: Final = timedelta(0)
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class LocalZone(tzinfo):
    """A time zone from the C library. All instances are equal, so that configurations can be compared."""

    def utcoffset(self, moment: datetime | None) -> timedelta:
        """Return the offset of local time from UTC."""
        return NOTHING if moment is None else _offset(_seconds(moment))

    def dst(self, moment: datetime | None) -> timedelta:
        """Return the daylight saving part of the offset."""
        if moment is None or time.localtime(_seconds(moment)).tm_isdst <= 0:
            return NOTHING
        return self.utcoffset(moment) - timedelta(seconds=-time.timezone)

    def tzname(self, moment: datetime | None) -> str:
        """Return the name of local time."""
        return time.tzname[0] if moment is None else time.localtime(_seconds(moment)).tm_zone

    def fromutc(self, moment: datetime) -> datetime:
        """Return the local time of ``moment``, a time in UTC with this zone attached."""
        seconds = (moment.replace(tzinfo=UTC) - EPOCH) // timedelta(seconds=1)
        local = moment + _offset(seconds)
        return local.replace(fold=int(_seconds(local) < seconds))  # the second of two equal local times

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LocalZone)

    def __hash__(self) -> int:
        return hash(LocalZone)


def _offset(seconds: int) -> timedelta:
    return timedelta(seconds=time.localtime(seconds).tm_gmtoff)


def _seconds(moment: datetime) -> int:
    """Return the seconds since 1970 of a local time."""
    return int(moment.replace(tzinfo=None).timestamp())
