"""Recovered contents of a store, handed to the broker before the first connection."""

from __future__ import annotations

from array import array
from typing import Final

from spanwire.model.destination import Destination


class Expirations:
    """The messages of one destination that expire: ``sequences`` in rising order and, at the same place in
    ``wall_ms``, when (milliseconds since 1970).
    """

    __slots__ = ("sequences", "wall_ms")

    def __init__(self, sequences: array[int], wall_ms: array[int]) -> None:
        self.sequences: Final[array[int]] = sequences
        self.wall_ms: Final[array[int]] = wall_ms


class RecoveredDestination:
    """One stored destination: the sequences of its messages in rising order; how often some of them were delivered
    without being acknowledged (sequence → redelivery count; absent means never); those whose priority is not
    `spanwire.model.message.DEFAULT_PRIORITY` (sequence → priority); and those that expire.

    A message stored by journal format 1 is in neither of the last two, whatever its priority and expiration are.
    """

    __slots__ = ("destination", "expirations", "priorities", "redeliveries", "sequences")

    def __init__(
        self,
        destination: Destination,
        sequences: array[int],
        redeliveries: dict[int, int],
        priorities: dict[int, int],
        expirations: Expirations,
    ) -> None:
        self.destination: Final[Destination] = destination
        self.sequences: Final[array[int]] = sequences
        self.redeliveries: Final[dict[int, int]] = redeliveries
        self.priorities: Final[dict[int, int]] = priorities
        self.expirations: Final[Expirations] = expirations


def no_expirations() -> Expirations:
    """Nothing expires."""
    return Expirations(array("q"), array("q"))
