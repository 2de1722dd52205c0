"""Charts over time: paths and ticks for the SVG of a template. Pure.

Values are averaged to at most `POINTS` points. No line is drawn through a gap in the records.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from spanwire.web.console import formats
from spanwire.web.console.figures.history import FIGURES, LINK_FIGURES, MINUTE_S, MINUTES, SECONDS
from spanwire.web.console.figures.recorder import Recorder

POINTS: Final = 360  # points of a line; more are not seen on a chart of this width
WIDTH: Final = 600  # units of the SVG
HEIGHT: Final = 150
LEFT: Final = 48  # units for the labels of the vertical axis
TOP: Final = 14  # units above the highest tick, for its label
BOTTOM: Final = 20  # units for those of the horizontal axis
STEPS: Final = (1, 2, 5, 10)  # ticks are such a number times a power of ten
TICKS: Final = 4
DAY: Final = "day"


@dataclass(frozen=True, slots=True)
class Line:
    """One line: label, path of the SVG, and the last and greatest value as text."""

    label: str
    path: str
    last: str
    greatest: str


@dataclass(frozen=True, slots=True)
class Chart:
    """One chart with its lines; ticks are pairs of a place and a text.

    A chart without values has no paths.

    ``begins`` is the place of the first recorded value.
    """

    title: str
    unit: str
    lines: tuple[Line, ...]
    ticks: tuple[tuple[float, str], ...]
    times: tuple[tuple[float, str], ...]
    begins: float = LEFT

    @property
    def is_empty(self) -> bool:
        """True without recorded values."""
        return not any(line.path for line in self.lines)


def charts_of(recorder: Recorder, name: str, *, is_day: bool) -> list[Chart]:
    """Return the charts of a destination or the broker.

    The charts show pending messages, and rates of sends and acknowledgements.
    """
    now = recorder.now()
    pending, sent, acknowledged = [
        recorder.history.values(name, FIGURES.index(figure), now, is_day=is_day)
        for figure in ("pending", "enqueued", "dequeued")
    ]
    step = MINUTE_S if is_day else 1
    return [
        chart("Pending messages", "messages", [("pending", pending)], is_day=is_day),
        chart(
            "Rates",
            "messages a second",
            [("sent", rates(sent, step)), ("acknowledged", rates(acknowledged, step))],
            is_day=is_day,
        ),
    ]


def link_charts(recorder: Recorder, name: str, *, is_day: bool) -> list[Chart]:
    """Return the charts of a link: messages in flight, and rates of both directions."""
    now = recorder.now()
    in_flight, forwarded, received = [
        recorder.history.values(name, LINK_FIGURES.index(figure), now, is_day=is_day)
        for figure in ("in_flight", "dequeued", "received")
    ]
    step = MINUTE_S if is_day else 1
    return [
        chart("In flight", "messages", [("in flight", in_flight)], is_day=is_day),
        chart(
            "Rates",
            "messages a second",
            [("forwarded", rates(forwarded, step)), ("received", rates(received, step))],
            is_day=is_day,
        ),
    ]


def rates(values: Sequence[float], step_s: int) -> list[float]:
    """Return the growth of a counter in units a second, at each value with a predecessor."""
    found: list[float] = []
    known, place = math.nan, 0
    for index, value in enumerate(values):
        growth = math.nan
        if not math.isnan(value):
            if value >= known:
                growth = (value - known) / ((index - place) * step_s)
            known, place = value, index
        found.append(growth)
    return found


def chart(title: str, unit: str, lines: Sequence[tuple[str, Sequence[float]]], *, is_day: bool) -> Chart:
    """Return a chart of some lines over the last hour or day."""
    count = MINUTES if is_day else SECONDS
    averaged = [(label, averages(values, -(-count // POINTS))) for label, values in lines]
    greatest = max((value for _, values in averaged for value in values if not math.isnan(value)), default=0.0)
    step = tick_step(greatest)
    top = max(step * math.ceil(greatest / step), step)
    drawn = tuple(_line(label, values, top) for label, values in averaged)
    ticks = tuple((_y(value, top), formats.number(value)) for value in _ticks(step, top))
    hours = 24 if is_day else 1
    times = tuple(
        (LEFT + (WIDTH - LEFT) * part / 4, _ago(hours * 60 * (4 - part) // 4)) for part in range(5)
    )  # fmt: skip
    return Chart(title, unit, drawn, ticks, times, _begin([values for _, values in averaged]))


def _begin(columns: Sequence[Sequence[float]]) -> float:
    """Return the place of the first value.

    The place is the left edge if the first but one is known, as the rate begins there.
    """
    known = [index for values in columns for index, value in enumerate(values) if not math.isnan(value)]
    first = min(known, default=0)
    return LEFT if first <= 1 else round(LEFT + (WIDTH - LEFT) * first / len(columns[0]), 1)


def averages(values: Sequence[float], size: int) -> list[float]:
    """Return the average of each ``size`` values; NaN without known values."""
    found = []
    for start in range(0, len(values), size):
        known = [value for value in values[start : start + size] if not math.isnan(value)]
        found.append(sum(known) / len(known) if known else math.nan)
    return found


def tick_step(greatest: float) -> float:
    """Return the distance of ticks for values up to ``greatest``."""
    if greatest <= 1:
        return 1.0
    power = 10.0 ** math.floor(math.log10(greatest / TICKS))
    return max(next(power * step for step in STEPS if power * step * TICKS >= greatest * 0.999), 1.0)


def _ticks(step: float, top: float) -> list[float]:
    return [step * number for number in range(round(top / step) + 1)]


def _ago(minutes: int) -> str:
    if minutes == 0:
        return "now"
    return f"{minutes // 60} h ago" if minutes % 60 == 0 else f"{minutes} min ago"


def _y(value: float, top: float) -> float:
    return round((HEIGHT - BOTTOM) - (HEIGHT - BOTTOM - TOP) * value / top, 1)


def _line(label: str, values: Sequence[float], top: float) -> Line:
    parts: list[str] = []
    is_drawing = False
    for index, value in enumerate(values):
        if math.isnan(value):
            is_drawing = False
            continue
        x = round(LEFT + (WIDTH - LEFT) * (index + 1) / len(values), 1)
        parts.append(f"{'L' if is_drawing else 'M'}{x} {_y(value, top)}")
        if not is_drawing:
            parts.append("h0.1")  # a value alone is a dot
        is_drawing = True
    known = [value for value in values if not math.isnan(value)]
    last, greatest = (formats.number(known[-1]), formats.number(max(known))) if known else (formats.NONE, formats.NONE)
    return Line(label, "".join(parts), last, greatest)
