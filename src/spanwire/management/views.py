"""What an operator may know of a running broker, as plain values that go into JSON. Nothing secret is in them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final, Protocol

from spanwire import __version__
from spanwire._build import COMPILED
from spanwire.broker.admin.views import BrokerStatistics, ConnectionView, ConsumerView, DestinationView, DurableView
from spanwire.broker.dispatch.message_reference import BrokerDestination
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


class OverviewSource(Protocol):
    """What the broker tells of all it holds (``broker/admin/broker_overview.py``)."""

    def homes(self) -> list[BrokerDestination]:
        """All queues and topics by name."""
        ...

    def destination_view(self, destination: BrokerDestination) -> DestinationView:
        """One of them."""
        ...

    def durable_views(self, monotonic: float) -> list[DurableView]:
        """One per durable subscription."""
        ...

    def connection_views(self) -> list[ConnectionView]:
        """One per client connection."""
        ...

    def consumer_views(self) -> list[ConsumerView]:
        """One per consumer."""
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
        self,
        broker: ViewedBroker,
        overview: OverviewSource,
        connectors: Sequence[ViewedConnector],
        clock: Clock,
        facts: dict[str, object],
        store_directory: Path | None = None,
    ) -> None:
        """``store_directory`` is the directory of the store, None without one."""
        self._broker: Final = broker
        self._overview: Final = overview
        self._store_directory: Final = store_directory
        self._connectors: Final = connectors
        self._clock: Final = clock
        self._started: Final = clock.now().monotonic
        self._facts: Final = facts

    def status(self) -> View:
        """Who this is, since when, where it listens, how full it is, and totals."""
        statistics = self._overview.statistics()
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
        """Memory, store and disk in percent. Messages that are not persistent are written to the store's files as long
        as these are smaller than ``tempUsage``, so the temporary percentage is that of the same files.
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
        """The counters of every destination, by name. They are those of the moment at which each is asked for; one that
        is removed meanwhile is left out.
        """
        for destination in self._overview.homes():
            if not destination.removed:
                yield asdict(self._overview.destination_view(destination))

    def subscriptions(self) -> Iterator[View]:
        """Every durable subscription, by client id and name."""
        views = self._overview.durable_views(self._clock.now().monotonic)
        for view in sorted(views, key=lambda view: (view.client_id, view.name)):
            yield asdict(view)

    def connections(self) -> Iterator[View]:
        """Every client connection, by id."""
        for view in sorted(self._overview.connection_views(), key=lambda view: view.connection_id):
            yield asdict(view)

    def consumers(self) -> Iterator[View]:
        """Every consumer, by id."""
        for view in sorted(self._overview.consumer_views(), key=lambda view: view.consumer_id):
            yield asdict(view)


def percent(used_bytes: int, limit_bytes: int, free_bytes: int | None) -> int:
    """How much of its limit is used: the configured one, or what the disk can give where that is less."""
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
