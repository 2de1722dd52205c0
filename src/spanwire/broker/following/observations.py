"""Steps of marked messages, and the bounded list of unread steps."""

from __future__ import annotations

from typing import Final

MAX_OBSERVATIONS: Final = 5_000  # observations of one mark, about 2 MB; later ones are counted and not kept
MAX_LOCATION: Final = 300  # characters of the name of a consumer, destination or cause

# steps
FOUND: Final = "found"  # it was here before the mark
ACCEPTED: Final = "accepted"
STORED: Final = "stored"  # a power failure cannot take it any more
DISPATCHED: Final = "dispatched"
SENT_ON: Final = "sent-on"  # dispatched to the bridge of a link
ACKNOWLEDGED: Final = "acknowledged"
WRITTEN: Final = "written"  # by the batch of a sink
FORWARDED: Final = "forwarded"  # the broker at the other end of a link has it
ENDS: Final = {  # steps after which a message is not at this broker any more, or died
    ACKNOWLEDGED, FORWARDED, "expired", "dead-lettered", "discarded", "moved", "removed", "sent-nowhere", "duplicate",
    "pushed-out",
}  # fmt: skip


class Observation:
    """One step of one message at this broker.

    ``location`` is the consumer, link or target of the step, ``detail`` the cause. ``hops`` counts the brokers
    on the path before this broker, ``deliveries`` the earlier deliveries. ``wall_ms`` is the local time in milliseconds
    since 1970. ``broker`` is the broker at the target of a bridge where it was seen, "" for this one.
    """

    __slots__ = (
        "broker",
        "deliveries",
        "destination",
        "detail",
        "hops",
        "location",
        "message_id",
        "number",
        "step",
        "wall_ms",
    )

    def __init__(
        self,
        number: int,
        step: str,
        message_id: str,
        destination: str,
        location: str,
        detail: str,
        hops: int,
        deliveries: int,
        wall_ms: int,
        broker: str = "",
    ) -> None:
        self.broker: Final[str] = broker
        self.number: Final[int] = number
        self.step: Final[str] = step
        self.message_id: Final[str] = message_id
        self.destination: Final[str] = destination
        self.location: Final[str] = location[:MAX_LOCATION]
        self.detail: Final[str] = detail[:MAX_LOCATION]
        self.hops: Final[int] = hops
        self.deliveries: Final[int] = deliveries
        self.wall_ms: Final[int] = wall_ms

    def row(self, broker: str) -> dict[str, object]:
        """Return the observation as plain values, with the name of this broker, which gave it the number."""
        return {
            "broker": self.broker or broker,
            "teller": broker,
            "number": self.number,
            "time_ms": self.wall_ms,
            "message_id": self.message_id,
            "step": self.step,
            "destination": self.destination,
            "location": self.location,
            "detail": self.detail,
            "hops": self.hops,
            "deliveries": self.deliveries,
        }


class Observations:
    """The observations of one mark in order; the first has number 1.

    Beyond the limit the beginning stays, because the beginning shows the origin of the messages. ``dropped`` counts the
    rest.
    """

    def __init__(self, limit: int = MAX_OBSERVATIONS) -> None:
        self._limit: Final[int] = limit
        self._kept: Final[list[Observation]] = []
        self.dropped = 0

    def add(
        self,
        step: str,
        message_id: str,
        destination: str,
        location: str,
        detail: str,
        hops: int,
        deliveries: int,
        wall_ms: int,
        broker: str = "",
    ) -> None:
        """Keep one more observation, if there is room."""
        kept = self._kept
        if len(kept) >= self._limit:
            self.dropped += 1
            return
        number = len(kept) + 1
        kept.append(
            Observation(number, step, message_id, destination, location, detail, hops, deliveries, wall_ms, broker)
        )  # fmt: skip

    def after(self, number: int, at_most: int) -> list[Observation]:
        """Return at most ``at_most`` observations with higher numbers than ``number``."""
        start = max(0, number)
        return self._kept[start : start + at_most]

    @property
    def count(self) -> int:
        """The number of observations kept."""
        return len(self._kept)
