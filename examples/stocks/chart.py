"""The demonstration's chart: what was sent and delivered over time, and the moment the broker was killed."""

from __future__ import annotations

from pathlib import Path

try:
    from matplotlib import figure as drawing
except ImportError:  # the demonstration runs without it, and says so
    HAS_MATPLOTLIB = False
else:
    HAS_MATPLOTLIB = True

Sample = tuple[float, int, int, int]
"""Seconds since the start, answered sends, delivered messages, messages in flight."""


def draw(samples: list[Sample], killed_at: float, restarted_at: float, target: Path) -> bool:
    """Write the chart as PNG; False when matplotlib is missing."""
    if not HAS_MATPLOTLIB:
        return False
    seconds = [sample[0] for sample in samples]
    figure = drawing.Figure(figsize=(9, 4.5), layout="constrained")
    axes = figure.subplots()
    axes.plot(seconds, [sample[1] for sample in samples], label="answered sends", color="#1f5fa8", linewidth=2)
    axes.plot(seconds, [sample[2] for sample in samples], label="delivered messages", color="#d9822b", linewidth=2)
    axes.fill_between(
        seconds, [sample[3] for sample in samples], label="in flight", color="#7a7a7a", alpha=0.35, linewidth=0
    )
    axes.axvspan(killed_at, restarted_at, color="#c23030", alpha=0.25, label="broker down (kill -9)")
    axes.set_xlabel("seconds")
    axes.set_ylabel("messages")
    axes.set_title("Trades through one broker that is killed on the way")
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.25)
    axes.legend(loc="lower right", frameon=False)
    figure.savefig(target, dpi=130)
    return True
