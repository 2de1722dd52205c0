"""The fabric agent: brokers of a group register in ZooKeeper, clients and brokers watch the registry.

The format is Fuse Fabric's. Every connector is an ephemeral node below ``/fabric/registry/clusters/amq/GROUP``, removed
with its broker's session: ``{"id": "…", "container": "…", "services": ["tcp://host:61616"]}``. Needs the extra
``fabric``.
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

from spanwire.discovery.addresses.reconnect import ReconnectSettings
from spanwire.discovery.agents.presence import AnnouncedConnectors, Presence
from spanwire.discovery.groups.agent_settings import HOSTS, FabricSettings
from spanwire.discovery.groups.sightings import FAILED_SIGHTING, MAX_SIGHTINGS, DiscoveryListener
from spanwire.model.errors import ConfigurationError, JmsError

ROOT: Final = "/fabric/registry/clusters/amq"
HOSTS_VARIABLE: Final = "ZOOKEEPER_URL"
START_SECONDS: Final = 15.0  # seconds for `find_uris` to connect to the registry
WAIT_SECONDS: Final = 5.0  # seconds for which the start of a broker waits for the registry
SESSION_SECONDS: Final = 10.0  # seconds without contact after which the registry removes a broker's nodes
MAX_NODE_BYTES: Final = 8_192  # bytes of one node; larger nodes are skipped
MAX_SERVICES: Final = 16  # URIs of one node; others are skipped

logger = logging.getLogger(__name__)


class FabricAgent:
    """A member of a group: registers connectors, and reports the other members to a listener."""

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
        self._registered: Final[dict[str, str]] = {}  # node of each URI in this session; used by the worker alone
        self._is_watching = False

    async def start(self) -> None:
        """Connect to the registry. If the registry is down, connecting is repeated until `stop`.

        Raises:
            ConfigurationError: no address of a registry is configured
        """
        hosts = hosts_of(self._settings)
        client = self._client = KazooClient(hosts=hosts, timeout=SESSION_SECONDS)
        self._worker = ThreadPoolExecutor(1, "spanwire-fabric")
        self._presence.start()
        client.add_listener(self._on_state)
        connected = client.start_async()
        if not await asyncio.to_thread(connected.wait, WAIT_SECONDS):
            logger.warning(
                "fabric: no connection to the registry at %s; is ZooKeeper running? Connecting is repeated", hosts
            )

    def announce(self, uri: str) -> None:
        """Register a connector at ``uri``. Raises `ConfigurationError` for too many connectors."""
        self._announced.add(uri)
        self.ignore(uri)
        if self._worker is not None:
            self._worker.submit(self._register)

    def withdraw(self, uri: str) -> None:
        """Remove the node of the connector at ``uri``."""
        if self._announced.remove(uri) and self._worker is not None:
            self._worker.submit(self._unregister, uri)

    def ignore(self, uri: str) -> None:
        """Never report this address, the broker's own."""
        self._presence.ignore(uri)

    def on_failure(self, uri: str, uptime_s: float) -> None:
        """Note that the broker at ``uri`` could not be used, or only for ``uptime_s`` seconds."""
        self._presence.on_failure(uri, uptime_s)

    def stop(self) -> None:
        """Leave the registry in the background, which removes the nodes; may be called twice."""
        self._presence.stop()
        client, self._client = self._client, None
        worker, self._worker = self._worker, None
        if client is not None and worker is not None:
            threading.Thread(target=_close, args=(client, worker), name="spanwire-fabric-close").start()

    def _on_state(self, state: str) -> None:
        """Register and watch anew for each session. Called in kazoo's thread."""
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
                encoded = json.dumps(node).encode()
                self._registered[uri] = client.create(f"{path}/", encoded, ephemeral=True, sequence=True)
        except (KazooException, KazooTimeoutError) as error:
            logger.warning("fabric: a connector cannot be registered: %s", str(error) or type(error).__name__)

    def _unregister(self, uri: str) -> None:
        node = self._registered.pop(uri, None)
        client = self._client
        if node is None or client is None:
            return  # not registered in this session, or the session ends with all of its nodes
        try:
            client.delete(node)
        except NoNodeError:
            return
        except (KazooException, KazooTimeoutError) as error:
            logger.warning("fabric: %s cannot be removed: %s", node, str(error) or type(error).__name__)

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
            logger.warning(
                "fabric: %s cannot be watched: %s", self._settings.description, str(error) or type(error).__name__
            )


def hosts_of(settings: FabricSettings) -> str:
    """Return the addresses of the registry. Raises `ConfigurationError` if none is configured."""
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
        raise JmsError(f"no connection to the registry at {hosts}; is ZooKeeper running?") from error


def _close(client: KazooClient, worker: ThreadPoolExecutor) -> None:
    worker.shutdown()
    client.stop()
    client.close()


def read_nodes(client: KazooClient, path: str, names: Sequence[str]) -> list[str]:
    """Return the URIs in these nodes; other contents are skipped, because other programs may write there."""
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
    """Return the URIs in one node."""
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
    """Return the URIs now registered in a group. Blocks. Raises `JmsError`."""
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
