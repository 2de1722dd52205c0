"""Makes agents from their settings, and finds the URIs of a group once.

An agent is imported when it is needed.

Some agents need additional packages.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Final, Protocol, cast

from spanwire.discovery.addresses.reconnect import ReconnectSettings
from spanwire.discovery.groups.agent_settings import (
    AgentSettings,
    FabricSettings,
    HttpRegistrySettings,
    ZeroconfSettings,
)
from spanwire.discovery.groups.group import MulticastSettings
from spanwire.discovery.groups.sightings import FAILED_SIGHTING, DiscoveryListener
from spanwire.extras import install_command
from spanwire.model.errors import ConfigurationError
from spanwire.registry import AGENTS, LOOKUPS, load

EXTRAS: Final = {"zeroconf": "zeroconf", "fabric": "kazoo"}  # extra → its module


class DiscoveryAgent(Protocol):
    """The methods of every agent."""

    async def start(self) -> None:
        """Join the group. Raises `ConfigurationError` if this machine cannot."""
        ...

    def announce(self, uri: str) -> None:
        """Announce a connector at ``uri`` to the group."""
        ...

    def withdraw(self, uri: str) -> None:
        """Announce the farewell of an announced connector at ``uri``."""
        ...

    def ignore(self, uri: str) -> None:
        """Never report this address, the broker's own."""
        ...

    def on_failure(self, uri: str, uptime_s: float) -> None:
        """Note that the broker at ``uri`` could not be used, or only for ``uptime_s`` seconds."""
        ...

    def stop(self) -> None:
        """Announce the farewell and leave the group; may be called twice."""
        ...


def make_agent(
    settings: AgentSettings, listener: DiscoveryListener | None = None, retry: ReconnectSettings = FAILED_SIGHTING
) -> DiscoveryAgent:
    """Return the agent, not started yet. Raises `ConfigurationError` if its extra is missing."""
    make = cast(Callable[..., DiscoveryAgent], load(AGENTS[checked_extra(settings)]))
    return make(settings, listener, retry)


def twin_settings(settings: AgentSettings) -> AgentSettings | None:
    """Return the settings of a second agent for the same group, or None.

    Java clients look by either multicast or zeroconf, so a group is announced by both.
    """
    if isinstance(settings, MulticastSettings):
        return ZeroconfSettings(settings.group)
    return MulticastSettings(group=settings.group) if isinstance(settings, ZeroconfSettings) else None


def name_of(settings: AgentSettings) -> str:
    """Return the scheme of an agent."""
    if isinstance(settings, ZeroconfSettings):
        return "zeroconf"
    if isinstance(settings, HttpRegistrySettings):
        return "http"
    return "fabric" if isinstance(settings, FabricSettings) else "multicast"


def has_extra(name: str) -> bool:
    """Return True if the packages of an agent are installed."""
    module = EXTRAS.get(name)
    return module is None or importlib.util.find_spec(module) is not None


def find_uris(settings: ZeroconfSettings | FabricSettings | HttpRegistrySettings) -> list[str]:
    """Return the URIs now present in a group. Blocks. Raises `ConfigurationError` or `JmsError`."""
    lookup = cast(Callable[..., list[str]], load(LOOKUPS[checked_extra(settings)]))
    return lookup(settings)


def checked_extra(settings: AgentSettings) -> str:
    """Return the name of an agent with installed packages. Raises `ConfigurationError` for others."""
    name = name_of(settings)
    if not has_extra(name):
        raise ConfigurationError(f"the agent {name} needs the extra {name}; run: {install_command(name)}")
    return name
