"""The benchmarks' charts: brokers beside each other, and what a message costs as something grows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.bench.loads.generator import Figures
from tests.bench.loads.workloads import LATENCY, Workload
from tests.bench.reports.results import TITLES, Results, Row

try:
    from matplotlib import figure as drawing
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter
except ImportError:  # the benchmark runs without it, and says so
    HAS_MATPLOTLIB = False
else:
    HAS_MATPLOTLIB = True

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Told apart by people who see no red or green, too; those of Spanwire are blue.
COLOURS: Final = {
    "compiled": "#08519c",
    "pure": "#6baed6",
    "given": "#d95f02",
    "classic": "#525252",
    "artemis": "#a6761d",
    "rabbitmq": "#e6ab02",
}
MARKERS: Final = {"compiled": "o", "pure": "o", "given": "P", "classic": "s", "artemis": "D", "rabbitmq": "^"}
DPI: Final = 120
WIDTH: Final = 9.5  # inches; about the width of a page
OVERVIEW: Final = (
    "OpenWire queue 1:1",
    "STOMP queue 1:1",
    "OpenWire topic 1:10",
    "STOMP queue 4:4, client-individual",
    "OpenWire 16:4, persistent, synchronous",
    "OpenWire queue 1:1, synchronous",
)

Curves = dict[str, list[tuple[int, float]]]
"""What grows → its values and the broker's CPU in microseconds per message."""


def short(value: float) -> str:
    """Return a number with three digits that count, and commas: 532,000, 1,380, 14.4, 1.85."""
    if value >= 100:
        digits = len(str(int(value))) - 3
        return f"{round(value / 10**digits) * 10**digits:,.0f}"
    if value >= 10:
        return f"{value:.1f}"
    return f"{value:.2f}" if value >= 0.01 else f"{value:.3f}"


def draw(results: Results, directory: Path, name: str) -> dict[str, str]:
    """Write the charts as PNG; return their files' names by what they show: none without matplotlib or figures."""
    if not HAS_MATPLOTLIB or not results.labels:
        return {}
    loaded = [workload for workload in results.workloads if not workload.rate]
    parts: dict[str, Callable[[Path], bool]] = {
        "overview": lambda target: _draw_overview(results, target),
        "rate": lambda target: _draw_dots(
            results, loaded, lambda figures: figures.rate, "messages per second: further right is better", target
        ),
        "cpu": lambda target: _draw_dots(
            results, loaded, lambda figures: figures.cpu_us, "broker's CPU, µs per message: further left is better",
            target,
        ),
        "latency": lambda target: _draw_latency(results, target),
    }  # fmt: skip
    written: dict[str, str] = {}
    for part, write in parts.items():
        target = directory / f"{name}-{part}.png"
        if write(target):
            written[part] = target.name
        else:
            target.unlink(missing_ok=True)
    return written


def _draw_overview(results: Results, target: Path) -> bool:
    """Bars with their numbers for a few workloads: rate at the left, CPU at the right."""
    chosen = [workload for name in OVERVIEW for workload in results.workloads if workload.name == name]
    if not chosen:
        return False
    rows = {workload: [row for label in results.labels if (row := results.row(workload, label))] for workload in chosen}
    chosen = [workload for workload in chosen if rows[workload]]
    heights = [len(rows[workload]) + 1.2 for workload in chosen]
    figure = drawing.Figure(figsize=(WIDTH, 0.8 + 0.23 * sum(heights)), layout="constrained")
    grid = figure.subplots(len(chosen), 2, squeeze=False, height_ratios=heights)
    for number, workload in enumerate(chosen):
        here = rows[workload]
        _bars(grid[number][0], here, [row.median.rate for row in here])
        _bars(grid[number][1], here, [row.median.cpu_us or 0.0 for row in here])
        grid[number][0].set_title(workload.name, loc="left", fontsize=10, fontweight="bold")
        grid[number][0].set_yticks(range(len(here)), [TITLES[row.broker] for row in here], fontsize=9)
        grid[number][1].set_yticks([])
    for axes, title in zip(
        grid[0],
        ("messages per second: more is better", "CPU of the broker, µs per message: less is better"),
        strict=True,
    ):
        axes.annotate(
            title, (0, 1), xytext=(0, 30), xycoords="axes fraction", textcoords="offset points", color="#525252",
            annotation_clip=False,
        )  # fmt: skip
    figure.savefig(target, dpi=DPI)
    return True


def _bars(axes: Axes, rows: Sequence[Row], values: Sequence[float]) -> None:
    bars = axes.barh(range(len(rows)), values, height=0.75, color=[COLOURS[row.broker] for row in rows])
    axes.bar_label(bars, [short(value) if value else "not known" for value in values], padding=4, fontsize=9)
    axes.set_xlim(0, max([*values, 1e-9]) * 1.18)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_xticks([])
    axes.spines[["top", "right", "bottom"]].set_visible(False)


