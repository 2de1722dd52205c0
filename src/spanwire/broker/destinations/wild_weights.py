"""Weights of wildcards of topics, by the names in front of the first wildcard.

The sum is the most that one topic can get.
"""

from __future__ import annotations

from typing import Final

from spanwire.model.destination import Destination

NAMES_COMPARED: Final = 8  # of each wildcard; those that differ further behind count together


class WildWeights:
    """Adds up weights, to bound the weight of a topic under a wildcard.

    One look-up for each name of the topic is enough.

    A topic falls only under wildcards whose names in front are the beginning of its own name.
    """

    def __init__(self) -> None:
        self._own: Final[dict[str, int]] = {}  # of the wildcards with just these names in front
        self._all: Final[dict[str, int]] = {}  # and of those with further names behind these

    def add(self, patterns: list[Destination], weight: int) -> None:
        """Count a consumer of these ``patterns``; a negative ``weight`` takes it away again."""
        counted: set[str] = set()
        for pattern in patterns:
            own = fronts(pattern)
            if own[-1] not in counted:
                counted.add(own[-1])
                _add(self._own, own[-1], weight)
                for name in own:
                    _add(self._all, name, weight)

    def most(self, pattern: Destination) -> int:
        """Return a weight that no topic under ``pattern`` exceeds."""
        own = fronts(pattern)
        most = self._all.get(own[-1], 0)
        for name in own[:-1]:
            most += self._own.get(name, 0)
        return most

    def is_empty(self) -> bool:
        """Return True if nothing is counted."""
        return not self._own and not self._all


def wild_topics(parts: list[Destination]) -> list[Destination]:
    """Return the wildcards of topics among ``parts``."""
    return [part for part in parts if part.is_pattern and not part.is_queue]


def front_of(pattern: Destination) -> str:
    """Return the names in front of the first wildcard; a consumer counts once for all that begin alike."""
    return fronts(pattern)[-1]


def fronts(pattern: Destination) -> list[str]:
    """Return the names in front of the first wildcard, name by name.

    The longest is the last, and the empty one the first.
    """
    front = ""
    names = [front]
    for element in pattern.elements[:NAMES_COMPARED]:
        if element in ("*", ">"):
            break
        front += element + "."
        names.append(front)
    return names


def _add(weights: dict[str, int], name: str, weight: int) -> None:
    total = weights.get(name, 0) + weight
    if total:
        weights[name] = total
    else:
        weights.pop(name, None)
