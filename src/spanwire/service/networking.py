"""The network connectors of a broker and its announcements: from the configuration, started last, stopped first."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Final

from spanwire.broker.broker import Broker
from spanwire.discovery.agent_settings import AgentSettings, parse_agent
from spanwire.discovery.agents.agent_factory import make_agent, twin_settings
from spanwire.discovery.agents.extras import has_extra, name_of
from spanwire.discovery.agents.presence import DiscoveryAgent
from spanwire.model.errors import ConfigurationError
from spanwire.network.bridge.duplex_bridge import DuplexAcceptor
from spanwire.network.connector.link import NetworkConnectorSettings, accepted_view
from spanwire.network.connector.network_connector import NetworkConnector
from spanwire.network.demand.duplicate_suppression import NetworkRoutes
from spanwire.network.settings import BridgeSettings
from spanwire.service.connector_views import accepted_settings_view, connector_view
from spanwire.transports.connector import TransportConnector
from spanwire.transports.loop.turn import Turn

logger = logging.getLogger(__name__)

MAX_NAMES: Final = 100  # connectors in one request
CLUSTER_INTERVAL: Final = 1.0  # seconds between two looks which brokers clients are told of
RUNNING: Final = "running"  # the state of a link that is up
ANY_HOST: Final = ("0.0.0.0", "::", "")  # a connector that listens on all addresses has the name of the machine


class Networking:
    """All network connectors of one broker, what it announces, and the duplex links that others have opened to it."""

    def __init__(self, settings: Sequence[NetworkConnectorSettings]) -> None:
        self._settings: Final = tuple(settings)
        self._connectors: Final[dict[str, NetworkConnector]] = {}
        self._make: Callable[[NetworkConnectorSettings], NetworkConnector] | None = None
        self._broker: Broker | None = None
        self._own: list[str] = []  # where this broker listens
        self._agents: Final[dict[AgentSettings, DiscoveryAgent]] = {}
        self._routes: Final = NetworkRoutes()
        self._acceptor: DuplexAcceptor | None = None
        self._announcing: asyncio.Task[None] | None = None

    def acceptor(self, broker: Broker) -> DuplexAcceptor:
        """What serves the duplex links of other brokers; one for all connectors."""
        if self._acceptor is None:
            self._acceptor = DuplexAcceptor(broker, self._routes)
        return self._acceptor

    async def start(
        self, broker: Broker, broker_url: str, turn: Turn, listening: Sequence[TransportConnector] = ()
    ) -> None:
        """Begin to announce and, but for what waits for an operator, to connect. ``broker_url`` is this broker's
        address, as remote brokers are told, ``listening`` where it accepts connections by now. Raises
        `ConfigurationError` when a group cannot be joined.
        """
        self._broker = broker
        self._make = lambda settings: NetworkConnector(settings, broker, broker_url, turn, self._routes)
        host_name = broker.environment.host_name
        self._own = [connector.uri for connector in listening] + [
            announced_uri(listener, host_name) for listener in listening
        ]
        for settings in self._settings:
            connector = self._connectors[settings.bridge.name] = self._make(settings)
            if settings.auto_start:
                await connector.start(self._own)
        for listener in listening:
            if listener.settings.discovery_uri:
                await self._announce(parse_agent(listener.settings.discovery_uri), announced_uri(listener, host_name))
        if any(listener.cluster is not None for listener in listening):
            self._announcing = asyncio.get_running_loop().create_task(self._announce_brokers(listening, host_name))

    async def _announce_brokers(self, listening: Sequence[TransportConnector], host_name: str) -> None:
        """Clients of connectors that ask for it hear of the brokers that this one has links to or duplex links from."""
        while True:
            linked = [
                (view.uri, view.remote)
                for connector in self._connectors.values()
                for view in connector.views()
                if view.state == RUNNING
            ]
            if self._acceptor is not None:
                linked += self._acceptor.remote_brokers()
            linked.sort()
            for listener in listening:
                cluster = listener.cluster
                if cluster is not None:
                    others = [uri for uri, name in linked if cluster.is_announced(name)]
                    cluster.change(list(dict.fromkeys([announced_uri(listener, host_name), *others])))
                    while cluster.announce_more():
                        await asyncio.sleep(0)
            await asyncio.sleep(CLUSTER_INTERVAL)

    async def _announce(self, settings: AgentSettings, uri: str) -> None:
        """By the agent that was asked for and, of multicast and zeroconf, by the other one: clients look by one alone.
        The other one stands in nobody's way.
        """
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

    async def _joined(self, settings: AgentSettings) -> DiscoveryAgent:
        """Connectors that are announced alike share an agent."""
        agent = self._agents.get(settings)
        if agent is None:
            agent = make_agent(settings)
            await agent.start()
            self._agents[settings] = agent
        return agent

    async def replace(
        self, removed: Sequence[NetworkConnectorSettings], added: Sequence[NetworkConnectorSettings]
    ) -> list[str]:
        """End some connectors and begin with others; one that is changed is in both. Gives one line for each that could
        not be started; it stays there, to be started by an operator.
        """
        problems: list[str] = []
        for settings in removed:
            connector = self._connectors.pop(settings.bridge.name, None)
            if connector is not None:
                connector.end()
        make = self._make
        for settings in added:
            if make is None:
                break
            try:
                connector = self._connectors[settings.bridge.name] = make(settings)
                if settings.auto_start:
                    await connector.start(self._own)
            except ConfigurationError as error:
                problems.append(f"network connector {settings.bridge.name} is not started: {error}")
        return problems

    def stop(self) -> None:
        """Say farewell and connect no more; open links end with the broker's other connections. May be called twice."""
        if self._announcing is not None:
            self._announcing.cancel()
            self._announcing = None
        for agent in self._agents.values():
            agent.stop()
        for connector in self._connectors.values():
            connector.stop()

    async def start_connectors(self, arguments: Mapping[str, object]) -> list[dict[str, object]]:
        """``connectors``: names of network connectors, which begin to connect unless they have. Gives a view of each
        link. Raises `ConfigurationError`.
        """
        connectors = self._named(arguments)
        make = self._make
        for index, connector in enumerate(connectors):
            if connector.is_started or make is None:
                continue
            started = connectors[index] = make(connector.settings)  # a connector is started once
            self._connectors[connector.settings.bridge.name] = started
            await started.start(self._own)
        return [asdict(view) for connector in connectors for view in connector.views()]

    async def stop_connectors(self, arguments: Mapping[str, object]) -> list[dict[str, object]]:
        """The same for the way back: their links are closed, and stay so until somebody starts them."""
        connectors = self._named(arguments)
        for connector in connectors:
            connector.end()
        return [asdict(view) for connector in connectors for view in connector.views()]

    def _named(self, arguments: Mapping[str, object]) -> list[NetworkConnector]:
        names = arguments.get("connectors")
        if not isinstance(names, list) or not 0 < len(names) <= MAX_NAMES:
            raise ConfigurationError(f"connectors must be a list of 1 to {MAX_NAMES} names of network connectors")
        for name in names:
            if name not in self._connectors:
                known = ", ".join(self._connectors) or "none"
                raise ConfigurationError(f"there is no network connector {str(name)[:100]}; there are {known}")
        return [self._connectors[name] for name in dict.fromkeys(names)]

    def status(self) -> dict[str, object]:
        """What the status of the broker tells of its network: the links, and the settings of the connectors."""
        return {"network_connectors": self.views(), "network_settings": self.settings_views()}

    def settings_views(self) -> list[dict[str, object]]:
        """The settings of each connector, and of each duplex connector of another broker with a link to here."""
        accepted = [] if self._acceptor is None else self._acceptor.bridges.values()
        here = [
            {**connector_view(connector.settings), "durableDestinations": self._durable(connector.settings.bridge)}
            for connector in self._connectors.values()
        ]
        return here + [accepted_settings_view(bridge) for bridge in accepted]

    def _durable(self, settings: BridgeSettings) -> list[str]:
        """The topics for which bridges of one connector have durable subscriptions here, as the store knows them."""
        broker = self._broker
        if broker is None:
            return []
        start = settings.name + settings.client_id_token
        end = settings.client_id_token.join(("", "inbound", broker.name))
        terms = broker.operations.durable_terms()
        topics = {
            subscription.topic.qualified_name
            for subscription in terms
            if subscription.client_id.startswith(start) and subscription.client_id.endswith(end)
        }
        return sorted(topics)

    def views(self) -> list[dict[str, object]]:
        """One per link, as plain values."""
        views = [asdict(view) for connector in self._connectors.values() for view in connector.views()]
        acceptor = self._acceptor
        if acceptor is None:
            return views
        now = acceptor.now().monotonic
        return views + [asdict(accepted_view(link, now)) for link in acceptor.links.values()]


def announced_uri(connector: TransportConnector, host_name: str) -> str:
    """Where others find a connector that listens: its real port, and a host that means something to them."""
    settings = connector.settings
    if settings.host not in ANY_HOST:
        return connector.uri
    return f"{settings.scheme}://{host_name}:{connector.port}"
