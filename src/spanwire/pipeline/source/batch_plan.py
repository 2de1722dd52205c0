"""Chooses the sources of the next batch of a query with several sources."""

from __future__ import annotations

from collections.abc import Mapping


class BatchPlan:
    """Serves the sources with messages by turns, so that a busy source delays no other source."""

    def __init__(self) -> None:
        self._batch = 0
        self._last_batches: dict[str, int] = {}

    def choose(self, rows: Mapping[str, int], max_rows: int) -> list[str]:
        """Return the sources of the next batch, in order.

        Sources without a part in recent batches come first. A source takes part with all ready rows or not at all. A
        single source may exceed ``max_rows``.

        Args:
            rows: the number of ready rows, by source.
            max_rows: the most rows of a batch.
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
