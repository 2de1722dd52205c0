"""What crossed one link and what did not, counted at one end of it."""

from __future__ import annotations

from spanwire.model.routing import Refusals


class BridgeStatistics:
    """Messages of one bridge, or of all bridges of one link one after the other.

    ``sent`` were written to the remote broker and ``answered`` by it, ``received`` came from it over a duplex link,
    ``failed`` it refused or could not be sent at all. ``refusals`` says how often, and why, a message was held back;
    ``unserved`` counts remote consumers that are no demand here.
    """

    __slots__ = ("answered", "failed", "received", "refusals", "sent", "unserved")

    def __init__(self) -> None:
        self.sent = 0
        self.answered = 0
        self.received = 0
        self.failed = 0
        self.unserved = 0
        self.refusals: Refusals = Refusals()

    def add(self, other: BridgeStatistics) -> None:
        """Count those of ``other``, too."""
        self.sent += other.sent
        self.answered += other.answered
        self.received += other.received
        self.failed += other.failed
        self.unserved += other.unserved
        self.refusals.add(other.refusals)
