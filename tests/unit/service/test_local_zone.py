"""Local time is what the rules of the machine say at each moment."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from spanwire.broker.scheduler.cron import Cron
from spanwire.service.machine.local_zone import LocalZone


@pytest.fixture
def berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalZone]:
    with monkeypatch.context() as patched:
        patched.setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3")
        time.tzset()
        yield LocalZone()
    time.tzset()


def test_summer_and_winter_have_their_own_offsets(berlin: LocalZone) -> None:
    for month, hours, name in ((1, 1, "CET"), (7, 2, "CEST")):
        moment = datetime(2024, month, 1, 12, tzinfo=UTC).astimezone(berlin)
        assert (moment.hour, moment.utcoffset(), moment.tzname()) == (12 + hours, timedelta(hours=hours), name)
        assert moment.dst() == timedelta(hours=hours - 1)


def test_the_hour_that_comes_twice_is_told_apart(berlin: LocalZone) -> None:
    first = datetime(2024, 10, 27, 0, 30, tzinfo=UTC)
    for moment in (first, first + timedelta(hours=1)):
        shown = moment.astimezone(berlin)
        assert (shown.hour, shown.minute) == (2, 30)
        assert shown.astimezone(UTC) == moment


def test_cron_entries_are_in_local_time_on_both_sides_of_a_change(berlin: LocalZone) -> None:
    after_ms = int(datetime(2024, 3, 30, 12, tzinfo=UTC).timestamp() * 1000)
    found = []
    for _ in range(2):
        after_ms = Cron("0 9 * * *").next_ms(after_ms, berlin)
        found.append(datetime.fromtimestamp(after_ms / 1000, UTC).hour)
    assert found == [7, 7]
    skipped = Cron("30 2 * * *").next_ms(int(datetime(2024, 3, 30, 12, tzinfo=UTC).timestamp() * 1000), berlin)
    assert datetime.fromtimestamp(skipped / 1000, UTC) == datetime(2024, 4, 1, 0, 30, tzinfo=UTC)


def test_all_are_equal() -> None:
    assert len({LocalZone(), LocalZone()}) == 1
    assert LocalZone() != UTC
