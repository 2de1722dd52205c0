"""Weights of wildcards of topics, by the names in front of the first wildcard.

The sum is the largest possible weight of one topic.
"""

from __future__ import annotations

from typing import Final

from spanwire.model.destination import Destination

NAMES_COMPARED: Final = 8  # of each wildcard; wildcards with equal names up to here count together


class WildWeights:
    """Adds up weights, to bound the weight of a topic, with one look-up for each name of the topic.

    A wildcard matches only topics that begin with the names in front of the wildcard.
    """

    def __init__(self) -> None:
        self._own: Final[dict[str, int]] = {}  # weights of the wildcards with exactly the key's names in front
        self._all: Final[dict[str, int]] = {}  # weights of the wildcards with the key's names first, and maybe others

    def add(self, patterns: list[Destination], weight: int) -> None:
        """Count a consumer of ``patterns``; a negative ``weight`` removes the consumer."""
        counted: set[str] = set()
        for pattern in patterns:
            own = fronts(pattern)
            if own[-1] not in counted:
                counted.add(own[-1])
                _add(self._own, own[-1], weight)
                for name in own:
                    _add(self._all, name, weight)

    def most(self, pattern: Destination) -> int:
        """Return the largest possible weight of a topic under ``pattern``."""
        own = fronts(pattern)
        most = self._all.get(own[-1], 0)
        for name in own[:-1]:
            most += self._own.get(name, 0)
        return most

    def is_empty(self) -> bool:
        """Return True if no consumer is counted."""
        return not self._own and not self._all


def wild_topics(parts: list[Destination]) -> list[Destination]:
    """Return the wildcards of topics among ``parts``."""
    return [part for part in parts if part.is_pattern and not part.is_queue]


def front_of(pattern: Destination) -> str:
    """Return the names in front of the first wildcard.

    A consumer counts once for patterns with equal names in front.
    """
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
