"""Recovered contents of a store, passed to the broker before the first connection."""

from __future__ import annotations

from array import array
from typing import Final

from spanwire.model.destination import Destination


class Expirations:
    """The expiring messages of one destination.

    ``sequences`` is in ascending order. ``wall_ms`` holds the expiration of each message at the same index, in
    milliseconds since 1970.
    """

    __slots__ = ("sequences", "wall_ms")

    def __init__(self, sequences: array[int], wall_ms: array[int]) -> None:
        self.sequences: Final[array[int]] = sequences
        self.wall_ms: Final[array[int]] = wall_ms


class RecoveredDestination:
    """One stored destination.

    - ``sequences``: the messages, in ascending order.
    - ``redeliveries``: sequence → deliveries without acknowledgement; a missing sequence means none.
    - ``priorities``: sequence → priority, unless `spanwire.model.message.DEFAULT_PRIORITY`.
    - ``expirations``: the expiring messages.

    Messages stored by journal format 1 never appear in ``priorities`` and ``expirations``.
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
    """Return empty `Expirations`."""
    return Expirations(array("q"), array("q"))
