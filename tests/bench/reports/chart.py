"""The benchmarks' charts: rate and CPU per message of brokers, and what a message costs as something grows."""

from __future__ import annotations

from pathlib import Path

try:
    from matplotlib import figure as drawing
except ImportError:  # the benchmark runs without it, and says so
    HAS_MATPLOTLIB = False
else:
    HAS_MATPLOTLIB = True

COLOURS = {"classic": "#8a8a8a", "compiled": "#1f5fa8", "pure": "#8fb8e0"}
Bars = dict[str, dict[str, tuple[float, float]]]
"""Workload → broker → messages per second and broker CPU in microseconds per message."""

Curves = dict[str, list[tuple[int, float]]]
"""What grows → its values and the broker's CPU in microseconds per message."""


def draw(bars: Bars, target: Path) -> bool:
    """Write the chart as PNG; False when matplotlib is missing."""
    if not HAS_MATPLOTLIB or not bars:
        return False
    names = list(bars)
    labels = [label for label in COLOURS if any(label in entry for entry in bars.values())]
    height = 0.8 / len(labels)
    figure = drawing.Figure(figsize=(13, 1.5 + 0.42 * len(names)), layout="constrained")
    axes = figure.subplots(1, 2, sharey=True)
    for column, title in enumerate(
        ("messages per second (more is better)", "broker CPU µs per message (less is better)")
    ):
        for number, label in enumerate(labels):
            places = [row + number * height for row in range(len(names))]
            values = [bars[name].get(label, (0.0, 0.0))[column] for name in names]
            axes[column].barh(places, values, height=height, color=COLOURS[label], label=label)
        axes[column].set_xscale("log")
        axes[column].set_title(title, fontsize=10)
        axes[column].grid(axis="x", alpha=0.3)
    axes[0].set_yticks([row + 0.4 - height / 2 for row in range(len(names))], names, fontsize=8)
    axes[0].invert_yaxis()
    axes[1].legend(frameon=False, fontsize=9)
    figure.savefig(target, dpi=110)
    return True


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
