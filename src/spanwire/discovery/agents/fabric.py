"""The fabric agent: brokers of a group register themselves in ZooKeeper, clients and brokers watch it (Fuse Fabric's
registry). Needs the extra ``fabric``.

Every connector is an ephemeral node below ``/fabric/registry/clusters/amq/GROUP``, gone with its broker's session:
``{"id": "…", "container": "…", "services": ["tcp://host:61616"]}``.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from kazoo.client import KazooClient, KazooState
from kazoo.exceptions import KazooException, NoNodeError
from kazoo.handlers.threading import KazooTimeoutError

from spanwire.discovery.agent_settings import HOSTS, FabricSettings
from spanwire.discovery.agents.presence import AnnouncedConnectors, Presence
from spanwire.discovery.reconnect import ReconnectSettings
from spanwire.discovery.sightings import FAILED_SIGHTING, MAX_SIGHTINGS, DiscoveryListener
from spanwire.model.errors import ConfigurationError, JmsError

ROOT: Final = "/fabric/registry/clusters/amq"
HOSTS_VARIABLE: Final = "ZOOKEEPER_URL"
START_SECONDS: Final = 15.0  # until the registry has let a client in that looks once
WAIT_SECONDS: Final = 5.0  # that the start of a broker waits for the registry
SESSION_SECONDS: Final = 10.0  # after which a silent broker's nodes go
MAX_NODE_BYTES: Final = 8_192  # of one node that is read
MAX_SERVICES: Final = 16  # of one node

logger = logging.getLogger(__name__)


class FabricAgent:
    """One member of a group: registers what it is told to and tells a listener who else is there."""

    def __init__(
        self,
        settings: FabricSettings,
        listener: DiscoveryListener | None = None,
        retry: ReconnectSettings = FAILED_SIGHTING,
    ) -> None:
        self._settings: Final = settings
        self._presence: Final = Presence(settings.group, listener, retry)
        self._announced: Final = AnnouncedConnectors()
        self._client: KazooClient | None = None
        self._worker: ThreadPoolExecutor | None = None
        self._registered: Final[set[str]] = set()  # as far as the registry knows; the worker's
        self._is_watching = False

    async def start(self) -> None:
        """Connect to the registry, which may be down: it is tried for as long as the agent lives. Raises
        `ConfigurationError` when nobody has said where it is.
        """
        hosts = hosts_of(self._settings)
        client = self._client = KazooClient(hosts=hosts, timeout=SESSION_SECONDS)
        self._worker = ThreadPoolExecutor(1, "spanwire-fabric")
        self._presence.start()
        client.add_listener(self._on_state)
        connected = client.start_async()
        if not await asyncio.to_thread(connected.wait, WAIT_SECONDS):
            logger.warning("fabric: no connection to the registry at %s; is ZooKeeper started? Trying on", hosts)

    def announce(self, uri: str) -> None:
        """Register a connector at ``uri``; raises `ConfigurationError` for too many of them."""
        self._announced.add(uri)
        self.ignore(uri)
        if self._worker is not None:
            self._worker.submit(self._register)

    def ignore(self, uri: str) -> None:
        """This broker is there itself: it is not found."""
        self._presence.ignore(uri)

    def failed(self, uri: str, uptime_s: float) -> None:
        """What was found there could not be used, or only for ``uptime_s`` seconds."""
        self._presence.failed(uri, uptime_s)

    def stop(self) -> None:
        """Leave the registry, and with that take the nodes away; waited for by nobody, may be called twice."""
        self._presence.stop()
        client, self._client = self._client, None
        worker, self._worker = self._worker, None
        if client is not None and worker is not None:
            threading.Thread(target=_close, args=(client, worker), name="spanwire-fabric-close").start()

    def _on_state(self, state: str) -> None:
        """In kazoo's thread: with each session everything is told anew."""
        worker = self._worker
        if worker is None:
            return
        if state == KazooState.LOST:
            worker.submit(self._registered.clear)
        elif state == KazooState.CONNECTED:
            worker.submit(self._register)
            if self._presence.is_watched and not self._is_watching:
                self._is_watching = True
                worker.submit(self._watch)

    def _register(self) -> None:
        client = self._client
        if client is None or not client.connected:
            return
        path = f"{ROOT}/{self._settings.group}"
        try:
            client.ensure_path(path)
            for uri in [one for one in self._announced.uris() if one not in self._registered]:
                node = {"id": self._settings.group, "container": "spanwire", "services": [uri]}
                client.create(f"{path}/", json.dumps(node).encode(), ephemeral=True, sequence=True)
                self._registered.add(uri)
        except (KazooException, KazooTimeoutError) as error:
            logger.warning("fabric: a connector cannot be registered: %s", str(error) or type(error).__name__)

    def _watch(self) -> None:
        client = self._client
        if client is None:
            return
        path = f"{ROOT}/{self._settings.group}"

        def on_change(names: list[str]) -> None:
            self._presence.update_from_thread(read_nodes(client, path, names))

        try:
            client.ensure_path(path)
            client.ChildrenWatch(path, on_change)
        except (KazooException, KazooTimeoutError) as error:
            logger.warning("fabric: %s cannot be watched: %s", self._settings.place, str(error) or type(error).__name__)


