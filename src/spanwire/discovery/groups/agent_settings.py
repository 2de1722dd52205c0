"""Settings of discovery agents, read from URIs (ActiveMQ, Discovery Agents).

``multicast://default?group=name``, ``zeroconf://name`` (formerly rendezvous), ``fabric://name?zookeeper.url=host:2181``
and ``http://host:port/path?updateInterval=10000``. The agents are `MulticastAgent` and `spanwire.registry.AGENTS`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from spanwire.discovery.addresses.composite import parse_options
from spanwire.discovery.addresses.reconnect import OPTIONS as RECONNECT_OPTIONS
from spanwire.discovery.groups.agent_names import AGENTS, FABRIC, HTTP, MULTICAST
from spanwire.discovery.groups.beacon import DEFAULT_GROUP, check_group
from spanwire.discovery.groups.group import MulticastSettings, parse_multicast
from spanwire.model.errors import ConfigurationError

GROUP: Final = "group"
REGISTRY_URL: Final = "registryURL"
UPDATE_INTERVAL: Final = "updateInterval"
EMBEDDED: Final = "startEmbeddRegistry"  # ActiveMQ's spelling
REGISTRY_OPTIONS: Final = (REGISTRY_URL, UPDATE_INTERVAL, EMBEDDED)
REGISTRY: Final = re.compile(
    r"//(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9_.\-]+))(?::([0-9]{1,5}))?(/[A-Za-z0-9_.~%/\-]{0,254})?"
)
MIN_INTERVAL_MS: Final = 100  # milliseconds; each broker of a group makes two requests in this time
MAX_INTERVAL_MS: Final = 20 * 60 * 1000  # milliseconds; the registry forgets after an hour, three intervals
WEB_PORTS: Final = {"http": 80, "https": 443}
HOSTS: Final = "zookeeper.url"
NAME: Final = re.compile(r"(?://)?([A-Za-z0-9_][A-Za-z0-9_.\-]{0,62})?/?", re.ASCII)
ZEROCONF_NAME: Final = re.compile(r"[A-Za-z0-9_.\-]{1,63}", re.ASCII)
HOST_LIST: Final = re.compile(r"[A-Za-z0-9_.\-]+(:[0-9]{1,5})?(,[A-Za-z0-9_.\-]+(:[0-9]{1,5})?){0,15}", re.ASCII)


@dataclass(frozen=True)
class ZeroconfSettings:
    """A group of DNS-SD (Bonjour) on the local network."""

    group: str = DEFAULT_GROUP

    @property
    def description(self) -> str:
        """The group as text for messages."""
        return f"group {self.group} of zeroconf"


@dataclass(frozen=True)
class FabricSettings:
    """A group in a ZooKeeper registry; ``hosts`` "" means the environment's ``ZOOKEEPER_URL``."""

    group: str = DEFAULT_GROUP
    hosts: str = ""

    @property
    def description(self) -> str:
        """The group as text for messages."""
        return f"group {self.group} of the registry"


@dataclass(frozen=True)
class HttpRegistrySettings:
    """A group in a registry that is asked by HTTP; ``path`` is the group.

    Connectors are registered, and the registry is asked, every ``update_interval_ms``. With ``embedded`` this process
    is the registry.
    """

    url: str
    host: str
    port: int
    path: str = "/"
    encrypted: bool = False
    update_interval_ms: int = 10_000
    embedded: bool = False

    @property
    def group(self) -> str:
        """The group."""
        return self.path

    @property
    def description(self) -> str:
        """The group as text for messages."""
        return f"the registry {self.url}"


AgentSettings = MulticastSettings | ZeroconfSettings | FabricSettings | HttpRegistrySettings


def parse_agent(text: str) -> AgentSettings:
    """Return the settings in an agent's URI. Raises `ConfigurationError`.

    Reconnect options are accepted and left to other readers.
    """
    scheme, _, rest = text.strip().partition(":")
    scheme = scheme.lower()
    if scheme == MULTICAST:
        return parse_multicast(text)
    if scheme not in AGENTS:
        raise ConfigurationError(f"{scheme[:60]}: is no discovery agent; there are {', '.join(AGENTS)}")
    if scheme in HTTP:
        return _parse_registry(scheme, rest)
    address, _, query = rest.partition("?")
    parameters = parse_options(f"a {scheme}: uri", query)
    options = {name: value for name, value in parameters.items() if name not in RECONNECT_OPTIONS}
    names = (GROUP,) if scheme != FABRIC else (GROUP, HOSTS)
    for name in options:
        if name not in names:
            raise ConfigurationError(f"the {scheme} agent has no option {name[:60]!r}; it knows {', '.join(names)}")
    match = NAME.fullmatch(address)
    if match is None:
        raise ConfigurationError(f"the {scheme} agent needs the name of a group; write {scheme}://NAME")
    group = check_group(options.get(GROUP) or match.group(1) or DEFAULT_GROUP)
    if not ZEROCONF_NAME.fullmatch(group):
        raise ConfigurationError(f"a group of the {scheme} agent has letters, digits, '.', '_' and '-', 63 at most")
    if scheme != FABRIC:
        return ZeroconfSettings(group)
    hosts = options.get(HOSTS, "")
    if hosts and not HOST_LIST.fullmatch(hosts):
        raise ConfigurationError(f"{HOSTS} of the fabric agent is no list of hosts; write host:2181,host:2181")
    return FabricSettings(group, hosts)


def _parse_registry(scheme: str, rest: str) -> HttpRegistrySettings:
    """Return the settings of the http agent. Raises `ConfigurationError`."""
    address, _, query = rest.partition("?")
    parameters = parse_options(f"a {scheme}: uri", query)
    options = {name: value for name, value in parameters.items() if name not in RECONNECT_OPTIONS}
    for name in options:
        if name not in REGISTRY_OPTIONS:
            raise ConfigurationError(
                f"the http agent has no option {name[:60]!r}; it knows {', '.join(REGISTRY_OPTIONS)}"
            )
    url = options.get(REGISTRY_URL) or f"{scheme}:{address}"
    scheme, _, address = url.partition(":")
    match = REGISTRY.fullmatch(address)
    if match is None or scheme not in WEB_PORTS or int(match.group(3) or 1) not in range(1, 65536):
        raise ConfigurationError(
            "the http agent needs the address of a registry; write http://host:8080/discovery-registry/GROUP"
        )
    interval = options.get(UPDATE_INTERVAL, "10000")
    if not (interval.isascii() and interval.isdigit() and MIN_INTERVAL_MS <= int(interval[:10]) <= MAX_INTERVAL_MS):
        raise ConfigurationError(
            f"{UPDATE_INTERVAL} of the http agent is a number from {MIN_INTERVAL_MS} to {MAX_INTERVAL_MS}"
        )
    embedded = options.get(EMBEDDED, "false").lower()
    if embedded not in ("true", "false"):
        raise ConfigurationError(f"{EMBEDDED} of the http agent must be true or false")
    host = match.group(1) or match.group(2)
    port = int(match.group(3) or WEB_PORTS[scheme])
    path = match.group(4) or "/"
    return HttpRegistrySettings(url, host, port, path, scheme == "https", int(interval), embedded == "true")
