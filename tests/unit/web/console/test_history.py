"""Figures over time: rings, rates, gaps, bounds, and the choice of destinations."""

from __future__ import annotations

import asyncio
import math
import tracemalloc
from collections.abc import Sequence

import pytest

from spanwire.web.console.figures.history import BROKER, COLUMNS, MAX_SERIES, MINUTES, SECONDS, History, Ring
from spanwire.web.console.figures.recorder import CHOICE_S, MAX_DESTINATIONS, OPENED_S, Recorder
from spanwire.web.link import Snapshots
from tests.support.fake_broker_link import FakeBrokerLink, destination

START = 1_800_000_000.0
MIB = 1024 * 1024


def known(values: Sequence[float]) -> list[float]:
    return [value for value in values if not math.isnan(value)]


def test_an_hour_of_seconds_and_a_day_of_minutes_are_kept() -> None:
    history = History()
    for second in range(2 * SECONDS):
        history.record("queue://A", START + second, [second, 0, 0, 0])
    now = START + 2 * SECONDS - 1
    assert history.values("queue://A", 0, now) == [float(second) for second in range(SECONDS, 2 * SECONDS)]
    minutes = history.values("queue://A", 0, now, is_day=True)
    assert len(minutes) == MINUTES
    assert known(minutes) == [float(60 * minute + 59) for minute in range(120)]


def test_a_gap_has_no_values() -> None:
    ring = Ring(10, 1)
    ring.record(100, [1])
    ring.record(103, [4])
    assert [str(value) for value in ring.column(0, 104, 6)] == ["nan", "1.0", "nan", "nan", "4.0", "nan"]
    ring.record(1_000, [9])
    assert known(ring.column(0, 1_000, 10)) == [9]


def test_a_clock_that_is_set_back_loses_at_most_what_is_kept() -> None:
    ring = Ring(10, 1)
    ring.record(1_000, [1])
    ring.record(999, [2])
    assert known(ring.column(0, 1_000, 10)) == [1]
    ring.record(500, [3])
    assert known(ring.column(0, 500, 10)) == [3]


def test_a_rate_is_the_growth_of_a_counter_and_none_after_a_restart() -> None:
    history = History()
    assert history.rate("queue://A", 1, START) is None
    history.record("queue://A", START, [0, 100, 0, 0])
    assert history.rate("queue://A", 1, START) is None
    history.record("queue://A", START + 4, [0, 180, 0, 0])
    assert history.rate("queue://A", 1, START + 4) == 20
    history.record("queue://A", START + 5, [0, 2, 0, 0])
    assert history.rate("queue://A", 1, START + 5) is None


def test_the_history_is_bounded() -> None:
    history = History()
    for number in range(MAX_SERIES + 5):
        history.record(str(number), START, [0] * COLUMNS)
    assert len(history.names()) == MAX_SERIES
    history.keep(["3"])
    assert history.names() == ["3"]


def test_a_full_history_takes_64_mib_at_most() -> None:
    tracemalloc.start()
    try:
        history = History()
        for number in range(MAX_SERIES + 5):
            history.record(f"queue://{number:0200}", START, [1e9] * COLUMNS)
        taken, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(history.names()) == MAX_SERIES
    assert 32 * MIB < taken <= 64 * MIB
    assert most <= 65 * MIB  # recording takes next to nothing beside it


class Clock:
    def __init__(self) -> None:
        self.time = START

    def __call__(self) -> float:
        return self.time


def test_the_broker_and_its_links_are_recorded() -> None:
    link, clock = FakeBrokerLink(), Clock()
    recorder = Recorder(Snapshots(link, clock), clock)
    asyncio.run(recorder.record())
    assert known(recorder.history.values(BROKER, 0, START)) == [3]
    assert known(recorder.history.values("link to-billing tcp://billing:61616", 2, START)) == [4]


def test_the_busiest_and_the_opened_destinations_are_recorded() -> None:
    link, clock = FakeBrokerLink(), Clock()
    recorder = Recorder(Snapshots(link, clock), clock)
    names = [f"queue://{number}" for number in range(MAX_DESTINATIONS + 50)]
    link.answers["destinations"] = [destination(name, 0, number) for number, name in enumerate(names)]

    async def scenario() -> None:
        await recorder.record()
        assert names[-1] in recorder.history
        assert names[0] not in recorder.history
        recorder.open(names[0])
        clock.time += CHOICE_S
        await recorder.record()
        assert names[0] in recorder.history
        assert sum(name in recorder.history for name in names) == MAX_DESTINATIONS
        rows = [destination(name, 0, number + 1_000) for number, name in enumerate(names[1:])]
        link.answers["destinations"] = [destination(names[0]), *rows]
        clock.time += OPENED_S
        await recorder.record()
        assert names[0] not in recorder.history

    asyncio.run(scenario())


def test_a_broker_that_does_not_answer_leaves_a_gap_and_is_asked_again() -> None:
    link, clock = FakeBrokerLink(), Clock()
    recorder = Recorder(Snapshots(link, clock), clock)
    link.is_there = False

    async def pause(seconds: float) -> None:
        assert seconds >= 1
        clock.time += seconds
        link.is_there = True
        if clock.time >= START + 3:
            raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(recorder.run(pause))
    assert known(recorder.history.values(BROKER, 0, START + 3)) == [3, 3]
