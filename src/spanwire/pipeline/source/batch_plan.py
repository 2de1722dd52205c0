"""Chooses the sources of the next batch of a query with several sources."""

from __future__ import annotations

from collections.abc import Mapping


class BatchPlan:
    """Gives each source with messages its turn, so that a busy one keeps no other from a batch."""

    def __init__(self) -> None:
        self._batch = 0
        self._last_batches: dict[str, int] = {}

    def choose(self, rows: Mapping[str, int], max_rows: int) -> list[str]:
        """Return the sources of a batch of at most ``max_rows`` rows, but for a source that has more by itself.

        Args:
            rows: the number of rows that each source has ready.
            max_rows: the largest batch.

        The sources that have been left out the longest come first. A source takes part with all of its rows or none.
        """
        chosen: list[str] = []
        total = 0
        for name in sorted(rows, key=lambda name: (self._last_batches.get(name, -1), name)):
            total += rows[name]
            if chosen and total > max_rows:
                break
            chosen.append(name)
        for name in chosen:
            self._last_batches[name] = self._batch
        self._batch += bool(chosen)
        return chosen
