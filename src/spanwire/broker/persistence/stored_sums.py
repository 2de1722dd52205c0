"""The port to the ledger of stored messages, which survives the broker (`spanwire.model.ledger`)."""

from __future__ import annotations

from typing import Final, Protocol

from spanwire.model.destination import Destination
from spanwire.model.ledger import Sums


class StoredSums:
    """The ledger of stored messages of one destination, which nobody else may change.

    Without a fault ``pending``, the number of messages in the store, is the balance of ``sums``.
    """

    __slots__ = ("pending", "sums")

    def __init__(self, sums: Sums, pending: int) -> None:
        self.sums: Final[Sums] = sums
        self.pending: Final[int] = pending


class StoreLedger(Protocol):
    """Counts what a store has written. Reads no file."""

    def counted(self) -> list[Destination]:
        """Return the destinations in the ledger of stored messages."""
        ...

    def sums(self, destination: Destination | None) -> StoredSums | None:
        """Return the ledger of a destination, None without a ledger; for None that of removed destinations."""
        ...

    def link_sums(self) -> Sums:
        """Return the sums of all destinations by link."""
        ...
