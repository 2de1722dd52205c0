"""The demonstration's chart: sent, delivered and archived over time, and the moment broker B was killed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

try:
    from matplotlib import figure as drawing
except ImportError:  # the demonstration runs without it, and says so
    HAS_MATPLOTLIB = False
else:
    HAS_MATPLOTLIB = True


@dataclass(frozen=True, slots=True)
class Sample:
    """What had happened so many seconds after the first send."""

    seconds: float
    sent: int
    delivered: int
    archived: int
    in_flight: int


def draw(samples: list[Sample], killed_at: float, restarted_at: float, target: Path) -> bool:
    """Write the chart as PNG; False when matplotlib is missing."""
    if not HAS_MATPLOTLIB:
        return False
    seconds = [sample.seconds for sample in samples]
    figure = drawing.Figure(figsize=(9, 4.5), layout="constrained")
    axes = figure.subplots()
    axes.plot(seconds, [sample.sent for sample in samples], label="sent to A", color="#1f5fa8", linewidth=2)
    axes.plot(seconds, [sample.delivered for sample in samples], label="delivered by B", color="#d9822b", linewidth=2)
    axes.step(
        seconds,
        [sample.archived for sample in samples],
        where="post",
        label="archived by Spark",
        color="#2f8f5b",
        linewidth=2,
    )
    in_flight = [sample.in_flight for sample in samples]
    axes.fill_between(seconds, in_flight, label="held by consumers of B", color="#7a7a7a", alpha=0.35, linewidth=0)
    axes.axvspan(killed_at, restarted_at, color="#c23030", alpha=0.2, label="kill -9 of B, and B is down", linewidth=0)
    axes.axvline(killed_at, color="#c23030", linewidth=1.2)
    axes.set_xlabel("seconds since the first send")
    axes.set_ylabel("trades")
    axes.set_title("Trades from broker A over broker B to consumers and into Parquet")
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.25)
    axes.legend(loc="upper left", frameon=False)
    figure.savefig(target, dpi=130)
    return True
