"""The multicast agent: brokers announce connectors to a group (ActiveMQ, Multicast Transport).

The packets are those of ActiveMQ's own agent, so brokers of both kinds find each other.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from spanwire.discovery.addresses.reconnect import ReconnectSettings
from spanwire.discovery.agents.membership import join_group
from spanwire.discovery.agents.presence import AnnouncedConnectors
from spanwire.discovery.groups.beacon import Beacon, decode_beacon
from spanwire.discovery.groups.group import MulticastSettings
from spanwire.discovery.groups.sightings import FAILED_SIGHTING, DiscoveryListener, Sightings
from spanwire.model.errors import ConfigurationError

logger = logging.getLogger(__name__)


class MulticastAgent(asyncio.DatagramProtocol):
    """A member of a group: announces connectors, and reports the other members to a listener.

    Anybody in reach of the group's address can announce any address. Without a listener the agent only announces.
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
        """Join the group. Raises `ConfigurationError` if this machine cannot."""
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
        """Announce a connector at ``uri`` from now on. Raises `ConfigurationError` for too many connectors."""
        self._announced.add(uri)
        self.ignore(uri)
        self._send(Beacon(self._settings.group, uri))

    def withdraw(self, uri: str) -> None:
        """Announce the farewell of the connector at ``uri``."""
        if self._announced.remove(uri):
            self._send(Beacon(self._settings.group, uri, alive=False))

    def ignore(self, uri: str) -> None:
        """Never report this address, the broker's own."""
        if self._sightings is not None:
            self._sightings.ignore(uri)

    def on_failure(self, uri: str, uptime_s: float) -> None:
        """Note that the broker at ``uri`` could not be used, or only for ``uptime_s`` seconds."""
        if self._sightings is not None:
            self._sightings.on_failure(uri, asyncio.get_running_loop().time(), uptime_s)

    def stop(self) -> None:
        """Announce the farewell and leave the group; may be called twice."""
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
            self._sightings.clear()  # present brokers are reported again after another start

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
        """Pass the beacon of a member on to the sightings."""
        if self._sightings is None:
            return
        beacon = decode_beacon(data, self._settings.group)
        if beacon is not None:
            self._sightings.on_beacon(beacon, asyncio.get_running_loop().time())

    def error_received(self, exc: Exception) -> None:
        """Log once that a datagram could not be sent; the next beacon may succeed."""
        if not self._error_is_logged:
            self._error_is_logged = True
            logger.warning("discovery: %s:%d cannot be reached: %s", self._settings.host, self._settings.port, exc)
