"""A network connector: links to listed brokers, or to brokers found by its agent.

connector = NetworkConnector(settings, broker, broker_url, turn, routes)
await connector.start(own_uris); …; connector.stop()
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final

from spanwire.broker.broker import Broker
from spanwire.broker.explanation.links import LinkDescription
from spanwire.discovery.agents.agent_factory import DiscoveryAgent, make_agent
from spanwire.discovery.groups.gossip_settings import GossipSettings
from spanwire.model.errors import ConfigurationError
from spanwire.network.bridge.bridge_statistics import LinkCounts, LinkFailures
from spanwire.network.connector.discovered_links import DiscoveredLinks
from spanwire.network.connector.link import STOPPED, Link, LinkView, NetworkConnectorSettings
from spanwire.network.demand.duplicate_suppression import NetworkRoutes
from spanwire.network.gossip.gossip import Gossip
from spanwire.network.gossip.gossip_agent import GossipAgent
from spanwire.network.gossip.seed_link import SeedLink
from spanwire.network.reports.known_brokers import Peer
from spanwire.transports.loop.turn import Turn

logger = logging.getLogger(__name__)
MakeGossip = Callable[[], Gossip]


class NetworkConnector:
    """Owns the links of one connector. Raises `ConfigurationError` if the agent needs a missing package.

    ``routes`` are shared by all connectors of the broker.
    """

    def __init__(
        self,
        settings: NetworkConnectorSettings,
        broker: Broker,
        broker_url: str,
        turn: Turn,
        routes: NetworkRoutes,
        gossip: MakeGossip | None = None,
    ) -> None:
        """``gossip`` returns the broker's gossip, for a gossip connector."""
        self.settings: Final = settings
        self.is_started = False
        self.started_ms = 0  # wall milliseconds; 0 before
        self.stopped_ms = 0
        self._broker: Final = broker
        self._discovered: DiscoveredLinks | None = None
        self._agent: DiscoveryAgent | None = None
        self._seeds: list[SeedLink] = []
        discovery = settings.discovery
        if discovery is not None:
            self._discovered = DiscoveredLinks(settings, discovery, broker, broker_url, turn, routes)
            if isinstance(discovery.agent, GossipSettings):
                if gossip is None:
                    raise ConfigurationError("gossip: links brokers of a network; this one has none")
                agent = self._agent = GossipAgent(
                    discovery.agent,
                    settings.bridge.duplex,
                    settings.reconnect,
                    gossip(),
                    self._discovered,
                    lambda: self._seeds,
                )
                self._seeds = [
                    SeedLink(settings, remote, broker, broker_url, turn, routes, agent.is_served)
                    for remote in settings.remotes
                ]
            else:
                self._agent = make_agent(discovery.agent, self._discovered, settings.reconnect)
            self._discovered.set_agent(self._agent)
        self._links: Final[list[Link]] = [*self._seeds] or [
            Link(settings, remote, broker, broker_url, turn, routes) for remote in settings.remotes
        ]

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
        """Return the failures of all links, with removed links."""
        failures = LinkFailures()
        for link in self.links():
            failures.add(link.failures)
        if self._discovered is not None:
            failures.add(self._discovered.ended_failures)
        return failures

    def links(self) -> list[Link]:
        """Return the links, without a seed leading to this broker itself."""
        itself = {id(seed) for seed in self._seeds if seed.leads_to_itself}
        listed = [link for link in self._links if id(link) not in itself]
        return [*listed, *([] if self._discovered is None else self._discovered.links.values())]

    def counts(self) -> list[tuple[LinkView, LinkCounts]]:
        """Return view and counts by destination of each link."""
        return [(link.view(), link.counts) for link in self.links()]

    def peers(self) -> list[Peer]:
        """Return the remote brokers of the running links."""
        discovered = [] if self._discovered is None else self._discovered.peers()
        return [peer for link in self._links if (peer := link.peer()) is not None] + discovered

    def descriptions(self) -> list[LinkDescription]:
        """Return the description of each link, to explain why messages do or do not cross."""
        descriptions = [link.description() for link in self.links()]
        return descriptions if self.is_started else [replace(one, state=STOPPED, reason="") for one in descriptions]

    def views(self) -> list[LinkView]:
        """Return a view per link, and per discovered address that cannot be linked.

        A connector without links is looking for brokers, unless they have linked here. A gossip connector knows the
        names of members that no link has reached so far.
        """
        views = [link.view() for link in self.links()]
        is_linked = isinstance(self._agent, GossipAgent) and self._agent.is_linked_by_others
        if self._discovered is not None and (views or (is_linked and self.is_started)):
            views += self._discovered.unusable_views()
        elif self._discovered is not None:
            views = [self._discovered.idle_view()]
        if isinstance(self._agent, GossipAgent):
            views = [view if view.remote else replace(view, remote=self._agent.name_of(view.uri)) for view in views]
        return views if self.is_started else [replace(view, state=STOPPED, reason="") for view in views]
