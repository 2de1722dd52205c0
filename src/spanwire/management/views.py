"""An operator's views of a running broker, as plain values for JSON. They contain no secrets."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Final, Protocol

from spanwire import __version__
from spanwire._build import COMPILED
from spanwire.broker.admin.views import (
    BrokerStatistics,
    ConnectionView,
    ConsumerView,
    DestinationView,
    DurableView,
    ProducerView,
)
from spanwire.broker.dispatch.destination import BrokerDestination
from spanwire.transports.base import Clock

View = dict[str, object]
# Totals over destinations: `summary` leaves them out.
TOTALS: Final = ("destinations", "enqueued", "dequeued", "dispatched", "expired", "pending")
DESTINATION_FIELDS: Final = tuple(field.name for field in fields(DestinationView))


class ViewedBroker(Protocol):
    """The part of the broker used here (``broker/broker.py``)."""

    @property
    def name(self) -> str:
        """The broker's name."""
        ...

    @property
    def broker_id(self) -> str:
        """The broker's id."""
        ...


class OverviewSource(Protocol):
    """The broker's views of its objects (``broker/admin/broker_overview.py``)."""

    def destinations(self) -> list[BrokerDestination]:
        """Return all queues and topics by name."""
        ...

    def destination_view(self, destination: BrokerDestination) -> DestinationView:
        """Return the view of a queue or topic."""
        ...

    def durable_views(self, monotonic: float) -> list[DurableView]:
        """Return a view per durable subscription."""
        ...

    def connection_views(self) -> list[ConnectionView]:
        """Return a view per client connection."""
        ...

    def consumer_views(self) -> list[ConsumerView]:
        """Return a view per consumer."""
        ...

    def producer_views(self) -> list[ProducerView]:
        """Return a view per producer."""
        ...

    def statistics(self, with_totals: bool = True) -> BrokerStatistics:
        """Return the totals, or all but those over destinations."""
        ...


class ViewedConnector(Protocol):
    """The part of a transport connector used here."""

    connection_count: int

    @property
    def name(self) -> str:
        """The name in the configuration."""
        ...

    @property
    def uri(self) -> str:
        """The listening address."""
        ...


class BrokerView:
    """Answers the read-only commands of the control socket."""

    def __init__(
        self,
        broker: ViewedBroker,
        overview: OverviewSource,
        connectors: Sequence[ViewedConnector],
        clock: Clock,
        facts: dict[str, object],
        store_directory: Path | None = None,
    ) -> None:
        """Take the sources of the views; ``store_directory`` is None without a store."""
        self._broker: Final = broker
        self._overview: Final = overview
        self._store_directory: Final = store_directory
        self._connectors: Final = connectors
        self._clock: Final = clock
        self._started: Final = clock.now().monotonic
        self._facts: Final = facts

    def status(self) -> View:
        """Return name, process, uptime, connectors, usage and totals."""
        return self._status(self._overview.statistics())

    def summary(self) -> View:
        """Return the status without totals over destinations.

        A monitor that lists the destinations anyway adds them up, so that no turn of the loop has to look at all.
        """
        status = self._status(self._overview.statistics(with_totals=False))
        statistics = status["statistics"]
        assert isinstance(statistics, dict)
        return {**status, "statistics": {name: value for name, value in statistics.items() if name not in TOTALS}}

    def _status(self, statistics: BrokerStatistics) -> View:
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
            "statistics": asdict(statistics),
            "usage": self._usage(statistics),
            **self._facts,
        }

    def _usage(self, statistics: BrokerStatistics) -> View:
        """Return the usage of memory, store and disk in percent.

        Non-persistent messages go into the store's files while these are smaller than ``tempUsage``. So the temporary
        percentage is based on the same files.
        """
        free = None if self._store_directory is None else _free_bytes(self._store_directory)
        memory = percent(statistics.memory_bytes, statistics.memory_limit_bytes, None)
        store = percent(statistics.store_bytes, statistics.store_limit_bytes, free)
        temporary = percent(statistics.store_bytes, statistics.temporary_limit_bytes, free)
        return {
            "memory_percent": memory,
            "store_percent": 0 if self._store_directory is None else store,
            "temporary_percent": 0 if self._store_directory is None else temporary,
            "disk_free_bytes": free,
            "disk_full": statistics.disk_full,
        }

    def destinations(self) -> Iterator[View]:
        """Yield the counters of every destination, by name.

        Each view has the values of its own moment. Destinations removed meanwhile are left out.
        """
        for destination in self._overview.destinations():
            if not destination.removed:
                yield row_of(self._overview.destination_view(destination), DESTINATION_FIELDS)

    def subscriptions(self) -> Iterator[View]:
        """Yield every durable subscription, by client id and name."""
        views = self._overview.durable_views(self._clock.now().monotonic)
        for view in sorted(views, key=lambda view: (view.client_id, view.name)):
            yield asdict(view)

    def connections(self) -> Iterator[View]:
        """Yield every client connection, by id."""
        for view in sorted(self._overview.connection_views(), key=lambda view: view.connection_id):
            yield asdict(view)

    def consumers(self) -> Iterator[View]:
        """Yield every consumer, by id."""
        for view in sorted(self._overview.consumer_views(), key=lambda view: view.consumer_id):
            yield asdict(view)

    def producers(self) -> Iterator[View]:
        """Yield every producer, by id."""
        for view in sorted(self._overview.producer_views(), key=lambda view: view.producer_id):
            yield asdict(view)


def row_of(view: object, names: tuple[str, ...]) -> View:
    """Return a flat view as a row; `asdict`, which copies values of any depth, takes ten times as long."""
    return {name: getattr(view, name) for name in names}


def percent(used_bytes: int, limit_bytes: int, free_bytes: int | None) -> int:
    """Return the used part of a limit in percent: the configured limit, or the free disk where less."""
    limits = [limit_bytes] if limit_bytes > 0 else []
    if free_bytes is not None:
        limits.append(used_bytes + free_bytes)
    limit = min(limits, default=0)
    return used_bytes * 100 // limit if limit > 0 else 0


def _free_bytes(store_directory: Path) -> int | None:
    try:
        return shutil.disk_usage(store_directory).free
    except OSError:
        return None
