"""A network connector: links to listed brokers, or to brokers found by its agent.

connector = NetworkConnector(settings, broker, broker_url, turn, routes)
await connector.start(own_uris); …; connector.stop()
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from spanwire.broker.broker import Broker
from spanwire.broker.explanation.links import LinkDescription
from spanwire.discovery.agents.agent_factory import DiscoveryAgent, make_agent
from spanwire.network.bridge.bridge_statistics import LinkCounts, LinkFailures
from spanwire.network.connector.discovered_links import DiscoveredLinks
from spanwire.network.connector.link import STOPPED, Link, LinkView, NetworkConnectorSettings
from spanwire.network.demand.duplicate_suppression import NetworkRoutes
from spanwire.network.reports.known_brokers import Peer
from spanwire.transports.loop.turn import Turn

logger = logging.getLogger(__name__)


class NetworkConnector:
    """Owns the links of one connector. Raises `ConfigurationError` if its agent needs a missing package.

    ``routes`` are shared by all connectors of the broker.
    """

    def __init__(
        self, settings: NetworkConnectorSettings, broker: Broker, broker_url: str, turn: Turn, routes: NetworkRoutes
    ) -> None:
        self.settings: Final = settings
        self.is_started = False
        self.started_ms = 0  # wall milliseconds; 0 before
        self.stopped_ms = 0
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
        """Begin to connect, without waiting for the remote brokers.

        ``own_uris`` are the addresses of the local broker.

        Raises:
            ConfigurationError: the group of the agent cannot be joined
        """
        self.is_started = True
        self.started_ms = self._broker.environment.now().wall_ms
        bridge = self.settings.bridge
        if self._broker.advisories is None and not bridge.static_bridge:
            logger.warning(
                "network connector %s: this broker has advisorySupport=\"false\", so other brokers learn of no "
                "consumers here; remove the attribute, or set staticBridge", bridge.name,
            )  # fmt: skip
        for link in self._links:
            link.start()
        if self._agent is not None:
            for uri in own_uris:
                self._agent.ignore(uri)
            await self._agent.start()

    def stop(self) -> None:
        """Stop discovery and connecting; may be called twice. Sockets stay open."""
        if self.is_started:
            self.stopped_ms = self._broker.environment.now().wall_ms
        self.is_started = False
        if self._agent is not None:
            self._agent.stop()
        if self._discovered is not None:
            self._discovered.stop()
        for link in self._links:
            link.stop()

    def end(self) -> None:
        """Stop, and close open links; their messages in flight return to their queues."""
        self.stop()
        if self._discovered is not None:
            self._discovered.end()
        for link in self._links:
            link.end()

    def failures(self) -> LinkFailures:
        """Return the failures of all links, with those that are gone."""
        failures = LinkFailures()
        for link in self.links():
            failures.add(link.failures)
        if self._discovered is not None:
            failures.add(self._discovered.ended_failures)
        return failures

    def links(self) -> list[Link]:
        """Return the links."""
        return [*self._links, *([] if self._discovered is None else self._discovered.links.values())]

    def counts(self) -> list[tuple[LinkView, LinkCounts]]:
        """Return view and counts by destination of each link."""
        return [(link.view(), link.counts) for link in self.links()]

    def peers(self) -> list[Peer]:
        """Return the remote brokers of the links that run."""
        discovered = [] if self._discovered is None else self._discovered.peers()
        return [peer for link in self._links if (peer := link.peer()) is not None] + discovered

    def descriptions(self) -> list[LinkDescription]:
        """Return what explains why messages do or do not cross each link."""
        discovered = [] if self._discovered is None else list(self._discovered.links.values())
        descriptions = [link.description() for link in [*self._links, *discovered]]
        return descriptions if self.is_started else [replace(one, state=STOPPED, reason="") for one in descriptions]

    def views(self) -> list[LinkView]:
        """Return a view per link."""
        discovered = [] if self._discovered is None else self._discovered.views()
        views = [link.view() for link in self._links] + discovered
        return views if self.is_started else [replace(view, state=STOPPED, reason="") for view in views]
