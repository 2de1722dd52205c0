"""The brokers of a discovery group: found at the first beacon, lost after a long silence."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Final, Protocol

from spanwire.discovery.addresses.reconnect import Reconnect, ReconnectSettings
from spanwire.discovery.groups.beacon import Beacon

MISSED_BEACONS: Final = 10  # successive missed beacons of a lost broker; ActiveMQ has the same number
FAREWELL_BEACONS: Final = 3  # beacons in which a broker can disprove a farewell sent by somebody else
MAX_SIGHTINGS: Final = 1_000  # brokers of one group; each may cost a connection, and anybody in reach can forge them

FAILED_SIGHTING: Final = ReconnectSettings(initial_delay_ms=5_000, exponential=False)  # ActiveMQ's multicast agent

logger = logging.getLogger(__name__)


class DiscoveryListener(Protocol):
    """The receiver of an agent's reports."""

    def on_found(self, uri: str) -> None:
        """Handle the arrival of a broker. The identity is a mere claim until proven by TLS or a login."""
        ...

    def on_lost(self, uri: str) -> None:
        """Handle the departure of a broker."""
        ...


@dataclass
class _Sighting:
    last_heard: float
    reconnect: Reconnect
    found_at: float
    retry_at: float | None = None  # after a failure, not reported before
    farewell_deadline: float | None = None  # after a farewell, lost at this time


class Sightings:
    """The brokers announced in a group. The agent sends and receives; all times are monotonic seconds.

    With ``doubts_farewells`` a farewell counts only if the broker stays silent or the link ends, because any machine
    can send a farewell in another broker's name. ``own`` are this broker's addresses, never reported.
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
        """Note a beacon of the group."""
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
                logger.warning("%d brokers were discovered, the limit; others are ignored", MAX_SIGHTINGS)
                self._crowd_is_logged = True
            return
        self._sightings[uri] = _Sighting(now, Reconnect(self._retry), now)
        self._listener.on_found(uri)

    def on_failure(self, uri: str, now: float, uptime_s: float | None = None) -> None:
        """Report a broker as lost, because the broker could not be used, or only for ``uptime_s`` seconds.

        The broker is found again after a pause, if beacons still arrive. Without ``uptime_s`` the broker counts as used
        since the last sighting.
        """
        sighting = self._sightings.get(uri)
        if sighting is None or sighting.retry_at is not None:
            return
        if sighting.farewell_deadline is not None:
            self._forget(uri, sighting)
            return
        delay = sighting.reconnect.next_delay(now - sighting.found_at if uptime_s is None else uptime_s)
        sighting.retry_at = now + delay if delay is not None else float("inf")
        self._listener.on_lost(uri)

    def ignore(self, uri: str) -> None:
        """Never report ``uri`` again: the address of this broker. At most `MAX_SIGHTINGS` are remembered."""
        sighting = self._sightings.get(uri)
        if len(self.own) < MAX_SIGHTINGS:
            self.own.add(uri)
            if sighting is not None:
                self._forget(uri, sighting)
        elif sighting is not None:
            sighting.retry_at = float("inf")

    def clear(self) -> None:
        """Forget all brokers heard of; own addresses stay."""
        self._sightings.clear()
        self._crowd_is_logged = False

    def expire(self, now: float) -> None:
        """Report silent brokers as lost, and brokers silent since their farewell.

        Call once per beacon interval.
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
