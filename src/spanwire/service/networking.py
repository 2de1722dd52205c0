"""The network connectors of a broker: built from the configuration, started last, stopped first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Final

from spanwire.broker.broker import Broker
from spanwire.network.connector import NetworkConnector, NetworkConnectorSettings, accepted_view
from spanwire.network.duplex import DuplexAcceptor
from spanwire.network.routes import NetworkRoutes
from spanwire.transports.turn import Turn


class Networking:
    """All network connectors of one broker, and the duplex links that others have opened to it."""

    def __init__(self, settings: Sequence[NetworkConnectorSettings]) -> None:
        self._settings: Final = tuple(settings)
        self._connectors: list[NetworkConnector] = []
        self._routes: Final = NetworkRoutes()
        self._acceptor: DuplexAcceptor | None = None

    def acceptor(self, broker: Broker) -> DuplexAcceptor:
        """What serves the duplex links of other brokers; one for all connectors."""
        if self._acceptor is None:
            self._acceptor = DuplexAcceptor(broker, self._routes)
        return self._acceptor

    def start(self, broker: Broker, broker_url: str, turn: Turn) -> None:
        """Begin to connect. ``broker_url`` is this broker's address, as remote brokers are told."""
        self._connectors = [
            NetworkConnector(settings, broker, broker_url, turn, self._routes) for settings in self._settings
        ]
        for connector in self._connectors:
            connector.start()

    def stop(self) -> None:
        """Connect no more; open links end with the broker's other connections."""
        for connector in self._connectors:
            connector.stop()

    def views(self) -> list[dict[str, object]]:
        """One per link, as plain values."""
        found = [asdict(view) for connector in self._connectors for view in connector.views()]
        accepted = [] if self._acceptor is None else self._acceptor.bridges.values()
        return found + [asdict(accepted_view(bridge)) for bridge in accepted]
