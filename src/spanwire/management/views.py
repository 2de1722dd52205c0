"""An operator's views of a running broker, as plain values for JSON, without secrets."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, fields
from itertools import islice
from pathlib import Path
from typing import Final, Protocol

from spanwire import __version__
from spanwire._build import COMPILED
from spanwire.broker.admin.destination_details import DestinationDetails
from spanwire.broker.admin.ledger_views import LEDGER_FIELDS, LedgerLinkView, LedgerView
from spanwire.broker.admin.totals import Totals
from spanwire.broker.admin.views import (
    BrokerStatistics,
    ConnectionView,
    ConsumerView,
    DestinationView,
    DurableView,
    ProducerView,
    SessionView,
)
from spanwire.broker.admin.work_views import BranchView, JobView, StrategyView
from spanwire.broker.connections.connection_state import ConnectionState
from spanwire.broker.connections.xa_branch import Branch
from spanwire.broker.dispatch.destination import BrokerDestination
from spanwire.broker.dispatch.slow_consumer_strategy import SlowConsumerWatch
from spanwire.broker.dispatch.subscription import Subscription
from spanwire.broker.scheduler.schedule import Job
from spanwire.broker.topic.durable_subscription import DurableSubscription
from spanwire.model.destination import QUEUE, Destination, parse_destination
from spanwire.model.errors import ConfigurationError
from spanwire.model.info import ProducerInfo
from spanwire.transports.base import Clock, ConnectorSettings

View = dict[str, object]
# Totals over destinations: `summary` leaves them out.
TOTALS: Final = ("destinations", "enqueued", "dequeued", "dispatched", "expired", "pending")
MAX_CONSUMERS: Final = 50_000  # consumers in one answer, so that the answer fits the control socket
MAX_PRODUCERS: Final = 50_000  # producers in one answer, for the same reason
MAX_SESSIONS: Final = 50_000  # sessions in one answer, for the same reason
DESTINATION_FIELDS: Final = tuple(field.name for field in fields(DestinationView))
DETAIL_FIELDS: Final = tuple(field.name for field in fields(DestinationDetails))


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

    def find_destination(self, destination: Destination) -> BrokerDestination | None:
        """Return the queue or topic of a name."""
        ...


class OverviewSource(Protocol):
    """The broker's views of the objects (``broker/admin/broker_overview.py``)."""

    def destinations(self) -> list[BrokerDestination]:
        """Return all queues and topics by name."""
        ...

    def destination_view(self, destination: BrokerDestination) -> DestinationView:
        """Return the view of a queue or topic."""
        ...

    def durables(self) -> list[DurableSubscription]:
        """Return all durable subscriptions by client id and name."""
        ...

    def durable_view(self, durable: DurableSubscription, monotonic: float) -> DurableView:
        """Return the view of a durable subscription."""
        ...

    def connections(self) -> list[ConnectionState]:
        """Return all connections by id."""
        ...

    def connection_view(self, state: ConnectionState, wall_ms: int) -> ConnectionView:
        """Return the view of a connection at a time."""
        ...

    def consumers(self, state: ConnectionState) -> list[Subscription]:
        """Return the consumers of a connection."""
        ...

    def consumer_view(self, state: ConnectionState, consumer: Subscription) -> ConsumerView:
        """Return the view of a consumer."""
        ...

    def producers(self, state: ConnectionState) -> list[ProducerInfo]:
        """Return the producers of a connection."""
        ...

    def producer_view(self, state: ConnectionState, producer: ProducerInfo) -> ProducerView:
        """Return the view of a producer."""
        ...

    def sessions(self, state: ConnectionState) -> list[SessionView]:
        """Return the views of a connection's sessions."""
        ...

    def jobs(self) -> list[Job]:
        """Return the scheduled messages."""
        ...

    def job_view(self, job: Job) -> JobView:
        """Return the view of a scheduled message."""
        ...

    def branches(self) -> list[Branch]:
        """Return the prepared XA branches."""
        ...

    def branch_view(self, branch: Branch) -> BranchView:
        """Return the view of a prepared XA branch."""
        ...

    def strategies(self) -> list[SlowConsumerWatch]:
        """Return the watches over slow consumers."""
        ...

    def strategy_view(self, watch: SlowConsumerWatch) -> StrategyView:
        """Return the view of a strategy for slow consumers."""
        ...

    def destination_details(self, destination: BrokerDestination) -> DestinationDetails:
        """Return the parts of a queue or topic that a list leaves out."""
        ...

    def ledger_views(self) -> Iterator[LedgerView]:
        """Yield the ledger of each queue and durable subscription."""
        ...

    def ledger_links(self) -> list[LedgerLinkView]:
        """Return the traffic of the links to and from each other broker."""
        ...

    def totals(self, with_destinations: bool = True) -> Totals:
        """Return sums over durable subscriptions and, if asked, destinations, to be added up in slices."""
        ...

    def statistics_of(self, totals: Totals) -> BrokerStatistics:
        """Return the statistics with the totals of an earlier sum."""
        ...


