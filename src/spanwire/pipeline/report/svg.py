"""Draws charts as SVG for a page; all names are escaped, and there are no references."""

from __future__ import annotations

from datetime import datetime
from html import escape
from typing import Final

from spanwire.pipeline.report.model import BarChart, Chart, FlowChart, LineChart, Link
from spanwire.pipeline.report.texts import printable, short

COLOURS: Final = ("#1f5fa8", "#d9822b", "#2f8f5b", "#8a4fa3", "#b5403a", "#4a8f9c", "#8a8a8a")
WIDTH: Final = 960
LEFT: Final = 56
RIGHT: Final = 16
TOP: Final = 14
PLOT: Final = 220
TICKS: Final = 5
BAR: Final = 30
NAME: Final = 300
MAX_NAME: Final = 40  # characters of a name beside a bar or in a box
NODE: Final = 26
GAP: Final = 12
BOX: Final = 240
THINNEST: Final = 1.5
WIDEST: Final = 20.0


def svg_of(chart: Chart) -> str:
    """Return any chart as SVG."""
    if isinstance(chart, LineChart):
        return line_svg(chart)
    return bar_svg(chart) if isinstance(chart, BarChart) else flow_svg(chart)


def line_svg(chart: LineChart) -> str:
    """Return lines over time, with a grid and a legend below."""
    times = [when for series in chart.series for when, _ in series.points]
    values = [value for series in chart.series for _, value in series.points if value is not None]
    begin, end = min(times), max(times)
    span_s = max((end - begin).total_seconds(), 1.0)
    top = nice(max(values, default=0.0))
    rows = (len(chart.series) + 1) // 2
    height = TOP + PLOT + 34 + 20 * rows
    parts = [_open(height, chart.title)]
    for tick in range(TICKS):
        y = TOP + PLOT - PLOT * tick / (TICKS - 1)
        parts.append(f'<line x1="{LEFT}" y1="{y:.1f}" x2="{WIDTH - RIGHT}" y2="{y:.1f}" class="grid"/>')
        parts.append(_text(LEFT - 8, y + 4, number(top * tick / (TICKS - 1)), "end"))
        moment = begin + (end - begin) * (tick / (TICKS - 1))
        anchor = "start" if tick == 0 else "end" if tick == TICKS - 1 else "middle"
        x = LEFT + (WIDTH - LEFT - RIGHT) * tick / (TICKS - 1)
        parts.append(_text(x, TOP + PLOT + 20, _moment(moment, span_s), anchor))
    for index, series in enumerate(chart.series):
        points = [
            (LEFT + (WIDTH - LEFT - RIGHT) * (when - begin).total_seconds() / span_s, TOP + PLOT - PLOT * value / top)
            for when, value in series.points
            if value is not None
        ]
        colour = COLOURS[index % len(COLOURS)]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        parts.append(
            f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2.2" stroke-linejoin="round"/>'
        )
        if len(points) == 1:
            parts.append(f'<circle cx="{points[0][0]:.1f}" cy="{points[0][1]:.1f}" r="4" fill="{colour}"/>')
        x, y = LEFT + (index % 2) * (WIDTH - LEFT) / 2, TOP + PLOT + 46 + 20 * (index // 2)
        parts.append(f'<rect x="{x:.0f}" y="{y - 10:.0f}" width="12" height="12" rx="2" fill="{colour}"/>')
        parts.append(_text(x + 18, y, short(series.name, 58), "start", series.name))
    return "".join([*parts, "</svg>"])


def bar_svg(chart: BarChart) -> str:
    """Return bars to the high values, with dark bars to the middle values in front."""
    top = nice(max((max(bar.middle, bar.high) for bar in chart.bars), default=0.0))
    height = TOP + BAR * len(chart.bars) + 44
    room = WIDTH - NAME - RIGHT - 70
    parts = [_open(height, chart.title)]
    for index, bar in enumerate(chart.bars):
        y = TOP + BAR * index
        parts.append(_text(NAME - 12, y + 17, short(bar.name, MAX_NAME), "end", bar.name))
        high, middle = max(room * bar.high / top, 2.0), max(room * bar.middle / top, 2.0)
        parts.append(f'<rect x="{NAME}" y="{y + 3}" width="{high:.1f}" height="20" rx="3" fill="#c7d9ee"/>')
        parts.append(f'<rect x="{NAME}" y="{y + 3}" width="{middle:.1f}" height="20" rx="3" fill="{COLOURS[0]}"/>')
        label = f"{number(bar.middle)} · {number(bar.high)}"
        parts.append(_text(NAME + high + 8, y + 17, label, "start"))
    y = TOP + BAR * len(chart.bars) + 24
    for index, (colour, name) in enumerate(((COLOURS[0], chart.middle), ("#c7d9ee", chart.high))):
        x = NAME + index * 170
        parts.append(f'<rect x="{x}" y="{y - 10}" width="12" height="12" rx="2" fill="{colour}"/>')
        parts.append(_text(x + 18, y, f"{name}, {chart.unit}", "start"))
    return "".join([*parts, "</svg>"])


def flow_svg(chart: FlowChart) -> str:
    """Return three columns of boxes with curves between neighbours."""
    columns = [
        sorted({link.start for link in chart.sending}),
        sorted({link.end for link in chart.sending} | {link.start for link in chart.receiving}),
        sorted({link.end for link in chart.receiving}),
    ]
    longest = max(len(column) for column in columns)
    height = TOP + 30 + longest * (NODE + GAP)
    xs = (0.0, (WIDTH - BOX) / 2, float(WIDTH - BOX))
    ys: list[dict[str, float]] = []
    for column in columns:
        first = TOP + 26 + (longest - len(column)) * (NODE + GAP) / 2
        ys.append({name: first + index * (NODE + GAP) for index, name in enumerate(column)})
    most = max([link.count or 0 for link in [*chart.sending, *chart.receiving]], default=0)
    colours = {name: COLOURS[index % len(COLOURS)] for index, name in enumerate(columns[1])}
    parts = [_open(height, chart.title)]
    for x, name in zip(xs, ("senders", "destinations", "receivers"), strict=True):
        parts.append(_text(x, TOP + 8, name, "start"))
    for link in chart.sending:
        parts.append(_link(link, xs[0] + BOX, ys[0][link.start], xs[1], ys[1][link.end], most, colours[link.end]))
    for link in chart.receiving:
        parts.append(_link(link, xs[1] + BOX, ys[1][link.start], xs[2], ys[2][link.end], most, colours[link.start]))
    for x, column, offsets in zip(xs, columns, ys, strict=True):
        for name in column:
            parts.append(_box(x, offsets[name], name, colours.get(name) if x == xs[1] else None))
    return "".join([*parts, "</svg>"])


def nice(value: float) -> float:
    """Return the end of an axis: 1, 2 or 5 times a power of ten, not below the value."""
    if value <= 0:
        return 1.0
    power = 10.0 ** len(str(int(value))) / 10 if value >= 1 else 1.0
    while power / 10 >= value:
        power /= 10
    return next(step * power for step in (0.1, 0.2, 0.5, 1, 2, 5, 10) if step * power >= value)


def number(value: float) -> str:
    """Return a short number."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if value >= size:
            return f"{value / (1e3 if unit == 'k' else size):.3g}{unit}"
    return f"{value:.3g}" if value < 1000 else f"{value:,.0f}"


def _open(height: float, title: str) -> str:
    return f'<svg viewBox="0 0 {WIDTH} {height:.0f}" role="img" aria-label="{escape(title)}">'


def _text(x: float, y: float, text: str, anchor: str, whole: str | None = None) -> str:
    title = "" if whole is None or whole == text else f"<title>{escape(printable(whole))}</title>"
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{title}{escape(printable(text))}</text>'


def _moment(moment: datetime, span_s: float) -> str:
    return moment.strftime("%Y-%m-%d" if span_s > 7 * 86_400 else "%m-%d %H:%M" if span_s > 86_400 else "%H:%M:%S")


def _link(link: Link, x1: float, y1: float, x2: float, y2: float, most: int, colour: str) -> str:
    width = THINNEST if not link.count else max(THINNEST, WIDEST * link.count / most)
    dash = ' stroke-dasharray="5 4"' if not link.count else ""
    middle, a, b = (x1 + x2) / 2, y1 + NODE / 2, y2 + NODE / 2
    count = "not counted" if link.count is None else f"{link.count:,}"
    title = escape(printable(f"{link.start} → {link.end}: {count}"))
    path = f"M{x1:.1f},{a:.1f} C{middle:.1f},{a:.1f} {middle:.1f},{b:.1f} {x2:.1f},{b:.1f}"
    style = f'fill="none" stroke="{colour}" stroke-opacity="0.45" stroke-width="{width:.1f}"{dash}'
    return f'<path d="{path}" {style}><title>{title}</title></path>'


def _box(x: float, y: float, name: str, colour: str | None) -> str:
    edge = colour if colour is not None else "#9aa4af"
    box = f'<rect x="{x:.1f}" y="{y:.1f}" width="{BOX}" height="{NODE}" rx="4" fill="#ffffff" stroke="{edge}"/>'
    return box + _text(x + 9, y + 17, short(name, 34), "start", name)
