"""Cron entries "minute hour day month weekday".

The syntax is that of crontab(5) and ActiveMQ's ``AMQ_SCHEDULED_CRON``.

A field is ``*`` or ``?``, a number, a range ``1-5``, or a comma-separated list of numbers and ranges. A suffix ``/n``
keeps the numbers divisible by ``n`` (ActiveMQ's rule: ``10-20/6`` is 12 and 18). Weekdays are 0 to 7; 0 and 7 are
Sunday. If both day of the month and weekday are restricted, a day that fits either field fits.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import Final

from spanwire.model.errors import MessageFormatError

FIELDS: Final = 5
LOWEST: Final = (0, 0, 1, 1, 0)
HIGHEST: Final = (59, 23, 31, 12, 7)
NAMES: Final = ("minute", "hour", "day of the month", "month", "weekday")
MAX_TEXT: Final = 256  # characters of one entry
MAX_DAYS: Final = 366 * 8 + 2  # days searched for the next time: the 29th of February may be eight years away
MINUTE_MS: Final = 60_000
SUNDAY: Final = 7
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
MAX_WALL_MS: Final = 250_000_000_000_000  # the year 9892; the calendar ends soon after


class Cron:
    """A parsed cron entry.

    Raises:
        MessageFormatError: the text is not a cron entry, or no day fits.
    """

    __slots__ = ("_any_day", "_any_weekday", "_days", "_hours", "_minutes", "_months", "_weekdays", "text")

    def __init__(self, text: str) -> None:
        fields = text.split()
        if len(text) > MAX_TEXT or len(fields) != FIELDS:
            raise MessageFormatError(
                f"the cron entry {text[:40]!r} has {len(fields)} fields: write minute, hour, day, month and weekday"
            )
        numbers = [_numbers(text, fields[index], index) for index in range(FIELDS)]
        self.text: Final[str] = text
        self._minutes: Final[list[int]] = numbers[0]
        self._hours: Final[list[int]] = numbers[1]
        self._days: Final[list[int]] = numbers[2]
        self._months: Final[list[int]] = numbers[3]
        self._weekdays: Final[list[int]] = [number % SUNDAY for number in numbers[4]]
        self._any_day: Final[bool] = _is_any(fields[2])
        self._any_weekday: Final[bool] = _is_any(fields[4])

    def next_ms(self, after_ms: int, zone: tzinfo) -> int:
        """Return the first fitting minute after ``after_ms``, by the clocks of ``zone``.

        Times are milliseconds since 1970.

        An hour skipped by a clock change is skipped; a repeated hour counts once.

        Raises:
            MessageFormatError: no day fits, or ``after_ms`` is outside of the calendar.
        """
        if not 0 <= after_ms < MAX_WALL_MS:
            raise MessageFormatError(f"the time {after_ms} is outside the calendar")
        start = (EPOCH + timedelta(milliseconds=after_ms)).astimezone(zone).replace(tzinfo=None)
        day = start.date()
        last = day + timedelta(days=MAX_DAYS)
        while day < last:
            if day.month not in self._months:
                day = _next_month(day)
                continue
            if self._fits(day):
                time_ms = self._first_in(day, after_ms, zone)
                if time_ms > 0:
                    return time_ms
            day += timedelta(days=1)
        raise MessageFormatError(f"no day fits the cron entry {self.text!r}")

    def _fits(self, day: date) -> bool:
        in_month = day.day in self._days
        in_week = day.isoweekday() % SUNDAY in self._weekdays
        if self._any_day or self._any_weekday:
            return in_month and in_week
        return in_month or in_week

    def _first_in(self, day: date, after_ms: int, zone: tzinfo) -> int:
        """Return the first time in ``day`` after ``after_ms``, 0 if none fits."""
        low = 0
        high = len(self._hours) * len(self._minutes)
        while low < high:  # no time up to one that is too early, real or not, is late enough
            middle = (low + high) // 2
            if _wall_ms(self._time_of(day, middle), zone) <= after_ms:
                low = middle + 1
            else:
                high = middle
        for index in range(low, len(self._hours) * len(self._minutes)):
            local = self._time_of(day, index)
            wall_ms = _wall_ms(local, zone)
            if wall_ms > after_ms and _is_real(local, wall_ms, zone):
                return wall_ms
        return 0

    def _time_of(self, day: date, index: int) -> datetime:
        """Return the fitting time number ``index`` of ``day``, by local clocks."""
        count = len(self._minutes)
        return datetime.combine(day, time(self._hours[index // count], self._minutes[index % count]))


def _next_month(day: date) -> date:
    """Return the first day of the next month."""
    return date(day.year + day.month // 12, day.month % 12 + 1, 1)


def _wall_ms(local: datetime, zone: tzinfo) -> int:
    """Return milliseconds since 1970.

    A time that a clock change skips counts by the clocks before the change.
    """
    return (local.replace(tzinfo=zone) - EPOCH) // timedelta(milliseconds=1)


def _is_real(local: datetime, wall_ms: int, zone: tzinfo) -> bool:
    """Return True if the clocks of ``zone`` ever show ``local``."""
    shown = (EPOCH + timedelta(milliseconds=wall_ms)).astimezone(zone)
    return shown.replace(tzinfo=None, fold=0) == local


def _is_any(field: str) -> bool:
    return field == "*" or field == "?"


def _numbers(text: str, field: str, index: int) -> list[int]:
    """Return the numbers of a field, ascending."""
    listed, slash, step_text = field.partition("/")
    fitting: set[int] = set()
    for part in listed.split(","):
        if _is_any(part):
            fitting.update(range(LOWEST[index], min(HIGHEST[index], 6 if index == FIELDS - 1 else HIGHEST[index]) + 1))
            continue
        low, dash, high = part.partition("-")
        first = _number(text, low, index)
        fitting.update(range(first, (_number(text, high, index) if dash else first) + 1))
    step = 1
    if slash:
        if not (step_text.isascii() and step_text.isdecimal() and len(step_text) <= 2 and int(step_text) > 0):
            raise MessageFormatError(f"the {NAMES[index]} of the cron entry {text[:40]!r} has no step behind its slash")
        step = int(step_text)
    numbers = sorted(number for number in fitting if number % step == 0)
    if not numbers:
        raise MessageFormatError(f"the {NAMES[index]} of the cron entry {text[:40]!r} fits nothing")
    return numbers


def _number(text: str, digits: str, index: int) -> int:
    if digits.isascii() and digits.isdecimal() and len(digits) <= 2:
        number = int(digits)
        if LOWEST[index] <= number <= HIGHEST[index]:
            return number
    raise MessageFormatError(
        f"the {NAMES[index]} of the cron entry {text[:40]!r} is not between {LOWEST[index]} and {HIGHEST[index]}"
    )
