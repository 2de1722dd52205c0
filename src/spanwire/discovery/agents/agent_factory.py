"""Makes an agent from its settings."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from spanwire.discovery.agent_settings import AgentSettings, ZeroconfSettings
from spanwire.discovery.agents.extras import checked_extra
from spanwire.discovery.agents.multicast import MulticastAgent
from spanwire.discovery.agents.presence import DiscoveryAgent
from spanwire.discovery.group import MulticastSettings
from spanwire.discovery.reconnect import ReconnectSettings
from spanwire.discovery.sightings import FAILED_SIGHTING, DiscoveryListener
from spanwire.registry import AGENTS, load


def make_agent(
    settings: AgentSettings, listener: DiscoveryListener | None = None, retry: ReconnectSettings = FAILED_SIGHTING
) -> DiscoveryAgent:
    """Return the agent, not started yet. Raises `ConfigurationError` if its extra is missing."""
    if isinstance(settings, MulticastSettings):
        return MulticastAgent(settings, listener, retry)
    name = checked_extra(settings)
    make = cast(Callable[..., DiscoveryAgent], load(AGENTS[name]))
    return make(settings, listener, retry)


def twin_settings(settings: AgentSettings) -> AgentSettings | None:
    """Return the settings of a second agent for the same group, or None.

    Java clients look by either multicast or zeroconf, so a group is announced by both.
    """
    if isinstance(settings, MulticastSettings):
        return ZeroconfSettings(settings.group)
    return MulticastSettings(group=settings.group) if isinstance(settings, ZeroconfSettings) else None