def hosts_of(settings: FabricSettings) -> str:
    """Where the registry is. Raises `ConfigurationError` when nobody has said so."""
    hosts = settings.hosts or os.environ.get(HOSTS_VARIABLE, "")
    if not hosts:
        raise ConfigurationError(
            f"fabric://{settings.group} needs a registry: add ?{HOSTS}=host:2181, or set {HOSTS_VARIABLE}"
        )
    return hosts


def _connect(client: KazooClient, hosts: str) -> None:
    try:
        client.start(timeout=START_SECONDS)
    except (KazooTimeoutError, KazooException, OSError) as error:
        client.stop()
        client.close()
        raise JmsError(f"no connection to the registry at {hosts}; is ZooKeeper started?") from error


def _close(client: KazooClient, worker: ThreadPoolExecutor) -> None:
    worker.shutdown()
    client.stop()
    client.close()


def read_nodes(client: KazooClient, path: str, names: Sequence[str]) -> list[str]:
    """The URIs in these nodes; what is none is passed over, for others may write there, too."""
    uris: dict[str, None] = {}
    for name in sorted(names)[:MAX_SIGHTINGS]:
        try:
            data, _ = client.get(f"{path}/{name}")
        except NoNodeError:
            continue
        except (KazooException, KazooTimeoutError) as error:
            logger.warning("fabric: %s/%s cannot be read: %s", path, name, str(error) or type(error).__name__)
            continue
        uris.update(dict.fromkeys(services(data)))
    return list(uris)


def services(data: bytes) -> list[str]:
    """What one node says."""
    if not data or len(data) > MAX_NODE_BYTES:
        return []
    try:
        node = json.loads(data)
    except (ValueError, RecursionError):
        return []
    uris = node.get("services") if isinstance(node, dict) else None
    if not isinstance(uris, list):
        return []
    return [uri for uri in uris[:MAX_SERVICES] if isinstance(uri, str)]


def find_uris(settings: FabricSettings) -> list[str]:
    """The URIs that are registered in a group just now. Blocks. Raises `JmsError`."""
    try:
        hosts = hosts_of(settings)
    except ConfigurationError as error:
        raise JmsError(str(error)) from error
    client = KazooClient(hosts=hosts, timeout=SESSION_SECONDS)
    _connect(client, hosts)
    path = f"{ROOT}/{settings.group}"
    try:
        return read_nodes(client, path, client.get_children(path))
    except NoNodeError:
        return []
    except (KazooException, KazooTimeoutError) as error:
        raise JmsError(f"the registry at {hosts} does not answer: {str(error) or type(error).__name__}") from error
    finally:
        client.stop()
        client.close()
