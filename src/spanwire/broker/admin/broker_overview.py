"""Views of the whole broker for an operator, without changes to the broker."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from spanwire.broker.admin.destination_changes import DestinationChanges
from spanwire.broker.admin.destination_details import DestinationDetails, destination_details
from spanwire.broker.admin.ledger_views import Ledger, LedgerLinkView, LedgerView
from spanwire.broker.admin.totals import Totals
from spanwire.broker.admin.views import (
    BrokerStatistics,
    ConnectionView,
    ConsumerView,
    DestinationView,
    DurableView,
    ProducerView,
    SessionView,
    connection_view,
    consumer_view,
    destination_view,
    durable_view,
    producer_view,
    session_views,
)
from spanwire.broker.admin.work_views import BranchView, JobView, StrategyView, branch_view, job_view, strategy_view
from spanwire.broker.connections.connection_state import ConnectionState
from spanwire.broker.connections.connections import Connections
from spanwire.broker.connections.xa_branch import Branch
from spanwire.broker.destinations.destination_map import DestinationMap
from spanwire.broker.dispatch.broker_context import BrokerContext
from spanwire.broker.dispatch.destination import BrokerDestination
from spanwire.broker.dispatch.memory_usage import MemoryUsage
from spanwire.broker.dispatch.slow_consumer_strategy import SlowConsumerWatch
from spanwire.broker.dispatch.subscription import Subscription
from spanwire.broker.policy.policy_map import PolicyMap
from spanwire.broker.routing.flow_control import FlowControl
from spanwire.broker.routing.parked_sends import ParkedSends
from spanwire.broker.scheduler.schedule import Job
from spanwire.broker.scheduler.scheduler import Scheduler
from spanwire.broker.topic.durable_subscription import DurableSubscription
from spanwire.broker.transactions.xa_transactions import XaTransactions
from spanwire.model.info import ProducerInfo
from spanwire.model.ledger import CLIENT


class Overview:
    """Makes views of one broker."""

    def __init__(
        self,
        context: BrokerContext,
        destination_map: DestinationMap,
        connections: Connections,
        usage: MemoryUsage,
        parked: ParkedSends,
        xa: XaTransactions,
        scheduler: Scheduler | None,
        policies: PolicyMap,
    ) -> None:
        self._context: Final[BrokerContext] = context
        self._map: Final[DestinationMap] = destination_map
        self._connections: Final[Connections] = connections
        self._usage: Final[MemoryUsage] = usage
        self._parked: Final[ParkedSends] = parked
        self._flow: Final[FlowControl] = parked.flow
        self._xa: Final[XaTransactions] = xa
        self._scheduler: Final[Scheduler | None] = scheduler
        self._policies: Final[PolicyMap] = policies
        self._ledger: Final[Ledger] = Ledger(context)

    def destination_views(self) -> list[DestinationView]:
        """Return all queues and topics, with advisory topics."""
        return [self.destination_view(destination) for destination in self._map.all()]

    def destinations(self) -> list[BrokerDestination]:
        """Return all queues and topics by name, for work in slices."""
        return sorted(self._map.all(), key=_name)

    def destination_view(self, destination: BrokerDestination) -> DestinationView:
        """Return the view of a queue or topic."""
        dead_letters = self._policies.takes_dead_letters(destination.name)
        return destination_view(destination, destination.consumer_count, dead_letters)

    def destination_details(self, destination: BrokerDestination) -> DestinationDetails:
        """Return the details of a queue or topic outside of lists."""
        return destination_details(destination)

    def destination_changes(self) -> DestinationChanges:
        """Return a finder of changed destinations."""
        return DestinationChanges(self._map, self._policies)

    def durables(self) -> list[DurableSubscription]:
        """Return all durable subscriptions by client id and name, for work in slices."""
        return sorted(self._map.durables.values(), key=_client_and_name)

    def durable_view(self, durable: DurableSubscription, monotonic: float) -> DurableView:
        """Return the view of a durable subscription. ``monotonic`` is the time in seconds."""
        return durable_view(durable, monotonic)

    def connections(self) -> list[ConnectionState]:
        """Return all connections by id, for work in slices."""
        return sorted(self._connections.all(), key=_connection_id)

    def brokers_linked_here(self) -> list[str]:
        """Return the names of brokers with a link of their own to this broker.

        Brokers without a number in the ledger are left out.
        """
        names = self._context.links.names()
        return sorted(
            {names[state.link] for state in self._connections.all() if state.forwards and state.link in names}
        )

    def connection_views(self) -> list[ConnectionView]:
        """Return all connections."""
        return [connection_view(state, self._context.wall_ms) for state in self._connections.all()]

    def connection_view(self, state: ConnectionState, wall_ms: int) -> ConnectionView:
        """Return the view of a connection at the time ``wall_ms``."""
        return connection_view(state, wall_ms)

    def consumers(self, state: ConnectionState) -> list[Subscription]:
        """Return the consumers of a connection that may get messages."""
        return state.receivers()

    def consumer_view(self, state: ConnectionState, consumer: Subscription) -> ConsumerView:
        """Return the view of a consumer."""
        return consumer_view(state, consumer)

    def producers(self, state: ConnectionState) -> list[ProducerInfo]:
        """Return the producers of a connection."""
        return list(state.producers.values())

    def producer_view(self, state: ConnectionState, producer: ProducerInfo) -> ProducerView:
        """Return the view of a producer."""
        return producer_view(state, producer)

    def sessions(self, state: ConnectionState) -> list[SessionView]:
        """Return the views of a connection's sessions."""
        return session_views(state)

    def strategies(self) -> list[SlowConsumerWatch]:
        """Return the watches over slow consumers."""
        return self._map.slow_consumer_watches()

    def strategy_view(self, watch: SlowConsumerWatch) -> StrategyView:
        """Return the view of a strategy for slow consumers."""
        return strategy_view(watch)

    def jobs(self) -> list[Job]:
        """Return the scheduled messages, for work in slices."""
        return [] if self._scheduler is None else list(self._scheduler.schedule.jobs.values())

    def job_view(self, job: Job) -> JobView:
        """Return the view of a scheduled message."""
        return job_view(job)

    def branches(self) -> list[Branch]:
        """Return the prepared XA branches, oldest first, for work in slices."""
        return self._xa.prepared_branches()

    def branch_view(self, branch: Branch) -> BranchView:
        """Return the view of a prepared XA branch."""
        return branch_view(branch)

    def ledger_views(self) -> Iterator[LedgerView]:
        """Yield the ledger of each queue and durable subscription, for work in slices."""
        return self._ledger.rows(self.destinations(), self.durables())

    def ledger_links(self) -> list[LedgerLinkView]:
        """Return the messages across the links to and from each other broker."""
        in_flight: dict[int, int] = {}
        for state in self._connections.all():
            if state.link != CLIENT:
                count = sum([one.in_flight.count for one in state.consumers.values() if one.info.destination.is_queue])
                in_flight[state.link] = in_flight.get(state.link, 0) + count
        return self._ledger.links(self._map.all(), in_flight)

    def totals(self, with_destinations: bool = True) -> Totals:
        """Return sums over all durable subscriptions, and over all destinations if asked.

        The caller adds up the sums in slices.
        """
        destinations = self._map.all() if with_destinations else []
        return Totals(destinations, list(self._map.durables.values()), list(self._context.measured))

    def statistics(self) -> BrokerStatistics:
        """Return the statistics with totals over all destinations and durable subscriptions, added up at once."""
        totals = self.totals()
        while totals.add():
            pass
        return self.statistics_of(totals)

    def statistics_of(self, totals: Totals) -> BrokerStatistics:
        """Return the statistics with totals added up before."""
        store_usage = self._context.store_usage
        sizes = totals.sizes if totals.sizes.count > 0 else None
        return BrokerStatistics(
            connections=len(self._connections),
            destinations=totals.destinations,
            enqueued=totals.enqueued,
            dequeued=totals.dequeued,
            dispatched=totals.dispatched,
            expired=totals.expired,
            pending=totals.pending,
            memory_bytes=self._usage.used_bytes,
            memory_limit_bytes=self._usage.limit_bytes,
            parked_sends=sum([len(state.parked) for state in self._parked.connections]),
            durable_subscriptions=totals.durables,
            durable_subscriptions_away=totals.durables_away,
            durable_pending=totals.durable_pending,
            prepared_transactions=len(self._xa.prepared_branches()),
            store_bytes=store_usage.used_bytes(),
            store_limit_bytes=self._flow.limits.store_bytes,
            temporary_limit_bytes=self._flow.limits.temporary_bytes,
            disk_full=not store_usage.has_room(),
            connections_ever=self._connections.entered,
            scheduled_messages=0 if self._scheduler is None else len(self._scheduler.schedule.jobs),
            maximum_uncommitted=self._connections.uncommitted.messages,
            refused_uncommitted=self._connections.uncommitted.exceeded,
            average_size_bytes=None if sizes is None else int(sizes.average()),
            least_size_bytes=None if sizes is None else sizes.least,
            greatest_size_bytes=None if sizes is None else sizes.greatest,
        )


def _name(destination: BrokerDestination) -> str:
    return destination.name.qualified_name


def _connection_id(state: ConnectionState) -> str:
    return state.connection_id


def _client_and_name(durable: DurableSubscription) -> tuple[str, str]:
    return durable.terms.client_id, durable.terms.name
