"""What a store found when it was opened, handed to the broker before the first connection."""

from __future__ import annotations

from array import array
from typing import Final

from spanwire.model.destination import Destination


class RecoveredDestination:
    """One stored destination: the sequences of its messages in rising order, and how often some of them were delivered
    without being acknowledged (sequence → redelivery count; absent means never).
    """

    __slots__ = ("destination", "redeliveries", "sequences")

    def __init__(self, destination: Destination, sequences: array[int], redeliveries: dict[int, int]) -> None:
        self.destination: Final[Destination] = destination
        self.sequences: Final[array[int]] = sequences
        self.redeliveries: Final[dict[int, int]] = redeliveries
