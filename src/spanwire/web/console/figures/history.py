"""Figures of the last hour by the second, and of the last day by the minute, in bounded memory. Pure.

A figure is recorded as reported by the broker. Rates are differences of counters; a counter with a smaller value,
because the broker has started again or a destination is gone, has no rate there.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Sequence
from typing import Final

SECONDS: Final = 3_600  # values at second resolution, an hour
MINUTES: Final = 1_440  # values at minute resolution, a day
MINUTE_S: Final = 60
COLUMNS: Final = 4  # figures of one series
MAX_SERIES: Final = 400  # series; 400 of 161,280 bytes are 61.5 MiB, and the console has 64 MiB
RATE_S: Final = 10  # seconds over which a present rate is measured; consumers acknowledge in batches

BROKER: Final = ""
FIGURES: Final = ("pending", "enqueued", "dequeued", "consumers")
LINK_FIGURES: Final = ("in_flight", "enqueued", "dequeued", "received")


class Ring:
    """Values of the last ``capacity`` slots of time; a slot without a value has NaN."""

    def __init__(self, capacity: int, columns: int) -> None:
        self._capacity: Final = capacity
        self._columns: Final = columns
        self._values: Final = array("d", [math.nan]) * (capacity * columns)
        self._last = -1

    def record(self, slot: int, values: Sequence[float]) -> None:
        """Set the values of a slot; a slot before the last is left out, as the clock was set back."""
        if slot < self._last:
            if self._last - slot < self._capacity:
                return
            self._last = slot - 1  # the clock was set back by more than the ring holds
        for skipped in range(max(self._last + 1, slot - self._capacity + 1), slot):
            self._put(skipped, [math.nan] * self._columns)
        self._put(slot, values)
        self._last = slot

    def _put(self, slot: int, values: Sequence[float]) -> None:
        start = slot % self._capacity * self._columns
        self._values[start : start + self._columns] = array("d", values)

    def column(self, column: int, end: int, count: int) -> list[float]:
        """Return the values of ``count`` slots, the last one being ``end``."""
        first = max(self._last - self._capacity + 1, 0)
        return [
            self._values[slot % self._capacity * self._columns + column] if first <= slot <= self._last else math.nan
            for slot in range(end - count + 1, end + 1)
        ]


class Series:
    """The figures of one object."""

    def __init__(self) -> None:
        self.seconds: Final = Ring(SECONDS, COLUMNS)
        self.minutes: Final = Ring(MINUTES, COLUMNS)

    def record(self, now: float, values: Sequence[float]) -> None:
        """Record the present figures; ``now`` is in seconds since 1970."""
        self.seconds.record(int(now), values)
        self.minutes.record(int(now) // MINUTE_S, values)


class History:
    """The series of one web process by name: `BROKER`, names of destinations, names of links."""

    def __init__(self) -> None:
        self._series: Final[dict[str, Series]] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._series

    def names(self) -> list[str]:
        """Return the names of all series."""
        return list(self._series)

    def record(self, name: str, now: float, values: Sequence[float]) -> None:
        """Record the figures of an object; a new object is left out if there are `MAX_SERIES`."""
        series = self._series.get(name)
        if series is None:
            if len(self._series) >= MAX_SERIES:
                return
            series = self._series[name] = Series()
        series.record(now, values)

    def keep(self, names: Iterable[str]) -> None:
        """Drop all series but some."""
        kept = set(names)
        for name in [name for name in self._series if name not in kept]:
            del self._series[name]

    def values(self, name: str, column: int, now: float, *, is_day: bool = False) -> list[float]:
        """Return a figure over the last hour or day, the oldest first; NaN without a record."""
        series = self._series.get(name)
        count = MINUTES if is_day else SECONDS
        if series is None:
            return [math.nan] * count
        if is_day:
            return series.minutes.column(column, int(now) // MINUTE_S, count)
        return series.seconds.column(column, int(now), count)

    def rate(self, name: str, column: int, now: float) -> float | None:
        """Return the present rate of a counter in units a second; None before there are two values."""
        series = self._series.get(name)
        if series is None:
            return None
        values = series.seconds.column(column, int(now), RATE_S + 1)
        known = [(slot, value) for slot, value in enumerate(values) if not math.isnan(value)]
        if len(known) < 2 or known[-1][1] < known[0][1]:
            return None
        return (known[-1][1] - known[0][1]) / (known[-1][0] - known[0][0])
