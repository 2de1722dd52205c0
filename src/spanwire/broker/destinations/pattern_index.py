"""Index of wildcards by the elements in front of the first wildcard: a new destination is compared with few of them."""

from __future__ import annotations

from typing import Final

from spanwire.broker.destinations.wild_weights import fronts
from spanwire.model.destination import Destination
from spanwire.model.errors import ResourceAllocationError

COMPARED_PER_STEP: Final = 64  # comparisons, 0.3 microseconds each, that count as one step
MAX_COMPARED: Final = 64_000  # comparisons of one request with several destinations, as many as a turn has steps for


class PatternIndex:
    """Finds the owners of wildcards and names that match a destination. Each owner has a number."""

    def __init__(self) -> None:
        self._by_front: Final[dict[str, dict[int, list[Destination]]]] = {}
        self._counts: Final[dict[str, int]] = {}  # patterns under each key of ``_by_front``

    def add(self, number: int, pattern: Destination) -> None:
        """Add a wildcard or name of the owner ``number``."""
        key = _keys(pattern)[-1]
        self._by_front.setdefault(key, {}).setdefault(number, []).append(pattern)
        self._counts[key] = self._counts.get(key, 0) + 1

    def remove(self, number: int, pattern: Destination) -> None:
        """Forget a wildcard or name of the owner ``number``."""
        key = _keys(pattern)[-1]
        owners = self._by_front[key]
        owners[number].remove(pattern)
        if not owners[number]:
            del owners[number]
        self._counts[key] -= 1
        if not owners:
            del self._by_front[key]
            del self._counts[key]

    def compared(self, destination: Destination) -> int:
        """Return the number of comparisons of `find`."""
        return sum([self._counts.get(key, 0) for key in _keys(destination)])

    def find(self, destination: Destination) -> list[int]:
        """Return the numbers of the owners with a match for ``destination``, ascending, each once."""
        found: dict[int, None] = {}
        for key in _keys(destination):
            owners = self._by_front.get(key)
            if owners is None:
                continue
            for number, patterns in owners.items():
                for pattern in patterns:
                    if pattern.matches(destination):
                        found[number] = None
                        break
        return sorted(found)


def _keys(destination: Destination) -> list[str]:
    """Return the keys of all patterns that ``destination`` may match; its own key as a pattern is the last."""
    return [f"{destination.kind} {front}" for front in fronts(destination)]


def check_compared(parts: int, comparisons: int) -> None:
    """Raise `ResourceAllocationError` if one request takes too many comparisons for its ``parts``.

    A single part has limits of its own.
    """
    if parts > 1 and comparisons > MAX_COMPARED:
        raise ResourceAllocationError(
            f"{parts} destinations or wildcards of one request are compared {comparisons} times, {MAX_COMPARED} times "
            f"are the most: name fewer of them at once"
        )
