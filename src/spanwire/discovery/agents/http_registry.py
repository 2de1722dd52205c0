"""The http agent: brokers register at a registry, and ask for others (ActiveMQ, HTTPDiscoveryAgent).

    PUT     /path            service: tcp://host:61616     registers a connector; repeated every ``updateInterval``
    DELETE  /path            service: tcp://host:61616     removes it
    GET     /path?freshness=30000                          lists the connectors registered in this time, one a line

The registry is ActiveMQ's DiscoveryRegistryServlet, or `spanwire.discovery.agents.registry_server` with
``startEmbeddRegistry=true``, which needs the extra ``http``.
"""

from __future__ import annotations

import asyncio
import http.client
import logging
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final, cast

from spanwire import registry
from spanwire.discovery.addresses.reconnect import ReconnectSettings
from spanwire.discovery.agents.presence import AnnouncedConnectors, Presence
from spanwire.discovery.groups.agent_settings import HttpRegistrySettings
from spanwire.discovery.groups.beacon import MAX_URI_CHARACTERS
from spanwire.discovery.groups.sightings import FAILED_SIGHTING, MAX_SIGHTINGS, DiscoveryListener
from spanwire.extras import install_command
from spanwire.model.errors import ConfigurationError, JmsError

if TYPE_CHECKING:
    from spanwire.discovery.agents.registry_server import RegistryServer

REQUEST_SECONDS: Final = 5.0  # seconds for the answer of the registry
FRESH_INTERVALS: Final = 3  # a broker that has registered in so many intervals is present
MAX_LIST_BYTES: Final = MAX_SIGHTINGS * (MAX_URI_CHARACTERS + 2)  # bytes of a list that are read
OK: Final = 200

logger = logging.getLogger(__name__)


class HttpAgent:
    """A member of a group: registers connectors, and reports the other members to a listener."""

    def __init__(
        self,
        settings: HttpRegistrySettings,
        listener: DiscoveryListener | None = None,
        retry: ReconnectSettings = FAILED_SIGHTING,
    ) -> None:
        self._settings: Final = settings
        self._presence: Final = Presence(settings.path, listener, retry)
        self._announced: Final = AnnouncedConnectors()
        self._worker: Final = ThreadPoolExecutor(1, "spanwire-registry")
        self._task: asyncio.Task[None] | None = None
        self._due: Final = asyncio.Event()  # an update before its time
        self._server: RegistryServer | None = None
        self._is_failing = False

    async def start(self) -> None:
        """Begin to register and to ask; starts the registry itself if so configured.

        Raises:
            ConfigurationError: the registry cannot be started
        """
        if self._settings.embedded:
            try:
                server_class = cast("type[RegistryServer]", registry.load(registry.REGISTRY_SERVER))
            except ModuleNotFoundError as error:
                advice = install_command("http")
                raise ConfigurationError(f"startEmbeddRegistry needs the extra http; run: {advice}") from error
            self._server = server_class()
            await self._server.start(self._settings.host, self._settings.port)
        self._presence.start()
        self._task = asyncio.get_running_loop().create_task(self._repeat())

    def announce(self, uri: str) -> None:
        """Register a connector at ``uri``. Raises `ConfigurationError` for too many connectors."""
        self._announced.add(uri)
        self.ignore(uri)
        self._due.set()

    def withdraw(self, uri: str) -> None:
        """Remove the connector at ``uri`` from the registry."""
        if self._announced.remove(uri):
            self._worker.submit(self._farewell, (uri,))

    def ignore(self, uri: str) -> None:
        """Never report this address, the broker's own."""
        self._presence.ignore(uri)

    def on_failure(self, uri: str, uptime_s: float) -> None:
        """Note that the broker at ``uri`` could not be used, or only for ``uptime_s`` seconds."""
        self._presence.on_failure(uri, uptime_s)

    def stop(self) -> None:
        """Leave the registry in the background; may be called twice."""
        task, self._task = self._task, None
        if task is None:
            return
        task.cancel()
        self._presence.stop()
        if self._server is None:
            self._worker.submit(self._farewell, self._announced.uris())
        else:
            self._server.stop()
        self._announced.clear()
        self._worker.shutdown(wait=False)

    async def _repeat(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            self._due.clear()
            await loop.run_in_executor(self._worker, self._update, self._announced.uris())
            try:
                await asyncio.wait_for(self._due.wait(), self._settings.update_interval_ms / 1000)
            except TimeoutError:
                continue

    def _update(self, uris: tuple[str, ...]) -> None:
        """Register all connectors, then ask for the others.

        During an absence of the registry the earlier brokers stay.
        """
        try:
            for uri in uris:
                request(self._settings, "PUT", uri)
            if self._presence.is_watched:
                self._presence.update_from_thread(lookup(self._settings))
        except JmsError as error:
            if not self._is_failing:
                logger.warning(
                    "discovery: %s; it is asked again every %g s", error, self._settings.update_interval_ms / 1000
                )
            self._is_failing = True
        else:
            self._is_failing = False

    def _farewell(self, uris: tuple[str, ...]) -> None:
        try:
            for uri in uris:
                request(self._settings, "DELETE", uri)
        except JmsError as error:
            logger.info("discovery: a connector stays registered until it is forgotten: %s", error)


def request(settings: HttpRegistrySettings, method: str, service: str = "", query: str = "") -> bytes:
    """Make one request to the registry. Blocks. Raises `JmsError`."""
    connection_class = http.client.HTTPSConnection if settings.encrypted else http.client.HTTPConnection
    connection = connection_class(settings.host, settings.port, timeout=REQUEST_SECONDS)
    try:
        connection.request(method, settings.path + query, headers={"service": service} if service else {})
        answer = connection.getresponse()
        body = answer.read(MAX_LIST_BYTES)
    except (OSError, http.client.HTTPException, ValueError) as error:  # UnicodeError for a host like a..b
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
        raise JmsError(f"the registry {settings.url} does not answer: {reason}") from error
    finally:
        connection.close()
    if answer.status != OK:
        raise JmsError(f"the registry {settings.url} answers {method} with HTTP {answer.status}")
    return body


def lookup(settings: HttpRegistrySettings) -> list[str]:
    """Return the connectors that are registered now. Blocks. Raises `JmsError`."""
    body = request(settings, "GET", query=f"?freshness={FRESH_INTERVALS * settings.update_interval_ms}")
    return [line.strip() for line in body.decode("utf-8", "replace").splitlines() if line.strip()]


def find_uris(settings: HttpRegistrySettings) -> list[str]:
    """Return the URIs now registered in a group. Blocks. Raises `JmsError`."""
    return lookup(settings)
