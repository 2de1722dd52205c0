"""The time zone of this machine, as the system's rules have it at each moment: what cron entries are in."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final

NOTHING: Final = timedelta(0)
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class LocalZone(tzinfo):
    """Asks the C library. All are equal, so that configurations with one can be compared."""

    def utcoffset(self, moment: datetime | None) -> timedelta:
        """How far local time is ahead."""
        return NOTHING if moment is None else _offset(_seconds(moment))

    def dst(self, moment: datetime | None) -> timedelta:
        """How much of that is daylight saving time."""
        if moment is None or time.localtime(_seconds(moment)).tm_isdst <= 0:
            return NOTHING
        return self.utcoffset(moment) - timedelta(seconds=-time.timezone)

    def tzname(self, moment: datetime | None) -> str:
        """The name of local time."""
        return time.tzname[0] if moment is None else time.localtime(_seconds(moment)).tm_zone

    def fromutc(self, moment: datetime) -> datetime:
        """Local time of ``moment``, a time in UTC with this zone put on it."""
        seconds = (moment.replace(tzinfo=UTC) - EPOCH) // timedelta(seconds=1)
        local = moment + _offset(seconds)
        return local.replace(fold=int(_seconds(local) < seconds))  # the second of two moments that look alike

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LocalZone)

    def __hash__(self) -> int:
        return hash(LocalZone)


def _offset(seconds: int) -> timedelta:
    return timedelta(seconds=time.localtime(seconds).tm_gmtoff)


def _seconds(moment: datetime) -> int:
    """Since 1970, of a time that local clocks show."""
    return int(moment.replace(tzinfo=None).timestamp())
