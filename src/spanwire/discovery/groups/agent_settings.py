"""Settings of discovery agents, read from URIs (ActiveMQ, Discovery Agents).

``multicast://default?group=name``, ``zeroconf://name`` (formerly rendezvous) and
``fabric://name?zookeeper.url=host:2181``. The agents are `MulticastAgent` and `spanwire.registry.AGENTS`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from spanwire.discovery.addresses.composite import parse_options
from spanwire.discovery.addresses.reconnect import OPTIONS as RECONNECT_OPTIONS
from spanwire.discovery.groups.agent_names import AGENTS, FABRIC, MULTICAST
from spanwire.discovery.groups.beacon import DEFAULT_GROUP, check_group
from spanwire.discovery.groups.group import MulticastSettings, parse_multicast
from spanwire.model.errors import ConfigurationError

GROUP: Final = "group"
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


AgentSettings = MulticastSettings | ZeroconfSettings | FabricSettings


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
