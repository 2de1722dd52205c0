"""Draws charts as PNG files, if matplotlib is installed."""

from __future__ import annotations

from pathlib import Path
from typing import Final, Protocol

from spanwire.pipeline.report.model import BarChart, Chart, FlowChart, LineChart, Link
from spanwire.pipeline.report.svg import COLOURS
from spanwire.pipeline.report.texts import printable, short

try:
    from matplotlib import dates, figure, patches
    from matplotlib import path as paths
except ImportError:  # the report has a note instead of the files
    HAS_MATPLOTLIB = False
else:
    HAS_MATPLOTLIB = True

DPI: Final = 130
WIDTH: Final = 10.0
MAX_NAME: Final = 44
WIDEST: Final = 14.0
BOX: Final = {"boxstyle": "round,pad=0.4", "facecolor": "white", "edgecolor": "#9aa4af", "linewidth": 0.8}


class Axes(Protocol):
    """The drawing area of curves."""

    def add_patch(self, patch: object) -> object:
        """Draw a shape."""
        ...


def write_charts(charts: list[Chart], directory: Path) -> list[Path]:
    """Write a file ``KEY.png`` for each chart; return no paths without matplotlib."""
    if not HAS_MATPLOTLIB:
        return []
    written = []
    for chart in charts:
        target = directory / f"{chart.key}.png"
        _draw(chart, target)
        written.append(target)
    return written


def _draw(chart: Chart, target: Path) -> None:
    if isinstance(chart, LineChart):
        drawing = _line_figure(chart)
    elif isinstance(chart, BarChart):
        drawing = _bar_figure(chart)
    else:
        drawing = _flow_figure(chart)
    drawing.savefig(target, dpi=DPI)


def _line_figure(chart: LineChart) -> figure.Figure:
    drawing = figure.Figure(figsize=(WIDTH, 4.6), layout="constrained")
    axes = drawing.subplots()
    for index, series in enumerate(chart.series):
        points = [(when, value) for when, value in series.points if value is not None]
        axes.plot(
            [when for when, _ in points],
            [value for _, value in points],
            label=plain(series.name),
            color=COLOURS[index % len(COLOURS)],
            linewidth=2,
            marker="o" if len(points) == 1 else None,
        )
    axes.set_title(chart.title)
    axes.set_ylabel(chart.unit)
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.25)
    axes.xaxis.set_major_formatter(dates.ConciseDateFormatter(axes.xaxis.get_major_locator()))
    axes.legend(loc="upper left", frameon=False, fontsize=8)
    return drawing


def _bar_figure(chart: BarChart) -> figure.Figure:
    drawing = figure.Figure(figsize=(WIDTH, 1.4 + 0.4 * len(chart.bars)), layout="constrained")
    axes = drawing.subplots()
    names = [plain(bar.name) for bar in chart.bars]
    positions = list(range(len(names)))
    axes.barh(positions, [bar.high for bar in chart.bars], color="#c7d9ee", label=chart.high)
    axes.barh(positions, [bar.middle for bar in chart.bars], color=COLOURS[0], label=chart.middle)
    axes.set_yticks(positions, names, fontsize=8)
    axes.invert_yaxis()
    axes.set_title(chart.title)
    axes.set_xlabel(chart.unit)
    axes.grid(axis="x", alpha=0.25)
    axes.legend(frameon=False, fontsize=8)
    return drawing


def _flow_figure(chart: FlowChart) -> figure.Figure:
    columns = [
        sorted({link.start for link in chart.sending}),
        sorted({link.end for link in chart.sending} | {link.start for link in chart.receiving}),
        sorted({link.end for link in chart.receiving}),
    ]
    longest = max(len(column) for column in columns)
    drawing = figure.Figure(figsize=(WIDTH, 1.0 + 0.45 * longest), layout="constrained")
    axes = drawing.subplots()
    axes.set_axis_off()
    axes.set_xlim(0, 10)
    axes.set_ylim(-longest, 0.6)
    axes.set_title(chart.title)
    positions = [
        {name: -row - (longest - len(column)) / 2 - 0.5 for row, name in enumerate(column)} for column in columns
    ]
    most = max([link.count or 0 for link in [*chart.sending, *chart.receiving]], default=0)
    colours = {name: COLOURS[row % len(COLOURS)] for row, name in enumerate(columns[1])}
    for link in chart.sending:
        _curve(axes, link, (2.6, positions[0][link.start]), (5.0, positions[1][link.end]), most, colours[link.end])
    for link in chart.receiving:
        _curve(axes, link, (5.0, positions[1][link.start]), (7.4, positions[2][link.end]), most, colours[link.start])
    for x, column, rows in zip((2.5, 5.0, 7.5), columns, positions, strict=True):
        anchor = "right" if x < 3 else "center" if x < 7 else "left"
        for name in column:
            axes.text(x, rows[name], plain(name), ha=anchor, va="center", fontsize=8, bbox=BOX)
    return drawing


def _curve(
    axes: Axes, link: Link, start: tuple[float, float], end: tuple[float, float], most: int, colour: str
) -> None:
    width = 1.0 if not link.count else max(1.0, WIDEST * link.count / most)
    middle = (start[0] + end[0]) / 2
    curve = paths.Path(
        [start, (middle, start[1]), (middle, end[1]), end],
        [paths.Path.MOVETO, paths.Path.CURVE4, paths.Path.CURVE4, paths.Path.CURVE4],
    )
    style = "solid" if link.count else "dashed"
    patch = patches.PathPatch(curve, fill=False, edgecolor=colour, alpha=0.45, linewidth=width, linestyle=style)
    axes.add_patch(patch)


def plain(text: str) -> str:
    """Return a name for matplotlib: shortened, and without formulas begun by a dollar."""
    return printable(short(text, MAX_NAME)).replace("$", r"\$")
