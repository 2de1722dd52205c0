"""The zeroconf agent (formerly rendezvous): announces connectors by DNS-SD (RFC 6763).

Apple's Bonjour and Avahi use the same protocol. Every connector is an instance of ``_activemq._tcp``; its TXT record
has the group and the URI. Needs the extra ``zeroconf``.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from zeroconf import ServiceBrowser, ServiceInfo, ServiceStateChange, Zeroconf

from spanwire.discovery.addresses.reconnect import ReconnectSettings
from spanwire.discovery.agents.presence import AnnouncedConnectors, Presence
from spanwire.discovery.groups.agent_settings import ZeroconfSettings
from spanwire.discovery.groups.sightings import FAILED_SIGHTING, MAX_SIGHTINGS, DiscoveryListener
from spanwire.model.errors import ConfigurationError, JmsError

TYPE: Final = "_activemq._tcp.local."
GROUP: Final = b"group"
URI: Final = b"uri"
RESOLVE_MS: Final = 1_000  # milliseconds to ask for the record of an instance; most come with the name
LISTEN_SECONDS: Final = 1.5  # seconds a client listens; responders answer within half a second, or the next question

logger = logging.getLogger(__name__)


class Instances:
    """The announced URIs of one group. Called in the browser's thread."""

    def __init__(self, group: str, presence: Presence | None, end: float | None = None) -> None:
        self.uris: Final[dict[str, str]] = {}
        self._end: Final = end  # monotonic seconds after which no record is asked for
        self._group: Final = group
        self._presence: Final = presence

    def on_change(self, zeroconf: Zeroconf, service_type: str, name: str, state_change: ServiceStateChange) -> None:
        """Update the URIs after an instance was added, changed or removed."""
        if state_change is ServiceStateChange.Removed:
            self.uris.pop(name, None)
        elif len(self.uris) < MAX_SIGHTINGS and (self._end is None or time.monotonic() < self._end):
            uri = self._uri(zeroconf.get_service_info(service_type, name, timeout=RESOLVE_MS))
            if uri:
                self.uris[name] = uri
        if self._presence is not None:
            self._presence.update_from_thread(list(self.uris.values()))

    def _uri(self, info: ServiceInfo | None) -> str:
        if info is None or info.properties.get(GROUP) != self._group.encode():
            return ""
        try:
            return (info.properties.get(URI) or b"").decode()
        except UnicodeDecodeError:
            return ""


class ZeroconfAgent:
    """A member of a group: announces connectors, and reports the other members to a listener."""

    def __init__(
        self,
        settings: ZeroconfSettings,
        listener: DiscoveryListener | None = None,
        retry: ReconnectSettings = FAILED_SIGHTING,
    ) -> None:
        self._settings: Final = settings
        self._presence: Final = Presence(settings.group, listener, retry)
        self._announced: Final = AnnouncedConnectors()
        self._zeroconf: Zeroconf | None = None
        self._worker: ThreadPoolExecutor | None = None

    async def start(self) -> None:
        """Begin to listen. Raises `ConfigurationError` if this machine cannot."""
        try:
            self._zeroconf = await asyncio.to_thread(Zeroconf)  # in a thread, which gives it a loop of its own
        except OSError as error:
            raise ConfigurationError(f"zeroconf cannot listen: {error.strerror or error}") from error
        self._worker = ThreadPoolExecutor(1, "spanwire-zeroconf")
        self._presence.start()
        if self._presence.is_watched:
            instances = Instances(self._settings.group, self._presence)
            await asyncio.to_thread(ServiceBrowser, self._zeroconf, TYPE, [instances.on_change])

    def announce(self, uri: str) -> None:
        """Announce a connector at ``uri``. Raises `ConfigurationError` for too many connectors."""
        self._announced.add(uri)
        self.ignore(uri)
        if self._worker is not None:
            self._worker.submit(self._register, uri)

    def withdraw(self, uri: str) -> None:
        """Announce the farewell of the connector at ``uri``."""
        if self._announced.remove(uri) and self._worker is not None:
            self._worker.submit(self._unregister, uri)

    def ignore(self, uri: str) -> None:
        """Never report this address, the broker's own."""
        self._presence.ignore(uri)

    def on_failure(self, uri: str, uptime_s: float) -> None:
        """Note that the broker at ``uri`` could not be used, or only for ``uptime_s`` seconds."""
        self._presence.on_failure(uri, uptime_s)

    def stop(self) -> None:
        """Announce the farewell in the background; may be called twice."""
        self._presence.stop()
        zeroconf, self._zeroconf = self._zeroconf, None
        worker, self._worker = self._worker, None
        if zeroconf is not None and worker is not None:
            threading.Thread(target=_close, args=(zeroconf, worker), name="spanwire-zeroconf-close").start()

    def _register(self, uri: str) -> None:
        zeroconf = self._zeroconf
        if zeroconf is None:
            return
        try:
            zeroconf.register_service(service_info(self._settings.group, uri))
        except Exception:
            logger.exception("zeroconf: %s cannot be announced", uri)

    def _unregister(self, uri: str) -> None:
        zeroconf = self._zeroconf
        if zeroconf is None:
            return
        try:
            zeroconf.unregister_service(service_info(self._settings.group, uri))
        except Exception:
            logger.exception("zeroconf: the announcement of %s cannot be withdrawn", uri)


def _close(zeroconf: Zeroconf, worker: ThreadPoolExecutor) -> None:
    worker.shutdown()
    zeroconf.close()


def service_info(group: str, uri: str) -> ServiceInfo:
    """Return the record of one connector. The name is a hash of group and URI."""
    host, _, port = uri.partition("://")[2].partition("?")[0].rpartition(":")
    host = host.strip("[]")
    name = hashlib.sha256(f"{group} {uri}".encode()).hexdigest()[:32]
    try:
        addresses = sorted({str(info[4][0]) for info in socket.getaddrinfo(host, None, socket.AF_INET)})
    except OSError:
        addresses = []
    return ServiceInfo(
        TYPE,
        f"{name}.{TYPE}",
        port=int(port) if port.isascii() and port.isdigit() else 0,
        properties={GROUP: group.encode(), URI: uri.encode()},
        server=f"{name}.local.",
        parsed_addresses=addresses,
    )


def find_uris(settings: ZeroconfSettings) -> list[str]:
    """Return the URIs now announced in a group. Blocks for `LISTEN_SECONDS`. Raises `JmsError`."""
    instances = Instances(settings.group, None, time.monotonic() + LISTEN_SECONDS)
    try:
        zeroconf = Zeroconf()
    except OSError as error:
        raise JmsError(f"zeroconf cannot listen: {error.strerror or error}") from error
    try:
        browser = ServiceBrowser(zeroconf, TYPE, [instances.on_change])
        time.sleep(LISTEN_SECONDS)
        browser.cancel()
    finally:
        zeroconf.close()
    return list(dict.fromkeys(instances.uris.values()))
