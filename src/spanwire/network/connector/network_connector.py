"""A network connector: a link to each of the brokers that are listed, or to each that its agent finds.

connector = NetworkConnector(settings, broker, broker_url, turn, routes)
await connector.start(own_uris); …; connector.stop()
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from spanwire.broker.broker import Broker
from spanwire.discovery.agents.finding import make_agent
from spanwire.discovery.agents.presence import DiscoveryAgent
from spanwire.network.connector.discovered_links import DiscoveredLinks
from spanwire.network.connector.link import STOPPED, Link, LinkView, NetworkConnectorSettings
from spanwire.network.demand.duplicate_suppression import NetworkRoutes
from spanwire.transports.loop.turn import Turn

logger = logging.getLogger(__name__)


class NetworkConnector:
    """All links of one connector. Started once. ``routes`` are those of all connectors of its broker. Raises
    `ConfigurationError` when its agent needs what is not installed.
    """

    def __init__(
        self, settings: NetworkConnectorSettings, broker: Broker, broker_url: str, turn: Turn, routes: NetworkRoutes
    ) -> None:
        self.settings: Final = settings
        self.is_started = False
        self._broker: Final = broker
        self._links: Final = [Link(settings, remote, broker, broker_url, turn, routes) for remote in settings.remotes]
        self._discovered: DiscoveredLinks | None = None
        self._agent: DiscoveryAgent | None = None
        discovery = settings.discovery
        if discovery is not None:
            self._discovered = DiscoveredLinks(settings, discovery, broker, broker_url, turn, routes)
            self._agent = make_agent(discovery.agent, self._discovered, settings.reconnect)
            self._discovered.set_agent(self._agent)

    async def start(self, own_uris: Iterable[str] = ()) -> None:
        """Begin to connect; does not wait for it, for a remote broker may be down for long. ``own_uris`` are where this
        broker listens. Raises `ConfigurationError` when the group of the agent cannot be joined.
        """
        self.is_started = True
        bridge = self.settings.bridge
        if self._broker.advisories is None and not bridge.static_bridge:
            logger.warning(
                "network connector %s: this broker has advisorySupport=\"false\": no other broker hears of consumers "
                "here or beyond; remove it, or set staticBridge", bridge.name,
            )  # fmt: skip
        for link in self._links:
            link.start()
        if self._agent is not None:
            for uri in own_uris:
                self._agent.ignore(uri)
            await self._agent.start()

    def stop(self) -> None:
        """Look for brokers and connect no more; may be called twice. Sockets stay open."""
        self.is_started = False
        if self._agent is not None:
            self._agent.stop()
        if self._discovered is not None:
            self._discovered.stop()
        for link in self._links:
            link.stop()

    def end(self) -> None:
        """The same, and close the links that are open; what they had not forwarded goes back in line."""
        self.stop()
        if self._discovered is not None:
            self._discovered.end()
        for link in self._links:
            link.end()

    def views(self) -> list[LinkView]:
        """One per link."""
        discovered = [] if self._discovered is None else self._discovered.views()
        views = [link.view() for link in self._links] + discovered
        return views if self.is_started else [replace(view, state=STOPPED, reason="") for view in views]
