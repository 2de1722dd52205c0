"""Cleans up after a closed connection or session, a slice at a time."""

from __future__ import annotations

from typing import Final

from spanwire.broker.advisories.advisory_topics import Advisories
from spanwire.broker.connections.connection_job import LeavingConnections
from spanwire.broker.connections.connection_state import ConnectionState
from spanwire.broker.connections.connections import Connections
from spanwire.broker.destinations.destinations import Destinations
from spanwire.broker.dispatch.broker_context import BrokerContext
from spanwire.broker.dispatch.destination import BrokerDestination
from spanwire.broker.dispatch.jobs import Job
from spanwire.broker.routing.consumer_removal import Leaving
from spanwire.broker.routing.consumers import ConsumerRegistry
from spanwire.broker.routing.message_return import LEAVING_STEPS, ReturningJob
from spanwire.broker.routing.parked_sends import ParkedSends
from spanwire.broker.routing.producers import ProducerRegistry
from spanwire.broker.scheduler.removal_job import RemovalJob
from spanwire.broker.transactions.xa_transactions import XaTransactions
from spanwire.model.acks import LAST_DELIVERED_UNKNOWN
from spanwire.model.destination import QUEUE, Destination

_NOWHERE: Final = Destination(QUEUE, "-")


class ConnectionCleanup(LeavingConnections):
    """Rolls back transactions, returns messages and removes the objects of a closed connection.

    The order of these steps prevents any further dispatch to the connection.
    """

    def __init__(
        self,
        context: BrokerContext,
        connections: Connections,
        xa: XaTransactions,
        consumer_registry: ConsumerRegistry,
        producer_registry: ProducerRegistry,
        parked: ParkedSends,
        destinations: Destinations,
        advisories: Advisories | None,
    ) -> None:
        self._context: Final[BrokerContext] = context
        self._connections: Final[Connections] = connections
        self._xa: Final[XaTransactions] = xa
        self._consumer_registry: Final[ConsumerRegistry] = consumer_registry
        self._producer_registry: Final[ProducerRegistry] = producer_registry
        self._parked: Final[ParkedSends] = parked
        self._destinations: Final[Destinations] = destinations
        self._advisories: Final[Advisories | None] = advisories

    def leave(self, state: ConnectionState) -> None:
        """Clean up after a closed connection. Further calls have no effect.

        Dispatch to the connection ends at once. Unfinished jobs and the rollback of large transactions run first. Then
        the connection's ids are free, and the remaining work takes as many slices as necessary.
        """
        if state.removed:
            return
        if not state.is_leaving:
            for subscription in state.consumers.values():
                subscription.started = False
            state.is_leaving = True
        if state.job is not None or self._xa.roll_back_large(state):
            return
        state.removed = True
        self._connections.leave(state)
        for subscription in state.consumers.values():
            subscription.leaving = True
        self._xa.connection_removed(state)
        consumers = self._consumer_registry.let_go(state, list(state.consumers), LAST_DELIVERED_UNKNOWN)
        self._parked.forget(state)
        state.output.leave()
        temporary = self._destinations.disown(state)
        departure = Departure(
            state, consumers, list(state.producers), temporary, self._producer_registry, self._destinations
        )
        departure.ends_with(self._advisories, self._parked)
        if departure.work():
            self._context.schedule(departure)

    def leave_session(self, state: ConnectionState, session: int, last_delivered_sequence: int) -> None:
        """Close a session with its consumers and producers."""
        keys = [key for key, one in state.consumers.items() if one.info.consumer_id.session_id == session]
        producers = [key for key, one in state.producers.items() if one.producer_id.session_id == session]
        consumers = self._consumer_registry.let_go(state, keys, last_delivered_sequence)
        departure = Departure(state, consumers, producers, [], self._producer_registry, self._destinations)
        if departure.work():
            self._context.schedule(departure)

    def finish(self) -> None:
        """Finish all pending cleanup, and removals of scheduled messages, before the broker stops."""
        for job in self._context.take_jobs(self._context.job_count()):
            if isinstance(job, (Departure, Leaving, RemovalJob, ReturningJob)):
                while job.work():
                    pass


class Departure(Job):
    """Cleanup of a connection or session whose consumers take no more messages."""

    def __init__(
        self,
        state: ConnectionState,
        consumers: Leaving,
        producers: list[str],
        temporary: list[BrokerDestination],
        producer_registry: ProducerRegistry,
        destinations: Destinations,
    ) -> None:
        self._state: Final[ConnectionState] = state
        self._consumers: Final[Leaving] = consumers
        self._are_consumers_left = True
        self._producers: Final[list[str]] = producers
        self._temporary: Final[list[BrokerDestination]] = temporary
        self._producer_registry: Final[ProducerRegistry] = producer_registry
        self._destinations: Final[Destinations] = destinations
        self._next_producer = 0
        self._next_temporary = 0
        self._advisories: Advisories | None = None
        self._parked: ParkedSends | None = None
        self.steps = 0

    def ends_with(self, advisories: Advisories | None, parked: ParkedSends) -> None:
        """Treat the cleanup as a whole connection: at the end publish an advisory and continue blocked sends."""
        self._advisories = advisories
        self._parked = parked

    def work(self) -> bool:
        """Do one slice.

        Returns:
            True if the cleanup is unfinished.
        """
        if self._are_consumers_left:
            self._are_consumers_left = self._consumers.work()
            if self._are_consumers_left:
                return True
        end = self.steps + LEAVING_STEPS
        while self.steps < end:
            if self._next_producer < len(self._producers):
                key = self._producers[self._next_producer]
                self._next_producer += 1
                if key in self._state.producers:
                    self.steps += 1 + self._producer_registry.remove(self._state, key)
            elif self._next_temporary < len(self._temporary):
                destination = self._temporary[self._next_temporary]
                self._next_temporary += 1
                self.steps += 1 + self._destinations.drop_left(destination, self._state.connection_id)
            else:
                self._end()
                return False
        return True

    def _end(self) -> None:
        if self._parked is None:
            return
        if self._advisories is not None:
            self._advisories.connection_removed(self._state.info)
        self._parked.unpark()
