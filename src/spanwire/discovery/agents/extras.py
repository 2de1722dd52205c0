"""Agents that need more than Spanwire brings: whether that is installed, and one look with them. What needs an extra is
imported only when it is asked for.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Final, cast

from spanwire.discovery.agent_settings import AgentSettings, FabricSettings, ZeroconfSettings
from spanwire.extras import install_command
from spanwire.model.errors import ConfigurationError
from spanwire.registry import LOOKUPS, load

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


def find_uris(settings: ZeroconfSettings | FabricSettings) -> list[str]:
    """The URIs that are there just now. Blocks. Raises `ConfigurationError` or `JmsError`."""
    lookup = cast(Callable[..., list[str]], load(LOOKUPS[checked_extra(settings)]))
    return lookup(settings)


def checked_extra(settings: AgentSettings) -> str:
    """The name of an agent whose extra is installed. Raises `ConfigurationError`."""
    name = name_of(settings)
    if not has_extra(name):
        raise ConfigurationError(f"the agent {name} needs the extra {name}; run: {install_command(name)}")
    return name
