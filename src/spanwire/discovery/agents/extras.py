"""Agents with additional packages: checks for these packages, and finds the URIs of a group once.

Such packages are imported only when they are needed.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Final, cast

from spanwire.discovery.agent_settings import AgentSettings, FabricSettings, ZeroconfSettings
from spanwire.extras import install_command
from spanwire.model.errors import ConfigurationError
from spanwire.registry import LOOKUPS, load

EXTRAS: Final = {"zeroconf": "zeroconf", "fabric": "kazoo"}  # extra → its module


def name_of(settings: AgentSettings) -> str:
    """Return the scheme of an agent."""
    if isinstance(settings, ZeroconfSettings):
        return "zeroconf"
    return "fabric" if isinstance(settings, FabricSettings) else "multicast"


def has_extra(name: str) -> bool:
    """Return True if the packages of an agent are installed."""
    module = EXTRAS.get(name)
    return module is None or importlib.util.find_spec(module) is not None


def find_uris(settings: ZeroconfSettings | FabricSettings) -> list[str]:
    """Return the URIs now present in a group. Blocks. Raises `ConfigurationError` or `JmsError`."""
    lookup = cast(Callable[..., list[str]], load(LOOKUPS[checked_extra(settings)]))
    return lookup(settings)


def checked_extra(settings: AgentSettings) -> str:
    """Return the name of an agent with installed packages. Raises `ConfigurationError` for others."""
    name = name_of(settings)
    if not has_extra(name):
        raise ConfigurationError(f"the agent {name} needs the extra {name}; run: {install_command(name)}")
    return name
