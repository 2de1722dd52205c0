"""The multicast agent: brokers announce their connectors to a group address, everybody there hears them
(ActiveMQ, Multicast Transport). Packets are those of ActiveMQ's own agent; each finds the other.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from spanwire.discovery.agents.membership import join_group
from spanwire.discovery.agents.presence import AnnouncedConnectors
from spanwire.discovery.beacon import Beacon, decode_beacon
from spanwire.discovery.group import MulticastSettings
from spanwire.discovery.reconnect import ReconnectSettings
from spanwire.discovery.sightings import FAILED_SIGHTING, DiscoveryListener, Sightings
from spanwire.model.errors import ConfigurationError

logger = logging.getLogger(__name__)


class MulticastAgent(asyncio.DatagramProtocol):
    """One member of a group: announces what it is told to and tells a listener who else is there.

    What was found is only a claim of whoever is in reach of the group's address. Without a listener it only announces.
    """

    def __init__(
        self,
        settings: MulticastSettings,
        listener: DiscoveryListener | None = None,
        retry: ReconnectSettings = FAILED_SIGHTING,
    ) -> None:
        self._settings: Final[MulticastSettings] = settings
        self._announced: Final = AnnouncedConnectors()
        self._sightings: Final[Sightings | None] = (
            None
            if listener is None
            else Sightings(listener, settings.keep_alive_ms / 1000, retry, doubts_farewells=True)
        )
        self._transport: asyncio.DatagramTransport | None = None
        self._beacon_task: asyncio.Task[None] | None = None
        self._error_is_logged = False

    async def start(self) -> None:
        """Join the group; raises `ConfigurationError` when this machine cannot."""
        settings = self._settings
        loop = asyncio.get_running_loop()
        try:
            member = join_group(settings)
        except OSError as error:
            raise ConfigurationError(
                f"cannot join {settings.host}:{settings.port} for discovery: {error.strerror or error}"
            ) from error
        self._transport, _ = await loop.create_datagram_endpoint(lambda: self, sock=member)
        self._beacon_task = loop.create_task(self._send_beacons())

    def announce(self, uri: str) -> None:
        """Tell the group of a connector at ``uri``, from now on; raises `ConfigurationError` for too many of them."""
        self._announced.add(uri)
        self.ignore(uri)
        self._send(Beacon(self._settings.group, uri))

    def ignore(self, uri: str) -> None:
        """This broker is there itself: it is not found."""
        if self._sightings is not None:
            self._sightings.ignore(uri)

    def failed(self, uri: str, uptime_s: float) -> None:
        """What was found there could not be used, or only for ``uptime_s`` seconds."""
        if self._sightings is not None:
            self._sightings.failed(uri, asyncio.get_running_loop().time(), uptime_s)

    def stop(self) -> None:
        """Say farewell and leave the group; may be called twice."""
        if self._beacon_task is not None:
            self._beacon_task.cancel()
            self._beacon_task = None
        for uri in self._announced.uris():
            self._send(Beacon(self._settings.group, uri, alive=False))
        self._announced.clear()
        if self._transport is not None:
            self._transport.close()
            self._transport = None
        if self._sightings is not None:
            self._sightings.clear()  # whoever is still there is found again after another start

    async def _send_beacons(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            for uri in self._announced.uris():
                self._send(Beacon(self._settings.group, uri))
            if self._sightings is not None:
                self._sightings.expire(loop.time())
            await asyncio.sleep(self._settings.keep_alive_ms / 1000)

    def _send(self, beacon: Beacon) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.sendto(beacon.encode(), (self._settings.host, self._settings.port))

    def datagram_received(self, data: bytes, addr: tuple[str | int, ...]) -> None:
        """Somebody has spoken to the group."""
        if self._sightings is None:
            return
        beacon = decode_beacon(data, self._settings.group)
        if beacon is not None:
            self._sightings.on_beacon(beacon, asyncio.get_running_loop().time())

    def error_received(self, exc: Exception) -> None:
        """A datagram could not be sent: said once, for the next beacon may get through."""
        if not self._error_is_logged:
            self._error_is_logged = True
            logger.warning("discovery: %s:%d cannot be reached: %s", self._settings.host, self._settings.port, exc)
