"""Totals over destinations and durable subscriptions, added up in slices."""

from __future__ import annotations

from typing import Final

from spanwire.broker.admin.destination_details import statistics_of
from spanwire.broker.dispatch.destination import BrokerDestination
from spanwire.broker.dispatch.history.message_statistics import Distribution
from spanwire.broker.queue.queue import Queue
from spanwire.broker.topic.durable_subscription import DurableSubscription

SLICE: Final = 1_000  # destinations or durable subscriptions added up in one turn; each takes about a microsecond


class Totals:
    """Sums over some destinations and durable subscriptions, complete once `add` has returned False.

    ``sizes`` are the sizes of the messages of the destinations ``measured``.
    """

    def __init__(
        self,
        destinations: list[BrokerDestination],
        durables: list[DurableSubscription],
        measured: list[BrokerDestination],
    ) -> None:
        self._measured: Final[list[BrokerDestination]] = measured
        self._destinations: Final[list[BrokerDestination]] = destinations
        self._durables: Final[list[DurableSubscription]] = durables
        self._next_destination = 0
        self._next_durable = 0
        self.destinations: Final[int] = len(destinations)
        self.durables: Final[int] = len(durables)
        self.enqueued = 0
        self.dequeued = 0
        self.dispatched = 0
        self.expired = 0
        self.pending = 0
        self.durables_away = 0
        self.durable_pending = 0
        self.sizes: Final[Distribution] = Distribution()

    def add(self, at_most: int = SLICE) -> bool:
        """Add at most so many destinations or durable subscriptions. Return True while some are left."""
        start = self._next_destination
        if start < self.destinations:
            self._next_destination = start + at_most
            for destination in self._destinations[start : start + at_most]:
                self._add_destination(destination)
            return True
        if self._measured:
            for destination in self._measured[-at_most:]:
                statistics = statistics_of(destination)
                if statistics is not None:
                    self.sizes.join(statistics.sizes)
            del self._measured[-at_most:]
            return True
        start = self._next_durable
        self._next_durable = start + at_most
        for durable in self._durables[start : start + at_most]:
            pending = durable.queue.waiting() + durable.queue.in_flight
            self.durable_pending += pending
            self.pending += pending
            if not durable.active:
                self.durables_away += 1
        return self._next_durable < self.durables

    def _add_destination(self, destination: BrokerDestination) -> None:
        self.enqueued += destination.enqueued
        self.dequeued += destination.dequeued
        self.dispatched += destination.dispatched
        self.expired += destination.expired
        self.pending += destination.waiting()
        if isinstance(destination, Queue):
            self.pending += destination.in_flight
