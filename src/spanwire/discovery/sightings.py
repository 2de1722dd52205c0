"""Who of a discovery group is there: found when first heard of, lost when silent for too long."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Final, Protocol

from spanwire.discovery.beacon import Beacon
from spanwire.discovery.reconnect import Reconnect, ReconnectSettings

MISSED_BEACONS: Final = 10  # in a row, until a broker counts as gone; ActiveMQ's number
FAREWELL_BEACONS: Final = 3  # in which somebody who has said farewell may still prove to be there: it was a false one
MAX_SIGHTINGS: Final = 1_000  # brokers of one group; each may mean a connection, and anybody in reach can make some up

FAILED_SIGHTING: Final = ReconnectSettings(initial_delay_ms=5_000, exponential=False)  # as ActiveMQ's multicast agent

logger = logging.getLogger(__name__)


class DiscoveryListener(Protocol):
    """Whom an agent tells."""

    def on_found(self, uri: str) -> None:
        """A broker is there. It is not known to be who it says it is: that is for TLS and logins to find out."""
        ...

    def on_lost(self, uri: str) -> None:
        """It is gone."""
        ...


@dataclass
class _Sighting:
    last_heard: float
    reconnect: Reconnect
    found_at: float
    retry_at: float | None = None  # it could not be used: not told again before
    farewell_deadline: float | None = None  # it has said farewell


class Sightings:
    """The brokers that were heard of. With ``doubts_farewells`` a farewell is believed once the broker stays silent,
    or when its link ends: anybody may say it in the name of another one. Leaves sending and receiving to the agent, and
    the clock to the caller: times are monotonic seconds.

    ``own`` are the addresses of this broker itself, which it does not find.
    """

    def __init__(
        self,
        listener: DiscoveryListener,
        keep_alive_seconds: float,
        retry: ReconnectSettings = FAILED_SIGHTING,
        doubts_farewells: bool = False,
    ) -> None:
        self._doubts_farewells: Final[bool] = doubts_farewells
        self.own: Final[set[str]] = set()
        self._listener: Final[DiscoveryListener] = listener
        self._timeout: Final[float] = keep_alive_seconds * MISSED_BEACONS
        self._farewell_timeout: Final[float] = keep_alive_seconds * FAREWELL_BEACONS
        self._retry: Final[ReconnectSettings] = retry
        self._sightings: Final[dict[str, _Sighting]] = {}
        self._crowd_is_logged = False

    def on_beacon(self, beacon: Beacon, now: float) -> None:
        """A member of the group has spoken."""
        uri = beacon.uri
        if uri in self.own:
            return
        sighting = self._sightings.get(uri)
        if not beacon.alive:
            if sighting is not None and not self._doubts_farewells:
                self._forget(uri, sighting)
            elif sighting is not None and sighting.farewell_deadline is None:
                sighting.farewell_deadline = now + self._farewell_timeout
        elif sighting is None:
            self._add(uri, now)
        else:
            sighting.last_heard = now
            sighting.farewell_deadline = None
            if sighting.retry_at is not None and now >= sighting.retry_at:
                sighting.retry_at = None
                sighting.found_at = now
                self._listener.on_found(uri)

    def _add(self, uri: str, now: float) -> None:
        if len(self._sightings) >= MAX_SIGHTINGS:
            if not self._crowd_is_logged:
                logger.warning("%d brokers were discovered, which is the most; others are ignored", MAX_SIGHTINGS)
                self._crowd_is_logged = True
            return
        self._sightings[uri] = _Sighting(now, Reconnect(self._retry), now)
        self._listener.on_found(uri)

    def failed(self, uri: str, now: float, uptime_s: float | None = None) -> None:
        """What was found could not be used, or was lost after ``uptime_s`` seconds of use: it is found again after a
        while, if it still speaks. Without ``uptime_s`` it counts as used since it was found.
        """
        sighting = self._sightings.get(uri)
        if sighting is None or sighting.retry_at is not None:
            return
        if sighting.farewell_deadline is not None:
            self._forget(uri, sighting)
            return
        delay = sighting.reconnect.failed(now - sighting.found_at if uptime_s is None else uptime_s)
        sighting.retry_at = now + delay if delay is not None else float("inf")
        self._listener.on_lost(uri)

    def ignore(self, uri: str) -> None:
        """It is this broker itself: not found again. Of so many as `MAX_SIGHTINGS` that is remembered."""
        sighting = self._sightings.get(uri)
        if len(self.own) < MAX_SIGHTINGS:
            self.own.add(uri)
            if sighting is not None:
                self._forget(uri, sighting)
        elif sighting is not None:
            sighting.retry_at = float("inf")

    def clear(self) -> None:
        """Nobody was heard of, as far as is remembered from now on; own addresses stay."""
        self._sightings.clear()
        self._crowd_is_logged = False

    def expire(self, now: float) -> None:
        """Those who were not heard for too long are gone, and those who said farewell and were silent from then on; to
        be called about as often as beacons come.
        """
        for uri, sighting in list(self._sightings.items()):
            has_left = sighting.farewell_deadline is not None and now >= sighting.farewell_deadline
            if has_left or now - sighting.last_heard > self._timeout:
                self._forget(uri, sighting)

    def _forget(self, uri: str, sighting: _Sighting) -> None:
        del self._sightings[uri]
        self._crowd_is_logged = False
        if sighting.retry_at is None:
            self._listener.on_lost(uri)
