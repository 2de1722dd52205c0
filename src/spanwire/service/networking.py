"""The network connectors of a broker and its announcements: from the configuration, started last, stopped first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Final

from spanwire.broker.broker import Broker
from spanwire.discovery.multicast import MulticastAgent, MulticastSettings, parse_multicast
from spanwire.network.connector import NetworkConnectorSettings, accepted_view
from spanwire.network.connectors import NetworkConnector
from spanwire.network.duplex import DuplexAcceptor
from spanwire.network.routes import NetworkRoutes
from spanwire.transports.connector import TransportConnector
from spanwire.transports.turn import Turn

ANY_HOST: Final = ("0.0.0.0", "::", "")  # a connector that listens on all addresses has the name of the machine


class Networking:
    """All network connectors of one broker, what it announces, and the duplex links that others have opened to it."""

    def __init__(self, settings: Sequence[NetworkConnectorSettings]) -> None:
        self._settings: Final = tuple(settings)
        self._connectors: list[NetworkConnector] = []
        self._agents: Final[dict[MulticastSettings, MulticastAgent]] = {}
        self._routes: Final = NetworkRoutes()
        self._acceptor: DuplexAcceptor | None = None

    def acceptor(self, broker: Broker) -> DuplexAcceptor:
        """What serves the duplex links of other brokers; one for all connectors."""
        if self._acceptor is None:
            self._acceptor = DuplexAcceptor(broker, self._routes)
        return self._acceptor

    async def start(
        self, broker: Broker, broker_url: str, turn: Turn, listening: Sequence[TransportConnector] = ()
    ) -> None:
        """Begin to connect and to announce. ``broker_url`` is this broker's address, as remote brokers are told,
        ``listening`` where it accepts connections by now. Raises `ConfigurationError` when a group cannot be joined.
        """
        self._connectors = [
            NetworkConnector(settings, broker, broker_url, turn, self._routes) for settings in self._settings
        ]
        host_name = broker.environment.host_name
        own = [connector.uri for connector in listening] + [announced_uri(one, host_name) for one in listening]
        for connector in self._connectors:
            await connector.start(own)
        for one in listening:
            if one.settings.discovery_uri:
                await self._announce(parse_multicast(one.settings.discovery_uri), announced_uri(one, host_name))

    async def _announce(self, settings: MulticastSettings, uri: str) -> None:
        """Connectors that are announced alike share an agent."""
        agent = self._agents.get(settings)
        if agent is None:
            agent = self._agents[settings] = MulticastAgent(settings)
            await agent.start()
        agent.announce(uri)

    def stop(self) -> None:
        """Say farewell and connect no more; open links end with the broker's other connections. May be called twice."""
        for agent in self._agents.values():
            agent.stop()
        for connector in self._connectors:
            connector.stop()

    def views(self) -> list[dict[str, object]]:
        """One per link, as plain values."""
        found = [asdict(view) for connector in self._connectors for view in connector.views()]
        accepted = [] if self._acceptor is None else self._acceptor.bridges.values()
        return found + [asdict(accepted_view(bridge)) for bridge in accepted]


def announced_uri(connector: TransportConnector, host_name: str) -> str:
    """Where others find a connector that listens: its real port, and a host that means something to them."""
    settings = connector.settings
    if settings.host not in ANY_HOST:
        return connector.uri
    return f"{settings.scheme}://{host_name}:{connector.port}"
