"""Who of a group is there, when somebody else keeps the list: a registry, or the responders of a network.

Such agents hear of comings and goings in threads of their own; here it is told in the loop, to one listener.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final, Protocol

from spanwire.discovery.beacon import MAX_URI_CHARACTERS, Beacon
from spanwire.discovery.reconnect import ReconnectSettings
from spanwire.discovery.sightings import FAILED_SIGHTING, MAX_SIGHTINGS, DiscoveryListener, Sightings
from spanwire.model.errors import ConfigurationError

MAX_ANNOUNCED: Final = 100  # connectors of one broker; the largest have ten
REFRESH: Final = 0.5  # seconds after which it is said again who is there, as often as multicast does


class DiscoveryAgent(Protocol):
    """What all agents can do."""

    async def start(self) -> None:
        """Join the group; raises `ConfigurationError` when this machine cannot."""
        ...

    def announce(self, uri: str) -> None:
        """Tell the group of a connector at ``uri``."""
        ...

    def ignore(self, uri: str) -> None:
        """This broker is there itself: it is not found."""
        ...

    def failed(self, uri: str, uptime_s: float) -> None:
        """What was found there could not be used, or only for ``uptime_s`` seconds."""
        ...

    def stop(self) -> None:
        """Say farewell and leave the group; may be called twice."""
        ...


class AnnouncedConnectors:
    """The connectors of which an agent tells its group, in their order. Does not tell them."""

    def __init__(self) -> None:
        self._uris: Final[list[str]] = []

    def add(self, uri: str) -> None:
        """One more; raises `ConfigurationError` for too many of them."""
        if len(self._uris) >= MAX_ANNOUNCED:
            raise ConfigurationError(f"a broker announces {MAX_ANNOUNCED} connectors at most")
        self._uris.append(uri)

    def uris(self) -> tuple[str, ...]:
        """All of them."""
        return tuple(self._uris)

    def clear(self) -> None:
        """None any more."""
        self._uris.clear()


class Presence:
    """Tells a listener who came and who went; without a listener nothing. All but `update_from_thread` in the loop."""

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
        """Whether anybody wants to hear."""
        return self._sightings is not None

    def start(self) -> None:
        """Begin to tell."""
        self._loop = asyncio.get_running_loop()
        if self._sightings is not None:
            self._task = self._loop.create_task(self._repeat())

    def stop(self) -> None:
        """Tell no more."""
        if self._task is not None:
            self._task.cancel()
            self._task = None
        if self._sightings is not None:
            self._sightings.clear()

    def update_from_thread(self, uris: Iterable[str]) -> None:
        """These are there, and nobody else; may be called from any thread."""
        present = {uri for uri in list(uris)[:MAX_SIGHTINGS] if len(uri) <= MAX_URI_CHARACTERS and uri.isprintable()}
        loop = self._loop
        if loop is not None:
            try:
                loop.call_soon_threadsafe(self._update, present)
            except RuntimeError:
                return  # the loop has ended

    def ignore(self, uri: str) -> None:
        """It is this broker itself."""
        if self._sightings is not None:
            self._sightings.ignore(uri)

    def failed(self, uri: str, uptime_s: float) -> None:
        """It could not be used, or only for ``uptime_s`` seconds."""
        if self._sightings is not None and self._loop is not None:
            self._sightings.failed(uri, self._loop.time(), uptime_s)

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
