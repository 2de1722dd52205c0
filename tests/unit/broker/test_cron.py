"""Cron entries: what they stand for, and when they come next (crontab(5); ActiveMQ's AMQ_SCHEDULED_CRON)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import Final
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spanwire.broker.scheduler.cron import MINUTE_MS, Cron
from spanwire.model.errors import MessageFormatError

FRIDAY: Final = "2024-03-15 10:30:20"


def following(entry: str, after: str = FRIDAY) -> str:
    start = datetime.fromisoformat(after).replace(tzinfo=UTC)
    found = Cron(entry).next_ms(int(start.timestamp() * 1000), UTC)
    return datetime.fromtimestamp(found / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ("* * * * *", "2024-03-15 10:31:00"),
        ("? ? ? ? ?", "2024-03-15 10:31:00"),
        ("30 10 * * *", "2024-03-16 10:30:00"),
        ("0 * * * *", "2024-03-15 11:00:00"),
        ("*/20 * * * *", "2024-03-15 10:40:00"),
        ("10-20/6 * * * *", "2024-03-15 11:12:00"),
        ("5,50 9,10 * * *", "2024-03-15 10:50:00"),
        ("0 0 1 * *", "2024-04-01 00:00:00"),
        ("0 0 29 2 *", "2028-02-29 00:00:00"),
        ("0 12 * * 1-4", "2024-03-18 12:00:00"),
        ("0 12 * * 0", "2024-03-17 12:00:00"),
        ("0 12 * * 7", "2024-03-17 12:00:00"),
        ("0 12 20 * 1", "2024-03-18 12:00:00"),
        ("0 12 16 * 1", "2024-03-16 12:00:00"),
        ("59 23 31 12 *", "2024-12-31 23:59:00"),
        ("0 0 1 1 *", "2025-01-01 00:00:00"),
    ],
)
def test_an_entry_comes_next_at_its_first_minute_that_fits(entry: str, expected: str) -> None:
    assert following(entry) == expected


def test_a_leap_day_is_found_over_a_century_without_one() -> None:
    assert following("0 0 29 2 *", "2096-03-01 00:00:00") == "2104-02-29 00:00:00"


@pytest.mark.parametrize(
    "entry",
    ["", "* * * *", "* * * * * *", "60 * * * *", "* 24 * * *", "* * 0 * *", "* * * 13 *", "* * * * 8", "a * * * *",
     "5-1 * * * *", "*/0 * * * *", "*/ * * * *", "5/10 * * * *", "-1 * * * *", ", * * * *", "1,,2 * * * *",
     "* * * * " + "1," * 200 + "1", "\u0661 * * * *"],
)  # fmt: skip
def test_what_is_no_entry_is_refused(entry: str) -> None:
    with pytest.raises(MessageFormatError):
        Cron(entry)


def test_an_entry_that_never_comes_is_refused() -> None:
    with pytest.raises(MessageFormatError, match="no day fits"):
        following("0 0 31 2 *")


def test_the_hours_are_those_of_the_zone() -> None:
    start = int(datetime(2024, 3, 15, 10, 30, tzinfo=UTC).timestamp() * 1000)
    found = Cron("0 12 * * *").next_ms(start, timezone(timedelta(hours=2)))
    assert found - start == 23 * 3_600_000 + 1_800_000  # at 10:00 UTC of the next day


def test_an_hour_that_the_clocks_leave_out_is_left_out_and_one_that_comes_twice_counts_once() -> None:
    zone = ZoneInfo("Europe/Berlin")
    spring = int(datetime(2024, 3, 30, 12, tzinfo=UTC).timestamp() * 1000)
    found = datetime.fromtimestamp(Cron("30 2 * * *").next_ms(spring, zone) / 1000, zone)
    assert (found.day, found.month, found.hour, found.minute) == (1, 4, 2, 30)
    autumn = int(datetime(2024, 10, 26, 12, tzinfo=UTC).timestamp() * 1000)
    first = Cron("30 2 * * *").next_ms(autumn, zone)
    second = Cron("30 2 * * *").next_ms(first, zone)
    assert second - first == 25 * 3_600_000


class CountingZone(tzinfo):
    """UTC that counts how often it is asked."""

    def __init__(self) -> None:
        self.asked = 0

    def utcoffset(self, moment: datetime | None) -> timedelta:
        self.asked += 1
        return timedelta(0)

    def dst(self, moment: datetime | None) -> timedelta:
        return timedelta(0)

    def tzname(self, moment: datetime | None) -> str:
        return "UTC"


def test_the_times_of_a_day_that_are_over_are_not_looked_at_one_by_one() -> None:
    zone = CountingZone()
    start = int(datetime(2025, 6, 2, 23, 58, tzinfo=UTC).timestamp() * 1000)
    assert Cron("* * * * *").next_ms(start, zone) == start + MINUTE_MS
    assert zone.asked < 50


@given(
    st.integers(0, 4_000_000_000_000),
    st.integers(0, 59), st.integers(0, 23), st.integers(1, 28), st.integers(1, 12),
)  # fmt: skip
def test_nothing_that_fits_is_passed_over(start: int, minute: int, hour: int, day: int, month: int) -> None:
    found = Cron(f"{minute} {hour} {day} {month} *").next_ms(start, UTC)
    shown = datetime.fromtimestamp(found / 1000, UTC)
    assert (shown.minute, shown.hour, shown.day, shown.month, shown.second) == (minute, hour, day, month, 0)
    assert start < found <= start + 367 * 24 * 60 * MINUTE_MS
