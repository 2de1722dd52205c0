"""What an operator may know of a running broker, as plain values that go into JSON. Nothing secret is in them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict
from typing import Final, Protocol

from spanwire import __version__
from spanwire._build import COMPILED
from spanwire.broker.views import BrokerStatistics, ConnectionView, DestinationView
from spanwire.transports.base import Clock

View = dict[str, object]


class ViewedBroker(Protocol):
    """The part of the broker that views are made of (``broker/broker.py``)."""

    @property
    def name(self) -> str:
        """The broker's name."""
        ...

    @property
    def broker_id(self) -> str:
        """The broker's id."""
        ...

    def destination_views(self) -> list[DestinationView]:
        """One per destination."""
        ...

    def connection_views(self) -> list[ConnectionView]:
        """One per client connection."""
        ...

    def statistics(self) -> BrokerStatistics:
        """Totals."""
        ...


class ViewedConnector(Protocol):
    """The part of a transport connector that views are made of."""

    connection_count: int

    @property
    def name(self) -> str:
        """Its name in the configuration."""
        ...

    @property
    def uri(self) -> str:
        """Where it listens."""
        ...


class BrokerView:
    """Answers the questions of the control socket. Changes nothing."""

    def __init__(
        self, broker: ViewedBroker, connectors: Sequence[ViewedConnector], clock: Clock, facts: dict[str, object]
    ) -> None:
        self._broker: Final = broker
        self._connectors: Final = connectors
        self._clock: Final = clock
        self._started: Final = clock.now().monotonic
        self._facts: Final = facts

    def status(self) -> View:
        """Who this is, since when, where it listens, and totals."""
        return {
            "name": self._broker.name,
            "id": self._broker.broker_id,
            "pid": os.getpid(),
            "version": __version__,
            "compiled": COMPILED,
            "uptime_s": round(self._clock.now().monotonic - self._started, 1),
            "connectors": [
                {"name": connector.name, "uri": connector.uri, "connections": connector.connection_count}
                for connector in self._connectors
            ],
            "statistics": asdict(self._broker.statistics()),
            **self._facts,
        }

    def destinations(self) -> list[View]:
        """The counters of every destination, by name."""
        return [asdict(view) for view in sorted(self._broker.destination_views(), key=lambda view: view.destination)]

    def connections(self) -> list[View]:
        """Every client connection, by id."""
        return [asdict(view) for view in sorted(self._broker.connection_views(), key=lambda view: view.connection_id)]
