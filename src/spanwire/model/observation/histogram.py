"""A histogram of times: the number of times up to each bound, and the sum."""

from __future__ import annotations

from typing import Final

# Seconds: a sync of a fast SSD takes 0.1 ms, a slow turn of the loop 10 ms, and after 10 s something is broken.
BOUNDS: Final = (0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)


class Histogram:
    """Counts times between the bounds `BOUNDS`."""

    def __init__(self) -> None:
        self._counts: Final[list[int]] = [0] * (len(BOUNDS) + 1)
        self.total = 0.0  # seconds

    def add(self, seconds: float) -> None:
        """Count a time."""
        self.total += seconds
        index = 0
        for bound in BOUNDS:
            if seconds <= bound:
                break
            index += 1
        self._counts[index] += 1

    def counts(self) -> list[int]:
        """Return the number of times between each bound and the bound before, and last above all bounds."""
        return list(self._counts)