class ViewedConnector(Protocol):
    """The part of a transport connector used here."""

    connection_count: int
    accepted: int
    refused: int

    @property
    def settings(self) -> ConnectorSettings:
        """The settings."""
        ...

    @property
    def certificate_expires_s(self) -> int | None:
        """The end of the certificate in seconds since 1970; None without TLS."""
        ...

    @property
    def is_started(self) -> bool:
        """True while connections are accepted."""
        ...

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
        facts: Callable[[], View],
        store_directory: Path | None = None,
    ) -> None:
        """Take the sources of the views.

        ``facts`` are the parts of the status from other sources; ``store_directory`` is None without a store.
        """
        self._broker: Final = broker
        self._overview: Final = overview
        self._store_directory: Final = store_directory
        self._connectors: Final = connectors
        self._clock: Final = clock
        self._started: Final = clock.now().monotonic
        self._facts: Final = facts

    def commands(self) -> dict[str, Callable[[], object]]:
        """Return the commands without arguments by name."""
        return {
            "status": self.status,
            "summary": self.summary,
            "destinations": self.destinations,
            "subscriptions": self.subscriptions,
            "connections": self.connections,
            "consumers": self.consumers,
            "producers": self.producers,
            "sessions": self.sessions,
            "jobs": self.jobs,
            "branches": self.branches,
            "slow-consumer-strategies": self.strategies,
            "ledger": self.ledger,
            "ledger-links": self.ledger_links,
        }

    async def status(self) -> View:
        """Return name, process, uptime, connectors, usage and totals, added up over several turns."""
        return self._status(self._overview.statistics_of(await self._totals(with_destinations=True)))

    async def _totals(self, *, with_destinations: bool) -> Totals:
        totals = self._overview.totals(with_destinations)
        while totals.add():
            await asyncio.sleep(0)
        return totals

    async def summary(self) -> View:
        """Return the status without totals over destinations.

        A monitor with the list of the destinations adds up the totals.
        """
        totals = await self._totals(with_destinations=False)
        status = self._status(self._overview.statistics_of(totals))
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
            "time_ms": self._clock.now().wall_ms,
            "uptime_s": round(self._clock.now().monotonic - self._started, 1),
            "connectors": [connector_row(connector) for connector in self._connectors],
            "statistics": asdict(statistics),
            "usage": self._usage(statistics),
            **self._facts(),
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

    async def destination(self, arguments: Mapping[str, object]) -> View:
        """Return the counters and details of the queue or topic ``destination``.

        Raises:
            ConfigurationError: there is no such destination
        """
        name = arguments.get("destination")
        parsed = parse_destination(name, QUEUE) if isinstance(name, str) and name else None
        found = None if parsed is None else self._broker.find_destination(parsed)
        if found is None or found.removed:
            raise ConfigurationError(f"there is no destination {str(name)[:80]}; spanwire dstat lists them")
        counters = row_of(self._overview.destination_view(found), DESTINATION_FIELDS)
        return {**counters, **row_of(self._overview.destination_details(found), DETAIL_FIELDS)}

    def sessions(self) -> Iterator[View]:
        """Yield the sessions, `MAX_SESSIONS` at most, by connection and number."""
        return islice(self._all_sessions(), MAX_SESSIONS)

    def jobs(self) -> Iterator[View]:
        """Yield the scheduled messages, oldest job first."""
        for job in self._overview.jobs():
            yield asdict(self._overview.job_view(job))

    def branches(self) -> Iterator[View]:
        """Yield the prepared XA branches, oldest first."""
        for branch in self._overview.branches():
            yield asdict(self._overview.branch_view(branch))

    def strategies(self) -> Iterator[View]:
        """Yield the strategies for slow consumers in use by destinations, now or earlier."""
        for watch in self._overview.strategies():
            yield asdict(self._overview.strategy_view(watch))

    def ledger(self) -> Iterator[View]:
        """Yield the equations of queues and durable subscriptions, each with values of a separate moment."""
        for view in self._overview.ledger_views():
            yield row_of(view, LEDGER_FIELDS)

    def ledger_links(self) -> Iterator[View]:
        """Yield the traffic of the links to and from each other broker."""
        for view in self._overview.ledger_links():
            yield asdict(view)

    def destinations(self) -> Iterator[View]:
        """Yield the counters of every destination, by name.

        Each view has the values of its own moment. Destinations removed meanwhile are left out.
        """
        for destination in self._overview.destinations():
            if not destination.removed:
                yield row_of(self._overview.destination_view(destination), DESTINATION_FIELDS)

    def subscriptions(self) -> Iterator[View]:
        """Yield every durable subscription, by client id and name."""
        for durable in self._overview.durables():
            yield asdict(self._overview.durable_view(durable, self._clock.now().monotonic))

    def connections(self) -> Iterator[View]:
        """Yield every client connection, by id."""
        for state in self._overview.connections():
            yield asdict(self._overview.connection_view(state, self._clock.now().wall_ms))

    def consumers(self) -> Iterator[View]:
        """Yield the consumers, `MAX_CONSUMERS` at most, by connection and age."""
        return islice(self._all_consumers(), MAX_CONSUMERS)

    def producers(self) -> Iterator[View]:
        """Yield the producers, `MAX_PRODUCERS` at most, by connection and age."""
        return islice(self._all_producers(), MAX_PRODUCERS)

    def _all_sessions(self) -> Iterator[View]:
        for state in self._overview.connections():
            for session in self._overview.sessions(state):
                yield asdict(session)

    def _all_consumers(self) -> Iterator[View]:
        for state in self._overview.connections():
            for consumer in self._overview.consumers(state):
                yield asdict(self._overview.consumer_view(state, consumer))

    def _all_producers(self) -> Iterator[View]:
        for state in self._overview.connections():
            for producer in self._overview.producers(state):
                yield asdict(self._overview.producer_view(state, producer))


def connector_row(connector: ViewedConnector) -> View:
    """Return a connector as a row."""
    settings = connector.settings
    return {
        "name": connector.name,
        "uri": connector.uri,
        "connections": connector.connection_count,
        "started": connector.is_started,
        "connections_ever": connector.accepted,
        "refused": connector.refused,
        "maximum_connections": settings.maximum_connections,
        "maximum_producers": settings.max_producers,
        "maximum_consumers": settings.max_consumers,
        "link_stealing": settings.steals_links,
        "updates_clients": settings.updates_clients,
        "rebalances_clients": settings.rebalances_clients,
        "updates_on_remove": settings.updates_on_remove,
        "audits_producers": settings.audit_makers,
        "cluster_filter": ",".join(settings.cluster_filter),
        "auto_start": settings.auto_start,
        "discovery_uri": settings.discovery_uri,
        "certificate_expires_s": connector.certificate_expires_s,
    }


def row_of(view: object, names: tuple[str, ...]) -> View:
    """Return a flat view as a row; `asdict` copies values of any depth and takes ten times as long."""
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
