"""Counters of the messages of one link, at one end of the link."""

from __future__ import annotations

from spanwire.model.routing import Refusals


class BridgeStatistics:
    """Counts the messages of one bridge, or of all successive bridges of one link.

    ``sent`` messages were written to the remote broker, and ``answered`` ones confirmed by it. ``received`` messages
    came from it over a duplex link. ``failed`` messages were refused or could not be sent. ``refusals`` counts, by
    reason, the messages not forwarded. ``unserved`` counts remote consumers without demand here.
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
        """Add the counters of ``other``."""
        self.sent += other.sent
        self.answered += other.answered
        self.received += other.received
        self.failed += other.failed
        self.unserved += other.unserved
        self.refusals.add(other.refusals)