def _draw_dots(
    results: Results,
    workloads: Sequence[Workload],
    figure_of: Callable[[Figures], float | None],
    title: str,
    target: Path,
) -> bool:
    """A line for each workload, on it a mark for each broker and its runs from the lowest to the highest."""
    shown = [workload for workload in workloads if any(results.row(workload, label) for label in results.labels)]
    lines = _with_sections(shown)
    known = [run for row in results.rows for run in row.runs if row.workload in shown and figure_of(run) is not None]
    if not known:
        return False
    figure = drawing.Figure(figsize=(WIDTH, 1.5 + 0.29 * len(lines)), layout="constrained")
    axes = figure.subplots()
    for label in reversed(results.labels):  # the first one on top
        for place, line in enumerate(lines):
            row = results.row(line, label) if isinstance(line, Workload) else None
            values = [value for run in row.runs if (value := figure_of(run)) is not None] if row else []
            if row is None or not values:
                continue
            axes.plot([min(values), max(values)], [place, place], color=COLOURS[label], linewidth=2, alpha=0.5)
            axes.plot([figure_of(row.median)], [place], **_mark(label))
    _name_lines(axes, lines)
    _log_scale(axes)
    axes.set_xlabel(title, fontsize=10)
    _legend(figure, axes, results.labels)
    figure.savefig(target, dpi=DPI)
    return True


def _draw_latency(results: Results, target: Path) -> bool:
    """For each broker a line from the median of a message's time to its 99th percentile."""
    lines = [
        (workload, label)
        for workload in results.workloads
        if workload.section == LATENCY
        for label in results.labels
        if results.row(workload, label)
    ]
    if not lines:
        return False
    figure = drawing.Figure(figsize=(WIDTH, 1.2 + 0.3 * len(lines)), layout="constrained")
    axes = figure.subplots()
    for place, (workload, label) in enumerate(lines):
        row = results.row(workload, label)
        assert row is not None
        median = row.median
        axes.plot([median.p50_us, median.p99_us], [place, place], color=COLOURS[label], linewidth=3, alpha=0.5)
        axes.plot([median.p50_us], [place], **_mark(label))
        axes.plot([median.p99_us], [place], "|", color=COLOURS[label], markersize=12, markeredgewidth=2)
        axes.annotate(
            f"{short(median.p50_us)} / {short(median.p99_us)} µs", (median.p99_us, place), xytext=(8, 0),
            textcoords="offset points", va="center", fontsize=8, color="#404040",
        )  # fmt: skip
    axes.set_yticks(
        range(len(lines)),
        [f"{TITLES[label]}, {workload.protocol.replace('stomp', 'STOMP').replace('openwire', 'OpenWire')}"
         for workload, label in lines],
        fontsize=9,
    )  # fmt: skip
    axes.set_ylim(len(lines) - 0.4, -0.6)
    _log_scale(axes)
    axes.set_xlim(right=axes.get_xlim()[1] * 4)  # room for the numbers
    axes.set_xlabel(
        "µs from the send to the receipt of a message at 2,000/s: mark median, stroke 99th percentile", fontsize=10
    )
    figure.savefig(target, dpi=DPI)
    return True


def _with_sections(workloads: Sequence[Workload]) -> list[Workload | str]:
    lines: list[Workload | str] = []
    for workload in workloads:
        if workload.section not in lines:
            lines.append(workload.section)
        lines.append(workload)
    return lines


def _name_lines(axes: Axes, lines: Sequence[Workload | str]) -> None:
    axes.set_yticks(range(len(lines)), [line if isinstance(line, str) else line.name for line in lines], fontsize=9)
    for label, line in zip(axes.get_yticklabels(), lines, strict=True):
        label.set_fontweight("bold" if isinstance(line, str) else "normal")
    for place, line in enumerate(lines):
        if not isinstance(line, str):
            axes.axhline(place, color="#dddddd", linewidth=0.8, zorder=0)
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(len(lines) - 0.4, -0.6)


def _log_scale(axes: Axes) -> None:
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(base=10, subs=(1.0, 2.0, 5.0)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.tick_params(axis="x", labelsize=8, rotation=35)
    axes.grid(axis="x", alpha=0.25)
    axes.spines[["top", "right", "left"]].set_visible(False)


def _mark(label: str) -> dict[str, object]:
    return {
        "marker": MARKERS[label], "color": COLOURS[label], "markersize": 8, "linestyle": "none",
        "markeredgecolor": "white", "markeredgewidth": 0.7,
    }  # fmt: skip


def _legend(figure: drawing.Figure, axes: Axes, labels: Sequence[str]) -> None:
    handles = [axes.plot([], [], **_mark(label))[0] for label in labels]
    figure.legend(
        handles, [TITLES[label] for label in labels], loc="outside upper center", ncols=len(labels), frameon=False,
        fontsize=9, handletextpad=0.2, columnspacing=1.2,
    )  # fmt: skip


def draw_curves(curves: Curves, target: Path) -> bool:
    """Write one small chart for each curve as PNG; False when matplotlib is missing."""
    if not HAS_MATPLOTLIB or not curves:
        return False
    columns = min(3, len(curves))
    rows = -(-len(curves) // columns)
    figure = drawing.Figure(figsize=(4.4 * columns, 3.2 * rows), layout="constrained")
    for number, (name, values) in enumerate(curves.items()):
        axes = figure.add_subplot(rows, columns, number + 1)
        axes.plot([value for value, _ in values], [cost for _, cost in values], "o-", color=COLOURS["compiled"])
        axes.set_xscale("log")
        if max(cost for _, cost in values) > 20 * min(cost for _, cost in values):
            axes.set_yscale("log")
        else:
            axes.set_ylim(bottom=0)
        axes.set_title(name, fontsize=10)
        axes.set_ylabel("broker CPU µs per message", fontsize=8)
        axes.grid(alpha=0.3)
    figure.savefig(target, dpi=110)
    return True
