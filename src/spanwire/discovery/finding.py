"""From the settings of an agent to the agent. What needs an extra is imported only when it is asked for."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Final, cast

from spanwire.discovery.agents import AgentSettings, FabricSettings, ZeroconfSettings
from spanwire.discovery.group import MulticastSettings
from spanwire.discovery.multicast import MulticastAgent
from spanwire.discovery.presence import DiscoveryAgent
from spanwire.discovery.reconnect import ReconnectSettings
from spanwire.discovery.sightings import FAILED_SIGHTING, DiscoveryListener
from spanwire.model.errors import ConfigurationError
from spanwire.registry import AGENTS, LOOKS, load

EXTRAS: Final = {"zeroconf": "zeroconf", "fabric": "kazoo"}  # extra → the module that it brings


def name_of(settings: AgentSettings) -> str:
    """The scheme of an agent."""
    if isinstance(settings, ZeroconfSettings):
        return "zeroconf"
    return "fabric" if isinstance(settings, FabricSettings) else "multicast"


def has_extra(name: str) -> bool:
    """Whether what an agent needs is installed."""
    module = EXTRAS.get(name)
    return module is None or importlib.util.find_spec(module) is not None


def make_agent(
    settings: AgentSettings, listener: DiscoveryListener | None = None, retry: ReconnectSettings = FAILED_SIGHTING
) -> DiscoveryAgent:
    """The agent, not started yet. Raises `ConfigurationError` when its extra is missing."""
    if isinstance(settings, MulticastSettings):
        return MulticastAgent(settings, listener, retry)
    name = _checked(settings)
    make = cast(Callable[..., DiscoveryAgent], load(AGENTS[name]))
    return make(settings, listener, retry)


def look_once(settings: ZeroconfSettings | FabricSettings) -> list[str]:
    """The URIs that are there just now. Blocks. Raises `ConfigurationError` or `JmsError`."""
    look = cast(Callable[..., list[str]], load(LOOKS[_checked(settings)]))
    return look(settings)


def _checked(settings: AgentSettings) -> str:
    name = name_of(settings)
    if not has_extra(name):
        raise ConfigurationError(f"the agent {name} needs the extra {name}: pip install 'spanwire[{name}]'")
    return name


def twin(settings: AgentSettings) -> AgentSettings | None:
    """The other agent by which a group is announced, too: real clients look by one of multicast and zeroconf alone."""
    if isinstance(settings, MulticastSettings):
        return ZeroconfSettings(settings.group)
    return MulticastSettings(group=settings.group) if isinstance(settings, ZeroconfSettings) else None
