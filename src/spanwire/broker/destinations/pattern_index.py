"""Index of wildcards by the elements in front of the first wildcard.

So a new destination is compared with few of the wildcards.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Final

from spanwire.broker.destinations.wild_weights import NAMES_COMPARED, fronts
from spanwire.model.destination import Destination
from spanwire.model.errors import ResourceAllocationError

COMPARED_PER_STEP: Final = 64  # comparisons, 0.3 microseconds each, that count as one step
MAX_COMPARED: Final = 64_000  # comparisons of one request with several destinations, as many as a turn has steps for


class SharedPattern:
    """A wildcard or name with the numbers of all owners, oldest first."""

    __slots__ = ("owners", "pattern")

    def __init__(self, pattern: Destination) -> None:
        self.pattern: Final[Destination] = pattern
        self.owners: Final[dict[int, int]] = {}  # how often each owner has the pattern


class PatternIndex:
    """Finds the owners of wildcards and names for a destination. Each owner has a number."""

    def __init__(self) -> None:
        self._by_front: Final[dict[str, dict[str, SharedPattern]]] = {}  # by name; equal patterns are one
        self._counts: Final[dict[str, int]] = {}  # patterns of all owners under each key of ``_by_front``
        self._longer: Final[dict[str, dict[str, int]]] = {}  # keys one name longer, with the patterns behind each
        self.looked = 0  # keys that the last call of `overlapping` looked at

    def add(self, number: int, pattern: Destination) -> None:
        """Add a wildcard or name of the owner ``number``."""
        keys = _keys(pattern)
        key = keys[-1]
        shared = self._by_front.setdefault(key, {}).get(pattern.qualified_name)
        if shared is None:
            shared = SharedPattern(pattern)
            self._by_front[key][pattern.qualified_name] = shared
        shared.owners[number] = shared.owners.get(number, 0) + 1
        self._counts[key] = self._counts.get(key, 0) + 1
        for shorter, longer in pairwise(keys):
            below = self._longer.setdefault(shorter, {})
            below[longer] = below.get(longer, 0) + 1

    def remove(self, number: int, pattern: Destination) -> None:
        """Forget a wildcard or name of the owner ``number``."""
        keys = _keys(pattern)
        key = keys[-1]
        patterns = self._by_front[key]
        owners = patterns[pattern.qualified_name].owners
        owners[number] -= 1
        if owners[number] == 0:
            del owners[number]
        if not owners:
            del patterns[pattern.qualified_name]
        self._counts[key] -= 1
        if not patterns:
            del self._by_front[key]
            del self._counts[key]
        for shorter, longer in pairwise(keys):
            below = self._longer[shorter]
            below[longer] -= 1
            if below[longer] == 0:
                del below[longer]
            if not below:
                del self._longer[shorter]

    def compared(self, destination: Destination) -> int:
        """Return the largest possible number of comparisons of `find`."""
        return sum([self._counts.get(key, 0) for key in _keys(destination)])

    def find(self, destination: Destination) -> list[int]:
        """Return the numbers of the owners with a match for ``destination``, ascending, each once."""
        owners: dict[int, int] = {}
        for key in _keys(destination):
            for shared in self._by_front.get(key, {}).values():
                if shared.pattern.matches(destination):
                    owners.update(shared.owners)
        return sorted(owners)

    def overlapping(self, wanted: Destination) -> list[SharedPattern]:
        """Return all patterns with a possible match under ``wanted``, each once.

        ``wanted`` may have ``*`` as wildcard. Only the names in front of a pattern's first wildcard are compared, so
        the result may include patterns without a match.
        """
        keys = [f"{wanted.kind} "]
        patterns: list[SharedPattern] = []
        self.looked = 0
        for element in wanted.elements[:NAMES_COMPARED]:
            self._collect(keys, patterns)
            longer: list[str] = []
            suffix = element + "."
            for key in keys:
                below = self._longer.get(key)
                if below is None:
                    continue
                if element == "*":
                    longer.extend(below)
                elif key + suffix in below:
                    longer.append(key + suffix)
            keys = longer
        self._collect(keys, patterns)
        return patterns

    def _collect(self, keys: list[str], found: list[SharedPattern]) -> None:
        self.looked += len(keys)
        for key in keys:
            patterns = self._by_front.get(key)
            if patterns is not None:
                found.extend(patterns.values())


def _keys(destination: Destination) -> list[str]:
    """Return the keys of all patterns for ``destination``; the last is the destination's own key."""
    return [f"{destination.kind} {front}" for front in fronts(destination)]


def check_compared(parts: int, comparisons: int) -> None:
    """Raise `ResourceAllocationError` if one request takes too many comparisons for several ``parts``.

    Other limits apply to a single part.
    """
    if parts > 1 and comparisons > MAX_COMPARED:
        raise ResourceAllocationError(
            f"{parts} destinations or wildcards of one request are compared {comparisons} times, {MAX_COMPARED} times "
            f"are the most: name fewer of them at once"
        )
