"""The benchmark's chart: rate and CPU per message of each broker, workload by workload, on logarithmic scales."""

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
