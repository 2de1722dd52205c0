"""The members of a group, as reported by a registry or by the responders of a network.

Agents of this kind learn of changes in threads of their own. `Presence` reports the changes to a listener in the event
loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final

from spanwire.discovery.addresses.reconnect import ReconnectSettings
from spanwire.discovery.groups.beacon import MAX_URI_CHARACTERS, Beacon
from spanwire.discovery.groups.sightings import FAILED_SIGHTING, MAX_SIGHTINGS, DiscoveryListener, Sightings
from spanwire.model.errors import ConfigurationError

MAX_ANNOUNCED: Final = 100  # connectors of one broker; large brokers have ten
REFRESH: Final = 0.5  # seconds between two reports of all present brokers, as with multicast


class AnnouncedConnectors:
    """The announced connectors of an agent, in order."""

    def __init__(self) -> None:
        self._uris: Final[list[str]] = []

    def add(self, uri: str) -> None:
        """Add a connector. Raises `ConfigurationError` above `MAX_ANNOUNCED`."""
        if len(self._uris) >= MAX_ANNOUNCED:
            raise ConfigurationError(f"a broker announces {MAX_ANNOUNCED} connectors at most")
        self._uris.append(uri)

    def remove(self, uri: str) -> bool:
        """Remove a connector. Returns False for one that is not announced."""
        if uri not in self._uris:
            return False
        self._uris.remove(uri)
        return True

    def uris(self) -> tuple[str, ...]:
        """Return the URIs of all connectors."""
        return tuple(self._uris)

    def clear(self) -> None:
        """Remove all connectors."""
        self._uris.clear()


class Presence:
    """Reports arrivals and departures to a listener, if there is one.

    Call all methods but `update_from_thread` in the event loop.
    """

    def __init__(
        self, group: str, listener: DiscoveryListener | None, retry: ReconnectSettings = FAILED_SIGHTING
    ) -> None:
        self._group: Final = group
        self._sightings: Final = None if listener is None else Sightings(listener, REFRESH, retry)
        self._present: set[str] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def is_watched(self) -> bool:
        """True if there is a listener."""
        return self._sightings is not None

    def start(self) -> None:
        """Begin to report."""
        self._loop = asyncio.get_running_loop()
        if self._sightings is not None:
            self._task = self._loop.create_task(self._repeat())

    def stop(self) -> None:
        """Stop reporting."""
        if self._task is not None:
            self._task.cancel()
            self._task = None
        if self._sightings is not None:
            self._sightings.clear()

    def update_from_thread(self, uris: Iterable[str]) -> None:
        """Set the URIs of all present connectors; may be called in any thread."""
        present = {uri for uri in list(uris)[:MAX_SIGHTINGS] if len(uri) <= MAX_URI_CHARACTERS and uri.isprintable()}
        loop = self._loop
        if loop is not None:
            try:
                loop.call_soon_threadsafe(self._update, present)
            except RuntimeError:
                return  # the loop has ended

    def ignore(self, uri: str) -> None:
        """Never report this address, the broker's own."""
        if self._sightings is not None:
            self._sightings.ignore(uri)

    def on_failure(self, uri: str, uptime_s: float) -> None:
        """Note that the broker at ``uri`` could not be used, or only for ``uptime_s`` seconds."""
        if self._sightings is not None and self._loop is not None:
            self._sightings.on_failure(uri, self._loop.time(), uptime_s)

    def _update(self, present: set[str]) -> None:
        absent, self._present = self._present - present, present
        self._report(absent)

    def _report(self, absent: set[str]) -> None:
        if self._sightings is None or self._loop is None or self._task is None:
            return
        now = self._loop.time()
        for uri in sorted(absent):
            self._sightings.on_beacon(Beacon(self._group, uri, alive=False), now)
        for uri in sorted(self._present):
            self._sightings.on_beacon(Beacon(self._group, uri), now)

    async def _repeat(self) -> None:
        while True:
            self._report(set())
            await asyncio.sleep(REFRESH)
