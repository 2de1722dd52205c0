"""Announcements of a broker's connectors to discovery groups."""

from __future__ import annotations

import logging
from typing import Final

from spanwire.discovery.agents.agent_factory import (
    DiscoveryAgent,
    checked_extra,
    has_extra,
    make_agent,
    name_of,
    twin_settings,
)
from spanwire.discovery.groups.agent_settings import AgentSettings, parse_agent
from spanwire.model.errors import ConfigurationError

logger = logging.getLogger(__name__)


class Announcements:
    """The agents for the announcement of connectors; connectors with equal settings share an agent."""

    def __init__(self) -> None:
        self._agents: Final[dict[AgentSettings, DiscoveryAgent]] = {}

    async def add(self, discovery_uri: str, uri: str) -> None:
        """Announce a connector by its agent, and by the other agent of multicast and zeroconf.

        Clients look for one agent only. Failures of the other agent are logged and ignored.

        Raises:
            ConfigurationError: the group cannot be joined.
        """
        settings = parse_agent(discovery_uri)
        (await self._joined(settings)).announce(uri)
        other = twin_settings(settings)
        if other is None:
            return
        if not has_extra(name_of(other)):
            logger.info("%s is not announced by %s: the extra %s is not installed", uri, name_of(other), name_of(other))
            return
        try:
            (await self._joined(other)).announce(uri)
        except ConfigurationError as error:
            logger.info("%s is not announced by %s: %s", uri, name_of(other), error)

    def remove(self, discovery_uri: str, uri: str) -> None:
        """Withdraw the announcements of one connector."""
        settings = parse_agent(discovery_uri)
        for one in (settings, twin_settings(settings)):
            agent = None if one is None else self._agents.get(one)
            if agent is not None:
                agent.withdraw(uri)

    def stop(self) -> None:
        """Withdraw the announcements."""
        for agent in self._agents.values():
            agent.stop()

    async def _joined(self, settings: AgentSettings) -> DiscoveryAgent:
        """Return a started agent."""
        agent = self._agents.get(settings)
        if agent is None:
            agent = make_agent(settings)
            await agent.start()
            self._agents[settings] = agent
        return agent


def agent_obstacle(agent: AgentSettings | str) -> str | None:
    """Return the reason why an agent, or the agent of a URI, cannot be made.

    Returns None if the extra is installed.
    """
    try:
        checked_extra(parse_agent(agent) if isinstance(agent, str) else agent)
    except ConfigurationError as error:
        return str(error)
    return None
