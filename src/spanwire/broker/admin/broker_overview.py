"""Views of the whole broker for an operator, without changes to the broker."""

from __future__ import annotations

from typing import Final

from spanwire.broker.admin.views import (
    BrokerStatistics,
    ConnectionView,
    ConsumerView,
    DestinationView,
    DurableView,
    ProducerView,
    connection_view,
    consumer_view,
    destination_view,
    durable_view,
    producer_view,
)
from spanwire.broker.connections.connections import Connections
from spanwire.broker.destinations.destination_map import DestinationMap
from spanwire.broker.dispatch.broker_context import BrokerContext
from spanwire.broker.dispatch.destination import BrokerDestination
from spanwire.broker.dispatch.memory_usage import MemoryUsage, UsageLimits
from spanwire.broker.routing.flow_control import FlowControl
from spanwire.broker.transactions.xa_transactions import XaTransactions

MAX_CONSUMERS: Final = 50_000  # consumers in one answer, so that the answer fits the control socket
MAX_PRODUCERS: Final = 50_000  # producers in one answer, for the same reason


class Overview:
    """Makes views of one broker."""

    def __init__(
        self,
        context: BrokerContext,
        destination_map: DestinationMap,
        connections: Connections,
        usage: MemoryUsage,
        limits: UsageLimits,
        flow: FlowControl,
        xa: XaTransactions,
    ) -> None:
        self._context: Final[BrokerContext] = context
        self._map: Final[DestinationMap] = destination_map
        self._connections: Final[Connections] = connections
        self._usage: Final[MemoryUsage] = usage
        self._limits: Final[UsageLimits] = limits
        self._flow: Final[FlowControl] = flow
        self._xa: Final[XaTransactions] = xa

    def destination_views(self) -> list[DestinationView]:
        """Return all queues and topics, with advisory topics."""
        return [destination_view(destination, destination.consumer_count) for destination in self._map.all()]

    def destinations(self) -> list[BrokerDestination]:
        """Return all queues and topics by name, for work in slices."""
        return sorted(self._map.all(), key=_name)

    def destination_view(self, destination: BrokerDestination) -> DestinationView:
        """Return the view of a queue or topic."""
        return destination_view(destination, destination.consumer_count)

    def durable_views(self, monotonic: float) -> list[DurableView]:
        """Return all durable subscriptions."""
        return [durable_view(durable, monotonic) for durable in self._map.durables.values()]

    def connection_views(self) -> list[ConnectionView]:
        """Return all connections."""
        return [connection_view(state) for state in self._connections.all()]

    def consumer_views(self) -> list[ConsumerView]:
        """Return the consumers of all connections, `MAX_CONSUMERS` at most."""
        views: list[ConsumerView] = []
        for state in self._connections.all():
            for subscription in list(state.consumers.values())[: MAX_CONSUMERS - len(views)]:
                views.append(consumer_view(state, subscription))
        return views

    def producer_views(self) -> list[ProducerView]:
        """Return the producers of all connections, `MAX_PRODUCERS` at most."""
        views: list[ProducerView] = []
        for state in self._connections.all():
            for info in list(state.producers.values())[: MAX_PRODUCERS - len(views)]:
                views.append(producer_view(state, info))
        return views

    def statistics(self, with_totals: bool = True) -> BrokerStatistics:
        """Return totals over all destinations and durable subscriptions.

        Without ``with_totals`` those over destinations are 0, and the call takes no time for each of them.
        """
        destinations = self._map.all() if with_totals else []
        queues = list(self._map.queues.values()) if with_totals else []
        durables = list(self._map.durables.values())
        waiting_durably = sum([durable.queue.waiting() + durable.queue.in_flight for durable in durables])
        in_flight = sum([queue.in_flight for queue in queues])
        store_usage = self._context.store_usage
        return BrokerStatistics(
            connections=len(self._connections),
            destinations=len(destinations),
            enqueued=sum([destination.enqueued for destination in destinations]),
            dequeued=sum([destination.dequeued for destination in destinations]),
            dispatched=sum([destination.dispatched for destination in destinations]),
            expired=sum([destination.expired for destination in destinations]),
            pending=sum([destination.waiting() for destination in destinations]) + in_flight + waiting_durably,
            memory_bytes=self._usage.used_bytes,
            memory_limit_bytes=self._usage.limit_bytes,
            parked_sends=sum([len(state.parked) for state in self._flow.parked]),
            durable_subscriptions=len(durables),
            durable_subscriptions_away=len([durable for durable in durables if not durable.active]),
            durable_pending=waiting_durably,
            prepared_transactions=len(self._xa.prepared()),
            store_bytes=store_usage.used_bytes(),
            store_limit_bytes=self._limits.store_bytes,
            temporary_limit_bytes=self._limits.temporary_bytes,
            disk_full=not store_usage.has_room(),
        )


def _name(destination: BrokerDestination) -> str:
    return destination.name.qualified_name
