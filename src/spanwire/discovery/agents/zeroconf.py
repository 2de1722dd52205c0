"""The zeroconf agent (once rendezvous): connectors are announced by DNS-SD, as Apple's Bonjour and Avahi do it (RFC
6763). Needs the extra ``zeroconf``.

Every connector is an instance of ``_activemq._tcp`` whose TXT record has the group and the URI.
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

from spanwire.discovery.agent_settings import ZeroconfSettings
from spanwire.discovery.agents.presence import AnnouncedConnectors, Presence
from spanwire.discovery.reconnect import ReconnectSettings
from spanwire.discovery.sightings import FAILED_SIGHTING, MAX_SIGHTINGS, DiscoveryListener
from spanwire.model.errors import ConfigurationError, JmsError

TYPE: Final = "_activemq._tcp.local."
GROUP: Final = b"group"
URI: Final = b"uri"
RESOLVE_MS: Final = 1_000  # to ask for the record of one instance, which mostly comes along with its name
LISTEN_SECONDS: Final = 1.5  # that a client listens: responders answer within half a second, and may be asked twice

logger = logging.getLogger(__name__)


class Instances:
    """The URIs of one group that responders tell of. Called in the thread of the browser."""

    def __init__(self, group: str, presence: Presence | None, end: float | None = None) -> None:
        self.uris: Final[dict[str, str]] = {}
        self._end: Final = end  # monotonic seconds after which nothing is asked
        self._group: Final = group
        self._presence: Final = presence

    def on_change(self, zeroconf: Zeroconf, service_type: str, name: str, state_change: ServiceStateChange) -> None:
        """An instance came, changed or went."""
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
    """One member of a group: announces what it is told to and tells a listener who else is there."""

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
        """Begin to listen; raises `ConfigurationError` when this machine cannot."""
        try:
            self._zeroconf = await asyncio.to_thread(Zeroconf)  # in a thread, so that it has a loop of its own
        except OSError as error:
            raise ConfigurationError(f"zeroconf cannot listen: {error.strerror or error}") from error
        self._worker = ThreadPoolExecutor(1, "spanwire-zeroconf")
        self._presence.start()
        if self._presence.is_watched:
            instances = Instances(self._settings.group, self._presence)
            await asyncio.to_thread(ServiceBrowser, self._zeroconf, TYPE, [instances.on_change])

    def announce(self, uri: str) -> None:
        """Tell the group of a connector at ``uri``; raises `ConfigurationError` for too many of them."""
        self._announced.add(uri)
        self.ignore(uri)
        if self._worker is not None:
            self._worker.submit(self._register, uri)

    def ignore(self, uri: str) -> None:
        """This broker is there itself: it is not found."""
        self._presence.ignore(uri)

    def failed(self, uri: str, uptime_s: float) -> None:
        """What was found there could not be used, or only for ``uptime_s`` seconds."""
        self._presence.failed(uri, uptime_s)

    def stop(self) -> None:
        """Say farewell, which takes a moment and is waited for by nobody; may be called twice."""
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


def _close(zeroconf: Zeroconf, worker: ThreadPoolExecutor) -> None:
    worker.shutdown()
    zeroconf.close()


def service_info(group: str, uri: str) -> ServiceInfo:
    """The record of one connector. Its name says nothing, and is the same for the same group and URI."""
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
    """The URIs that are announced in a group just now. Blocks for `LISTEN_SECONDS`. Raises `JmsError`."""
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
