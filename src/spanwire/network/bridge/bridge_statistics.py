"""Counters of the messages of one link, at one end of the link."""

from __future__ import annotations

from typing import Final

from spanwire.model.routing import DestinationCounts, Refusals

MAX_KEPT: Final = 50  # destinations of a direction whose counts a closed duplex link keeps; a peer chooses the names


class LinkCounts:
    """Counts by destination of one link, for all successive bridges.

    ``began`` is the time of the first bridge in monotonic seconds, 0.0 before.
    """

    __slots__ = ("began", "inbound", "outbound")

    def __init__(self) -> None:
        self.began = 0.0
        self.outbound: Final[DestinationCounts] = DestinationCounts()
        self.inbound: Final[DestinationCounts] = DestinationCounts()

    def begin(self, monotonic: float) -> None:
        """Note the first bridge; later bridges make no change."""
        if self.began == 0.0:
            self.began = monotonic

    def reset(self, monotonic: float, direction: str | None = None, destination: str | None = None) -> None:
        """Set all counts to 0, or the count of one destination in a ``direction``.

        Without a destination rates are counted from now on.
        """
        if destination is None:
            self.began = monotonic
        for name, counts in (("outbound", self.outbound), ("inbound", self.inbound)):
            if direction in (None, name):
                counts.reset(destination)

    def shrink(self) -> None:
        """Keep the largest counts of a closed link."""
        self.outbound.shrink(MAX_KEPT)
        self.inbound.shrink(MAX_KEPT)

    def rows(self) -> list[tuple[str, str | None, int]]:
        """Return direction, destination and number of messages.

        The destination is None for all further destinations.
        """
        rows: list[tuple[str, str | None, int]] = []
        for direction, counts in (("outbound", self.outbound), ("inbound", self.inbound)):
            for name, number in counts.by_name.items():
                rows.append((direction, name, number))
            if counts.others > 0:
                rows.append((direction, None, counts.others))
        return rows


class BridgeStatistics:
    """Counts the messages of one bridge, or of all successive bridges of one link.

    ``sent`` messages were written to the remote broker, and ``answered`` messages confirmed there. ``received``
    messages came from there over a duplex link. ``failed`` messages were refused or could not be sent. ``refusals``
    counts, by reason, the messages not forwarded. ``unserved`` counts remote consumers without demand here.
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

    def subtract(self, other: BridgeStatistics) -> None:
        """Subtract the counters of ``other``."""
        self.sent -= other.sent
        self.answered -= other.answered
        self.received -= other.received
        self.failed -= other.failed
        self.unserved -= other.unserved
        self.refusals.subtract(other.refusals)


class LinkFailures:
    """Counts the failures of links.

    ``attempts`` did not lead to a link, ``breaks`` ended a running link, and ``local`` failures have their cause here.
    """

    __slots__ = ("attempts", "breaks", "local")

    def __init__(self) -> None:
        self.attempts = 0
        self.breaks = 0
        self.local = 0

    def add(self, other: LinkFailures) -> None:
        """Add the counters of ``other``."""
        self.attempts += other.attempts
        self.breaks += other.breaks
        self.local += other.local

    def reset(self) -> None:
        """Set the counters to 0."""
        self.attempts = self.breaks = self.local = 0
