"""Samples of the event loop: lag of timers and time of a turn."""

from __future__ import annotations

import asyncio

from spanwire.management.histograms import JOURNAL_SYNC, LOOP_LAG, buckets_of
from spanwire.model.observation.histogram import BOUNDS, Histogram
from spanwire.service.machine.loop_probe import INTERVAL_S, LoopProbe
from tests.support.virtual_loop import VirtualLoop


def test_an_idle_loop_is_never_late() -> None:
    loop = VirtualLoop(lambda time: None)
    probe = LoopProbe()

    async def scene() -> None:
        probe.start()
        await asyncio.sleep(10.5 * INTERVAL_S)
        probe.stop()
        await asyncio.sleep(10 * INTERVAL_S)

    loop.run_until_complete(scene())
    assert sum(probe.lag.counts()) == sum(probe.turn.counts()) == 10
    assert probe.lag.total < INTERVAL_S


def test_a_turn_that_takes_long_is_lag_of_a_timer() -> None:
    loop = VirtualLoop(lambda time: None)
    probe = LoopProbe()

    async def scene() -> None:
        probe.start()
        await asyncio.sleep(INTERVAL_S / 2)
        probe._due -= 3.0  # as if the loop had been busy for three seconds
        await asyncio.sleep(INTERVAL_S)
        probe.stop()

    loop.run_until_complete(scene())
    assert 3.0 <= probe.lag.total < 3.1
    assert probe.lag.counts()[BOUNDS.index(5.0)] == 1


def test_a_histogram_counts_up_to_each_bound() -> None:
    histogram = Histogram()
    for seconds in (0.0, BOUNDS[0], 0.003, 11.0, 99.0):
        histogram.add(seconds)
    counts = histogram.counts()
    assert (counts[0], counts[BOUNDS.index(0.005)], counts[-1], sum(counts)) == (2, 1, 2, 5)
    assert histogram.total == BOUNDS[0] + 0.003 + 110.0


def test_the_histograms_of_a_status_are_cumulated() -> None:
    probe, syncs = LoopProbe(), Histogram()
    syncs.add(0.003)
    syncs.add(50.0)
    status = {"histograms": probe.histograms(syncs)}
    buckets = buckets_of(status, JOURNAL_SYNC)
    assert buckets is not None
    assert (dict(buckets.counts)["0.002"], dict(buckets.counts)["0.005"], dict(buckets.counts)["+Inf"]) == (0, 1, 2)
    assert buckets.total == 50.003
    assert buckets_of({"histograms": probe.histograms(None)}, JOURNAL_SYNC) is None
    assert buckets_of({}, LOOP_LAG) is None
