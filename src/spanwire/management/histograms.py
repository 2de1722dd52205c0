"""The histograms of a broker for metrics.

The part ``histograms`` of the status has the values by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from spanwire.model.observation.histogram import BOUNDS, Histogram

STATUS_PART: Final = "histograms"
JOURNAL_SYNC: Final = "journal_sync"
LOOP_LAG: Final = "loop_lag"
LOOP_TURN: Final = "loop_turn"
MEANINGS: Final = {
    JOURNAL_SYNC: "time of a write and sync of the journal",
    LOOP_LAG: "delay of a timer of the broker's event loop, ten samples a second",
    LOOP_TURN: "time of one turn of the event loop, ten samples a second",
}


@dataclass(frozen=True, slots=True)
class Buckets:
    """A histogram read from a status: cumulated counts with upper bounds in seconds, and the sum."""

    counts: list[tuple[str, float]]
    total: float


def view_of(histogram: Histogram) -> dict[str, object]:
    """Return a histogram as a plain value."""
    return {"bounds": list(BOUNDS), "counts": histogram.counts(), "sum": histogram.total}


def buckets_of(status: Mapping[str, object], name: str) -> Buckets | None:
    """Return a histogram of a status; None for a name unknown to the broker.

    For example, a broker without a journal has no histograms of the journal.
    """
    part = status.get(STATUS_PART)
    view = part.get(name) if isinstance(part, Mapping) else None
    if not isinstance(view, Mapping):
        return None
    cumulated: list[tuple[str, float]] = []
    total = 0
    for bound, count in zip([*view["bounds"], float("inf")], view["counts"], strict=True):
        total += count
        cumulated.append(("+Inf" if bound == float("inf") else str(bound), total))
    return Buckets(cumulated, float(view["sum"]))
